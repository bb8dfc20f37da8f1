//! Plays a load, cuts it everywhere, cuts the recovery everywhere, and has each end judged.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use intendant_journal::disk::Site;
use intendant_journal::disk::simulated::{Fate, SimulatedDisk};
use proptest::test_runner::TestRng;

use crate::load::{Load, Shared};
use crate::masks::{Crash, chance, crashes, random};
use crate::model::Model;
use crate::oracle::judge;
use crate::schedule::{Blow, Schedule};

/// The disk and what callers know, right before a change.
pub(crate) struct Point {
    pub(crate) disk: SimulatedDisk,
    pub(crate) model: Model,
    /// The change; its number is the length of the record at the end, where there is none.
    pub(crate) number: u64,
    pub(crate) site: Option<Site>,
    pub(crate) what: String,
}

/// The points that a piece of work passes, its end included.
pub(crate) fn points<T>(
    disk: &SimulatedDisk,
    model: &Shared,
    work: impl FnOnce() -> T,
) -> (Vec<Point>, T) {
    let points = Arc::new(Mutex::new(Vec::new()));
    let (theirs, known) = (Arc::clone(&points), Arc::clone(model));
    disk.watch(move |disk, operation| {
        theirs.lock().unwrap().push(Point {
            disk: disk.killed(),
            model: known.lock().unwrap().clone(),
            number: operation.number,
            site: Some(operation.site),
            what: operation.to_string(),
        });
    });
    let done = work();
    disk.unwatch();
    let mut points = std::mem::take(&mut *points.lock().unwrap());
    points.push(Point {
        disk: disk.killed(),
        model: model.lock().unwrap().clone(),
        number: disk.changes(),
        site: None,
        what: "the end".to_owned(),
    });
    (points, done)
}

fn after(point: &Point, crash: &Crash) -> SimulatedDisk {
    match crash {
        Crash::Kill => point.disk.killed(),
        Crash::Cut(fates) => point.disk.cut(fates),
    }
}

/// How much of the campaign is played: crashes of the load, of the recoveries, and of the recoveries
/// from those, about.
#[derive(Clone, Copy)]
struct Budget {
    /// Combinations by chance at each point with many changes.
    more: usize,
    first: usize,
    second: usize,
    third: usize,
}

/// Everything once, and of the third depth a sample.
const WHOLE: Budget = Budget {
    more: 16,
    first: usize::MAX,
    second: usize::MAX,
    third: 100_000,
};

const SAMPLE: Budget = Budget {
    more: 2,
    first: 600,
    second: 600,
    third: 150,
};

/// So many of so many.
#[derive(Clone, Copy)]
struct Share {
    of: usize,
    among: usize,
}

impl Share {
    fn of(of: usize, among: usize) -> Self {
        Self {
            of,
            among: among.max(1),
        }
    }

    /// How many fall to one of them: on average as many as fall to each.
    fn draw(self, random: &mut TestRng) -> usize {
        let rest = self.of % self.among;
        self.of / self.among + usize::from(chance(random, self.among) < rest)
    }
}

/// What was seen, so that a campaign that sees nothing fails.
#[derive(Default)]
struct Seen {
    points: usize,
    first: usize,
    second: usize,
    third: usize,
    sites: BTreeSet<Site>,
    recovery_sites: BTreeSet<Site>,
    /// Batches nobody had been told of that were there, and that were not.
    kept: usize,
    dropped: usize,
}

pub(crate) struct Campaign {
    load: Load,
    budget: Budget,
    /// Cut the load at this place alone.
    only: Option<Site>,
    random: TestRng,
    seen: Seen,
}

impl Campaign {
    /// A sample, or everything if `INTENDANT_WHOLE` is set.
    pub(crate) fn of(load: Load) -> Self {
        let whole = std::env::var_os("INTENDANT_WHOLE").is_some();
        let seed = match std::env::var("INTENDANT_SEED") {
            Ok(seed) => seed.parse().expect("INTENDANT_SEED is a number"),
            Err(_) => 1,
        };
        Self {
            load,
            budget: if whole { WHOLE } else { SAMPLE },
            only: None,
            random: random(seed),
            seen: Seen::default(),
        }
    }

    /// A sample of the crashes at one place of the load, and many of the recoveries from them.
    #[cfg(feature = "mutants")]
    pub(crate) fn at(load: Load, site: Site) -> Self {
        Self {
            budget: Budget {
                more: 4,
                first: usize::MAX,
                second: 6000,
                third: 0,
            },
            only: Some(site),
            ..Self::of(load)
        }
    }

    /// Plays it and fails on the first violation, or if it has not seen what it should.
    pub(crate) fn run(mut self) {
        if let Err(violation) = self.play() {
            panic!("{violation}");
        }
        let seen = &self.seen;
        println!(
            "{}: {} points; crashes: {} of the load, {} within recovery, {} within the recovery from \
             those; of unacknowledged batches {} survived and {} did not",
            self.load.name(),
            seen.points,
            seen.first,
            seen.second,
            seen.third,
            seen.kept,
            seen.dropped
        );
        let missed: Vec<_> = self
            .load
            .sites()
            .difference(&self.seen.sites)
            .copied()
            .collect();
        assert!(missed.is_empty(), "never cut at {missed:?}");
        let missed: Vec<_> = self
            .load
            .recovery_sites()
            .difference(&self.seen.recovery_sites)
            .copied()
            .collect();
        assert!(missed.is_empty(), "no recovery was cut at {missed:?}");
        assert!(self.seen.kept > 0, "no unacknowledged batch ever survived");
        assert!(
            self.seen.dropped > 0,
            "no unacknowledged batch was ever lost"
        );
        assert!(
            self.seen.second > 100 && self.seen.third > 10,
            "too few crashes"
        );
    }

    /// The first violation, if there is one.
    pub(crate) fn play(&mut self) -> Result<(), String> {
        let disk = SimulatedDisk::new();
        let model = Shared::default();
        let (points, ()) = points(&disk, &model, || self.load.play(&disk, &model));
        self.seen.points = points.len();
        self.seen
            .sites
            .extend(points.iter().filter_map(|point| point.site));
        let points: Vec<Point> = match self.only {
            Some(site) => points
                .into_iter()
                .filter(|it| it.site == Some(site))
                .collect(),
            None => points,
        };
        let firsts = self.all(&points, self.budget.first);
        let deeper = [
            Share::of(self.budget.second, firsts.len()),
            Share::of(self.budget.third, self.budget.second),
        ];
        for (at, crash) in firsts {
            let blow = Blow {
                point: points[at].number,
                crash,
            };
            self.seen.first += 1;
            self.recover(&points[at], vec![blow], &deeper)?;
        }
        Ok(())
    }

    /// Every crash of every point; if there are more than `at_most`, that many by chance, each point
    /// as likely as any other.
    fn all(&mut self, points: &[Point], at_most: usize) -> Vec<(usize, Crash)> {
        let mut left: Vec<Vec<(usize, Crash)>> = Vec::new();
        for (at, point) in points.iter().enumerate() {
            let crashes = crashes(&point.disk.unsynced(), self.budget.more, &mut self.random);
            left.push(crashes.into_iter().map(|crash| (at, crash)).collect());
        }
        if left.iter().map(Vec::len).sum::<usize>() <= at_most {
            return left.into_iter().flatten().collect();
        }
        let mut chosen = Vec::new();
        while chosen.len() < at_most {
            let at = chance(&mut self.random, left.len());
            let crashes = &mut left[at];
            chosen.push(crashes.swap_remove(chance(&mut self.random, crashes.len())));
            if crashes.is_empty() {
                left.swap_remove(at);
            }
        }
        chosen
    }

    /// Recovers from the last blow, and cuts that in turn, about so many times.
    fn recover(&mut self, point: &Point, blows: Vec<Blow>, deeper: &[Share]) -> Result<(), String> {
        let last = blows.last().expect("there is a blow to recover from");
        let disk = after(point, &last.crash);
        let model = Shared::new(Mutex::new(point.model.clone()));
        let number = u32::try_from(blows.len()).expect("few blows");
        let (points, judged) = points(&disk, &model, || judge(self.load, &disk, &model, number));
        judged.map_err(|why| {
            let schedule = Schedule {
                load: self.load,
                blows: blows.clone(),
            };
            format!(
                "{why}\nthe change before which it was cut: {}\nreplay with INTENDANT_CRASH='{schedule}'",
                point.what
            )
        })?;
        let (kept, dropped) = point.model.fates(&model.lock().unwrap());
        self.seen.kept += kept;
        self.seen.dropped += dropped;
        self.seen
            .recovery_sites
            .extend(points.iter().filter_map(|point| point.site));
        let Some((share, deeper)) = deeper.split_first() else {
            return Ok(());
        };
        let count = share.draw(&mut self.random);
        if count == 0 {
            return Ok(());
        }
        for (at, crash) in self.all(&points, count) {
            match blows.len() {
                1 => self.seen.second += 1,
                _ => self.seen.third += 1,
            }
            let blow = Blow {
                point: points[at].number,
                crash,
            };
            self.recover(&points[at], [&*blows, &[blow]].concat(), deeper)?;
        }
        Ok(())
    }
}

/// Plays one schedule; gives all changes of the disk on the way and the judgement of the end.
fn play(schedule: &Schedule) -> (Vec<String>, Result<(), String>) {
    let mut disk = SimulatedDisk::new();
    let mut model = Shared::default();
    let (mut passed, ()) = points(&disk, &model, || schedule.load.play(&disk, &model));
    let mut changes = Vec::new();
    let mut judged = Ok(());
    for (blow, number) in schedule.blows.iter().zip(1..) {
        let at = passed.iter().position(|point| point.number >= blow.point);
        let at = at.unwrap_or(passed.len() - 1);
        changes.extend(passed[..at].iter().map(|point| point.what.clone()));
        for (unsynced, fate) in passed[at].disk.unsynced().iter().zip(match &blow.crash {
            Crash::Kill => vec![Fate::Whole; passed[at].disk.unsynced().len()],
            Crash::Cut(fates) => fates.clone(),
        }) {
            let path = unsynced.path.display();
            changes.push(format!("  {fate}: {} of {path}", unsynced.what));
        }
        changes.push(format!("-- {:?} --", blow.crash));
        disk = after(&passed[at], &blow.crash);
        model = Shared::new(Mutex::new(passed[at].model.clone()));
        let (next, next_judged) = points(&disk, &model, || {
            judge(schedule.load, &disk, &model, number)
        });
        (passed, judged) = (next, next_judged);
    }
    changes.extend(passed.iter().map(|point| point.what.clone()));
    changes.push(format!("{:x}", disk.fingerprint()));
    (changes, judged)
}

pub(crate) fn replay() {
    let text = std::env::var("INTENDANT_CRASH");
    let text = text.unwrap_or_else(|_| "appends 60 KILL / 3 KILL".to_owned());
    let schedule: Schedule = text.parse().unwrap();
    assert_eq!(schedule.to_string(), text, "a schedule is its own text");
    let (changes, judged) = play(&schedule);
    println!("{}", changes.join("\n"));
    judged.unwrap();
}

/// One seed twice: the same changes in the same order, and the same bytes in the end.
pub(crate) fn is_deterministic() {
    for load in Load::ALL {
        let schedule = Schedule {
            load,
            blows: vec![Blow {
                point: u64::MAX,
                crash: Crash::Kill,
            }],
        };
        let (once, judged) = play(&schedule);
        judged.unwrap();
        let (twice, _) = play(&schedule);
        for (one, two) in once.iter().zip(&twice) {
            assert_eq!(one, two, "{}", load.name());
        }
        assert_eq!(once.len(), twice.len());
    }
}
