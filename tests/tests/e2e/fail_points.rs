//! The program is aborted at every fail point of the journal, and again at those that the recovery
//! after that passes: every payout once, whatever was cut where.
//!
//! By default a seeded sample of the pairs is tried; `INTENDANT_WHOLE=1` tries all.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use intendant_journal::disk::fail_points;
use intendant_tests::log_file::{active, end, overwrite, segments, set_len};
use intendant_tests::moments::{Moments, whole};
use intendant_tests::payouts::{Payouts, Variation};
use intendant_tests::program::{Build, Ended, Program};
use intendant_tests::scene::Scene;

/// All that a run changes.
const PARTS: [&str; 4] = ["data", "state", "config", Payouts::CHANGES];
const SIGABRT: i32 = 6;
/// Pairs tried by default.
const PAIRS: usize = 30;
/// Sites that an opening passes once at most.
const ONCE: [&str; 5] = ["folder_", "identity_", "lock_", "record_", "segments_dir_"];

struct Sweep {
    scene: Scene,
    payouts: Payouts,
    /// Where the program names the points it passes.
    passed: PathBuf,
    /// Points at which it was aborted.
    aborted: BTreeSet<String>,
}

impl Sweep {
    fn new(name: &str, repeat: String) -> Self {
        let scene = Scene::new(name, repeat);
        let payouts = Payouts::new(
            &scene,
            &Variation {
                rows: 10,
                concurrency: 5,
                // Arguments stay in the log, whose segments of 64 KiB roll; outputs become blobs.
                argument_bytes: 7_000,
                output_bytes: 10_000,
                ..Variation::default()
            },
        );
        scene.save(&PARTS, "fresh");
        let passed = scene.path("passed");
        Self {
            scene,
            payouts,
            passed,
            aborted: BTreeSet::new(),
        }
    }

    /// One start of the program, and the points it passed.
    fn start(&self, armed: &str) -> (Ended, BTreeSet<String>) {
        drop(fs::remove_file(&self.passed));
        let ended = Program::new(&self.scene)
            .build(Build::FailPoints)
            .fail_points(armed)
            .env("INTENDANT_FAIL_POINTS_REACHED", &self.passed)
            .arg("run")
            .arg(self.payouts.job())
            .args(["--segment-bytes", "65536"])
            .run();
        let passed = fs::read_to_string(&self.passed).unwrap_or_default();
        (ended, passed.lines().map(str::to_owned).collect())
    }

    /// Starts it with a point armed; whether that aborted it.
    fn abort_at(&mut self, point: &str, after: u64) -> bool {
        let (ended, _) = self.start(&format!("{point}={after}*off->return(abort)"));
        if ended.signal() == Some(SIGABRT) {
            self.aborted.insert(point.to_owned());
            return true;
        }
        assert_eq!(
            ended.code(),
            Some(0),
            "armed {point}: {}\n{}",
            ended.stdout,
            ended.stderr
        );
        false
    }

    /// Starts it unarmed and checks what the tools did in the end.
    fn finish(&self, what: &str) -> BTreeSet<String> {
        let (ended, passed) = self.start("");
        assert_eq!(
            ended.code(),
            Some(0),
            "after {what}: {}\n{}",
            ended.stdout,
            ended.stderr
        );
        self.payouts.ledger().assert_exact(self.payouts.asked());
        let marks = self.payouts.marks();
        assert_eq!(marks.again.len(), 0, "after {what}: {:?}", marks.again);
        passed
    }

    fn fresh(&self) {
        self.scene.restore(&PARTS, "fresh");
    }
}

/// True if there is a page left behind the log's end in its segment.
fn has_room(data: &Path) -> bool {
    let segment = active(data);
    end(&segment) + 4096 <= fs::metadata(&segment).unwrap().len()
}

/// A name, and what is done to the data folder.
type Preparation = (&'static str, fn(&Path));

/// States of the folder from which an opening passes points that no other opening passes.
fn preparations() -> Vec<Preparation> {
    vec![
        ("garbage behind the end", |data| {
            let segment = active(data);
            overwrite(&segment, end(&segment), &[0xa5; 40]);
        }),
        ("a segment that is too short", |data| {
            let segment = active(data);
            set_len(&segment, end(&segment) + 100);
        }),
        ("a segment that is too long", |data| {
            let segment = active(data);
            let bytes = fs::metadata(&segment).unwrap().len();
            set_len(&segment, bytes + 4096);
            overwrite(&segment, bytes, &[0xa5; 40]);
        }),
        ("a segment whose making was interrupted", |data| {
            let next = 1 + fs::read_dir(data.join("journal")).unwrap().count();
            let unfinished = data.join(format!("journal/{next:016}.seg.tmp"));
            fs::write(unfinished, [0xa5; 5000]).unwrap();
        }),
        ("a projection that is none", |data| {
            fs::write(data.join("projection.redb"), [0xa5; 8192]).unwrap();
        }),
    ]
}

/// What must fail first for a point to be passed.
const FIRST: [(&str, &str); 2] = [
    (
        "disk::group_zero::",
        "disk::group_write::before=3*off->1*return(enospc)",
    ),
    (
        "disk::group_zero_sync::",
        "disk::group_write::before=3*off->1*return(enospc)",
    ),
];

#[test]
fn p1_p6_p8_aborted_at_every_fail_point_and_again_in_recovery_each_payout_happens_once() {
    let mut moments = Moments::new(0x5eed_0fa1);
    let repeat = format!("INTENDANT_SEED={}", moments.seed());
    let mut sweep = Sweep::new("fail-points", repeat);
    let all = fail_points();
    // Points passed by the recovery that follows an abort, by where that was.
    let mut recoveries: BTreeMap<(String, u64), BTreeSet<String>> = BTreeMap::new();

    // What a run passes that nobody disturbs.
    let undisturbed = sweep.finish("nothing");
    assert!(
        segments(&sweep.scene.data()).len() >= 2,
        "the log never rolled"
    );
    sweep.fresh();
    for point in all.iter().filter(|point| undisturbed.contains(*point)) {
        // The first time it is passed, and a later one if there is one.
        let once = ONCE
            .iter()
            .any(|site| point.starts_with(&format!("disk::{site}")));
        let later = (!once).then(|| moments.within(1, 8));
        for after in [0].into_iter().chain(later) {
            let cut = sweep.abort_at(point, after);
            assert!(cut || after > 0, "{point} was passed and did not abort");
            if cut {
                let passed = sweep.finish(&format!("an abort at {point}, {after}"));
                recoveries.insert((point.clone(), after), passed);
            }
            sweep.fresh();
        }
    }

    // Aborted again in the recovery. Those that were never passed before come first.
    let mut pairs = Vec::new();
    let mut unseen: BTreeSet<&String> = all.iter().filter(|p| !undisturbed.contains(*p)).collect();
    let mut rest = Vec::new();
    for (cut, passed) in &recoveries {
        for point in passed {
            let pair = (cut.clone(), point.clone());
            if unseen.remove(point) {
                pairs.push(pair);
            } else {
                rest.push(pair);
            }
        }
    }
    let sample = if whole() { rest.len() } else { PAIRS };
    pairs.extend(moments.sample(&rest, sample));
    let mut twice = 0;
    for ((first, after), second) in pairs {
        sweep.fresh();
        let what = format!("an abort at {first}, {after}, then at {second}");
        // Which points a run passes after which others is not quite the same each time.
        if sweep.abort_at(&first, after) && sweep.abort_at(&second, 0) {
            twice += 1;
        }
        sweep.finish(&what);
    }
    assert!(
        twice * 2 > sample.min(PAIRS),
        "only {twice} runs were aborted twice"
    );

    // States that no abort leaves behind.
    for (what, prepare) in preparations() {
        // Where the log ends depends on what gathered: with room behind it in its segment.
        let room = [3, 2, 4, 1, 5, 6].into_iter().any(|after| {
            sweep.fresh();
            sweep.abort_at("disk::group_sync::after", after) && has_room(&sweep.scene.data())
        });
        assert!(room, "{what}: every cut left a log that fills its segment");
        sweep.scene.save(&PARTS, "cut");
        prepare(&sweep.scene.data());
        sweep.scene.save(&PARTS, "prepared");
        let passed = sweep.finish(what);
        let new = |point: &&String| whole() || !sweep.aborted.contains(*point);
        let recovery = |point: &&String| point.contains("recovery");
        let points = passed.iter().filter(|point| new(point) || recovery(point));
        for point in points.cloned().collect::<Vec<_>>() {
            sweep.scene.restore(&PARTS, "prepared");
            sweep.abort_at(&point, 0);
            sweep.finish(&format!("{what}, then an abort at {point}"));
        }
    }
    for (prefix, first) in FIRST {
        for point in all.iter().filter(|point| point.starts_with(prefix)) {
            sweep.fresh();
            let (ended, _) = sweep.start(&format!("{first};{point}=return(abort)"));
            assert_eq!(ended.signal(), Some(SIGABRT), "{point}: {}", ended.stderr);
            sweep.aborted.insert(point.clone());
            sweep.finish(&format!("{first}, then an abort at {point}"));
        }
    }

    let missed: Vec<_> = all
        .iter()
        .filter(|point| !sweep.aborted.contains(*point))
        .collect();
    assert!(missed.is_empty(), "never aborted at {missed:?}");
}
