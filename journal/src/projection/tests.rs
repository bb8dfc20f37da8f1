use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::disk::watched::WatchedDisk;
use crate::format::entry::{
    Body, Digest, End, Entry, Epoch, Moment, NotedEntry, Opened, PassEnded, PassStarted, Payload,
    ScopePath,
};

mod damage;

const JOURNAL: JournalId = JournalId([5; 16]);

struct Room {
    folder: tempfile::TempDir,
    disk: WatchedDisk,
}

impl Room {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            disk: WatchedDisk::default(),
        }
    }

    fn open(&self) -> Opening {
        self.open_for(JOURNAL).unwrap()
    }

    fn open_for(&self, journal: JournalId) -> Result<Opening, OpenError> {
        Projection::open(
            Arc::new(self.disk.clone()),
            self.folder.path(),
            journal,
            Drive::Threads,
        )
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(FILE_NAME)
    }

    fn aside(&self, number: u32) -> PathBuf {
        self.folder
            .path()
            .join(format!("{FILE_NAME}.damaged-{number}"))
    }

    /// Another folder with the file as a crash at this moment would leave it.
    fn crashed(&self) -> Self {
        let other = Self::new();
        std::fs::copy(self.path(), other.path()).unwrap();
        other
    }
}

fn recorded(sequence: u64, run: Option<&str>, body: Body) -> Recorded {
    Recorded {
        sequence: Sequence(sequence),
        epoch: Epoch(1),
        entry: Entry {
            at: Moment {
                wall_ms: -5,
                boot_ms: sequence,
            },
            run: run.map(str::to_owned),
            body,
        },
    }
}

fn noted(value: String) -> Body {
    Body::Noted(NotedEntry {
        path: ScopePath("0".to_owned()),
        what: "random".to_owned(),
        value,
    })
}

fn started(pass: u32) -> Body {
    Body::PassStarted(PassStarted {
        workflow: "refunds".to_owned(),
        version: 1,
        pass,
        input: Payload::Json("{}".to_owned()),
        input_digest: Digest([1; 32]),
    })
}

/// A log: its first entry is of no run, then those of `runs` runs in turn.
fn log(entries: u64, runs: u64) -> Vec<Recorded> {
    let opened = Body::Opened(Opened {
        pid: 1,
        boot_id: "boot".to_owned(),
        program: "test".to_owned(),
    });
    let mut log = vec![recorded(1, None, opened)];
    for sequence in 2..=entries {
        let run = format!("run-{}", sequence % runs);
        let body = match sequence {
            sequence if sequence < 2 + runs => started(1),
            sequence if sequence + runs > entries && sequence.is_multiple_of(2) => {
                Body::PassEnded(PassEnded {
                    pass: 1,
                    end: End::Failed("no".to_owned()),
                })
            }
            _ => noted("7".repeat(usize::try_from(sequence % 97).unwrap())),
        };
        log.push(recorded(sequence, Some(&run), body));
    }
    log
}

/// Everything that can be asked, as a model answers it from the log alone.
fn model(log: &[Recorded]) -> (Vec<RunRow>, BTreeMap<String, Vec<Recorded>>) {
    let mut rows: BTreeMap<String, RunRow> = BTreeMap::new();
    let mut histories: BTreeMap<String, Vec<Recorded>> = BTreeMap::new();
    for recorded in log {
        if let Some(run) = &recorded.entry.run {
            let row = apply::apply(rows.remove(run), recorded).unwrap();
            rows.insert(run.clone(), row);
            histories
                .entry(run.clone())
                .or_default()
                .push(recorded.clone());
        }
    }
    let mut rows: Vec<RunRow> = rows.into_values().collect();
    rows.sort_by_key(|row| row.first);
    (rows, histories)
}

/// Asserts that the projection answers as the log does.
fn assert_holds(projection: &Projection, log: &[Recorded]) {
    let (rows, histories) = model(log);
    assert_eq!(projection.runs(RunFilter::All).unwrap(), rows);
    let open: Vec<RunRow> = rows.iter().filter(|row| !row.ended).cloned().collect();
    assert_eq!(projection.runs(RunFilter::Open).unwrap(), open);
    for (run, history) in histories {
        assert_eq!(projection.history(&run).unwrap(), history);
    }
    assert_eq!(projection.history("nobody").unwrap(), []);
}

#[test]
fn what_was_fed_is_seen_by_the_next_question() {
    let room = Room::new();
    let opening = room.open();
    assert_eq!((opening.applied, opening.set_aside), (Sequence(0), None));
    let log = log(40, 3);
    for upto in 1..=log.len() {
        opening.projection.feed(vec![log[upto - 1].clone()]);
        assert_holds(&opening.projection, &log[..upto]);
    }
    opening.projection.wait_for_backlog(0);
}

#[test]
fn what_was_fed_is_there_after_a_clean_end() {
    let room = Room::new();
    let log = log(3_000, 11);
    room.open().projection.feed(log[..2_000].to_vec());
    let opening = room.open();
    assert_eq!(
        opening.applied,
        Sequence(2_000),
        "all that was fed is applied"
    );
    // Feeding again what is there does no harm.
    opening.projection.feed(log[1_500..].to_vec());
    assert_holds(&opening.projection, &log);
}

#[test]
fn after_a_crash_the_rest_of_the_log_makes_it_whole() {
    let room = Room::new();
    let log = log(500, 7);
    room.open().projection.feed(log[..200].to_vec());
    let opening = room.open();
    opening.projection.feed(log[200..300].to_vec());
    // The question makes sure that these are applied, in memory only.
    assert_holds(&opening.projection, &log[..300]);

    let crashed = room.crashed();
    let after = crashed.open();
    assert_eq!(after.set_aside, None);
    assert_eq!(after.applied, Sequence(200), "the last checkpoint");
    after.projection.feed(log[200..].to_vec());
    assert_holds(&after.projection, &log);
}

#[test]
fn many_entries_make_a_checkpoint() {
    let room = Room::new();
    let log = log(60_000, 50);
    let opening = room.open();
    opening.projection.feed(log.clone());
    assert_eq!(opening.projection.history("run-1").unwrap().len(), 1_199);
    let after = room.crashed().open();
    assert!(after.applied >= Sequence(50_000), "{}", after.applied);
    after.projection.feed(log.clone());
    assert_holds(&after.projection, &log);
}

#[test]
fn a_long_history_is_kept_in_several_chunks() {
    let room = Room::new();
    let log: Vec<Recorded> = (1..=20)
        .map(|sequence| recorded(sequence, Some("r"), noted("9".repeat(60_000))))
        .collect();
    let opening = room.open();
    opening.projection.feed(log.clone());
    assert_eq!(opening.projection.history("r").unwrap(), log);
}

#[test]
fn a_gap_stops_projecting() {
    let room = Room::new();
    let log = log(50, 3);
    let opening = room.open();
    opening.projection.feed(log[..10].to_vec());
    opening.projection.feed(log[11..].to_vec());
    let error = opening.projection.runs(RunFilter::All).unwrap_err();
    assert!(matches!(error, ReadError::Projection { .. }), "{error}");
    assert!(error.to_string().contains("entry 12"), "{error}");
    drop(opening);

    let after = room.open();
    assert_eq!(after.set_aside, None, "the file itself is good");
    let rest = usize::try_from(after.applied.0).unwrap();
    after.projection.feed(log[rest..].to_vec());
    assert_holds(&after.projection, &log);
}

#[test]
fn questions_and_feeding_from_many_threads() {
    let room = Room::new();
    let opening = room.open();
    let projection = &opening.projection;
    let log = log(2_000, 4);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for piece in log.chunks(7) {
                projection.feed(piece.to_vec());
            }
        });
        for run in 0..4 {
            scope.spawn(move || {
                let run = format!("run-{run}");
                let mut before = 0;
                for _ in 0..20 {
                    let found = projection.history(&run).unwrap().len();
                    assert!(found >= before, "nothing goes away");
                    before = found;
                }
            });
        }
    });
    assert_holds(projection, &log);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// However the log was cut into pieces and openings, the content is that of the log.
    #[test]
    fn a_rebuild_equals_the_live_one(
        bodies in prop::collection::vec((0_u8..6, 0_u8..5), 1..120),
        cuts in prop::collection::vec((1_usize..30, any::<bool>()), 0..12),
    ) {
        let log: Vec<Recorded> = (1..)
            .zip(&bodies)
            .map(|(sequence, (run, kind))| {
                let name = format!("run-{run}");
                let body = match kind {
                    0 => started(1),
                    1 => started(2),
                    2 => Body::PassEnded(PassEnded { pass: 1, end: End::Cancelled(String::new()) }),
                    3 => Body::PassEnded(PassEnded {
                        pass: 2,
                        end: End::Completed(Payload::Json("1".to_owned())),
                    }),
                    _ => noted(sequence.to_string()),
                };
                recorded(sequence, (*run > 0).then_some(name.as_str()), body)
            })
            .collect();
        let room = Room::new();
        let mut live = room.open();
        let mut rest = &log[..];
        for (count, reopen) in cuts {
            let (piece, left) = rest.split_at(count.min(rest.len()));
            live.projection.feed(piece.to_vec());
            rest = left;
            if reopen {
                drop(live);
                live = room.open();
                prop_assert_eq!(live.applied.0 as usize, log.len() - rest.len());
            }
        }
        live.projection.feed(rest.to_vec());
        let rebuilt_room = Room::new();
        let rebuilt = rebuilt_room.open();
        rebuilt.projection.feed(log.clone());
        for opening in [&live, &rebuilt] {
            let (rows, histories) = model(&log);
            prop_assert_eq!(opening.projection.runs(RunFilter::All).unwrap(), rows);
            for (run, history) in histories {
                prop_assert_eq!(opening.projection.history(&run).unwrap(), history);
            }
        }
    }
}
