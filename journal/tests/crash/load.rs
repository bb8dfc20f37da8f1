//! Scripted loads, and playing one on a disk while the model takes note.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use intendant_journal::disk::Site;
use intendant_journal::disk::simulated::SimulatedDisk;
use intendant_journal::error::OpenError;
use intendant_journal::face::{Batch, IntentLog};
use intendant_journal::format::entry::*;
use intendant_journal::{Journal, Options, simulated};

use crate::model::Model;
use crate::support::{SMALL, begin, intent, note, outcome, started, wait};

/// Where the journal is.
pub(crate) const FOLDER: &str = "/journal";

/// Shared with whoever clones the model at each change of the disk.
pub(crate) type Shared = Arc<Mutex<Model>>;

/// What is played.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Load {
    /// A first opening, single appends, groups of many callers, a second opening.
    Appends,
    /// Batches that fill segments, with spares made ahead and late.
    Roll,
    /// An opening whose own entry does not fit behind a torn end.
    RollAtOpening,
    /// Blobs and entries that name them.
    Blobs,
    /// Checkpoints of the projection between appends.
    Projection,
    /// Open intents that keep room in several spares, which an opening with larger segments
    /// discards.
    Resize,
    /// Signed checkpoints: of the first opening, of a full segment, on demand, at the end.
    Signed,
}

/// One step.
enum Step {
    Open {
        program: String,
        segment_bytes: u64,
    },
    /// One batch that lets effects start.
    Begin(Vec<Entry>),
    /// Batches handed over together, before the writer takes its turn.
    Append(Vec<Vec<Entry>>),
    /// Content stored, then an entry that names it.
    Blob {
        run: &'static str,
        content: Vec<u8>,
    },
    /// What the journal's threads would do meanwhile.
    Background,
    /// The projection made durable.
    Checkpoint,
    /// A signed checkpoint on demand.
    Sign,
    Close,
}

impl Load {
    pub(crate) const ALL: [Self; 7] = [
        Self::Appends,
        Self::Roll,
        Self::RollAtOpening,
        Self::Blobs,
        Self::Projection,
        Self::Resize,
        Self::Signed,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Appends => "appends",
            Self::Roll => "roll",
            Self::RollAtOpening => "roll-at-opening",
            Self::Blobs => "blobs",
            Self::Projection => "projection",
            Self::Resize => "resize",
            Self::Signed => "signed",
        }
    }

    /// The program's name in openings of the recovery: its length decides whether the opening's
    /// own entry fits on one page.
    pub(crate) fn program(self, opening: u32) -> String {
        match self {
            Self::RollAtOpening => format!("{opening} {}", "long ".repeat(1200)),
            _ => format!("program {opening}"),
        }
    }

    fn steps(self) -> Vec<Step> {
        let open = |number: u32| Step::Open {
            program: format!("load {number}"),
            segment_bytes: SMALL,
        };
        let batch = |value: &str| vec![note("r", value)];
        let one = |value: &str| Step::Append(vec![batch(value)]);
        // Of 64 frames of one size that is an odd multiple of 8 bytes, one begins with a sector. Of
        // two sizes that differ by 8, one is such a multiple.
        let equal = |bytes: usize| -> Vec<Entry> {
            let value = |at: usize| format!("{at:0bytes$}");
            (0..64).map(|at| note("t", &value(at))).collect()
        };
        match self {
            Self::Appends => vec![
                open(1),
                one("a"),
                Step::Append(vec![
                    batch("b"),
                    vec![started("s"), note("r", &"c".repeat(600)), note("s", "d")],
                    batch(&"e".repeat(5000)),
                ]),
                Step::Append(vec![equal(8), equal(16)]),
                Step::Background,
                one("f"),
                Step::Close,
                open(2),
                Step::Append(vec![batch("g"), batch("h")]),
                Step::Close,
            ],
            Self::Roll => vec![
                open(1),
                one(&"a".repeat(30_000)),
                one(&"b".repeat(30_000)),
                Step::Background,
                Step::Append(vec![batch(&"c".repeat(50_000)), batch(&"d".repeat(30_000))]),
                one("e"),
                Step::Close,
            ],
            // Fills the first segment up to its last page, and then that one too.
            Self::RollAtOpening => vec![open(1), one(&"a".repeat(50_000)), one("b"), one("c")],
            Self::Blobs => vec![
                open(1),
                Step::Blob {
                    run: "r",
                    content: vec![1; 10_000],
                },
                Step::Blob {
                    run: "r",
                    content: vec![2; 600],
                },
                Step::Blob {
                    run: "s",
                    content: vec![1; 10_000],
                },
                Step::Close,
            ],
            Self::Projection => vec![
                open(1),
                one("a"),
                Step::Background,
                Step::Checkpoint,
                Step::Append(vec![vec![started("s")], batch("b")]),
                Step::Background,
                one("c"),
                Step::Checkpoint,
                one("d"),
                Step::Close,
            ],
            Self::Signed => vec![
                open(1),
                one(&"a".repeat(30_000)),
                Step::Sign,
                one(&"b".repeat(30_000)),
                Step::Background,
                one("c"),
                Step::Close,
                open(2),
                one("d"),
                Step::Close,
            ],
            Self::Resize => vec![
                open(1),
                Step::Begin(
                    (0..6)
                        .map(|at| intent("r", &format!("step/{at}")))
                        .collect(),
                ),
                Step::Append(vec![vec![outcome("r", "step/0", "1".to_owned())]]),
                Step::Close,
                Step::Open {
                    program: "load 2".to_owned(),
                    segment_bytes: 2 * SMALL,
                },
                one("a"),
                Step::Close,
            ],
        }
    }

    /// Where the load itself must have been cut.
    pub(crate) fn sites(self) -> BTreeSet<Site> {
        use Site::*;
        let mut sites = BTreeSet::from([
            FolderCreate,
            FolderSync,
            LockCreate,
            LockWrite,
            IdentityCreate,
            IdentityWrite,
            IdentitySync,
            IdentityRename,
            IdentityDirSync,
            RecordDirCreate,
            RecordCreate,
            RecordWrite,
            RecordSync,
            RecordRename,
            RecordDirSync,
            SegmentsDirCreate,
            SegmentsDirSync,
            SegmentCreate,
            SegmentFill,
            SegmentHeader,
            SegmentSync,
            SegmentRename,
            SegmentDirSync,
            GroupWrite,
            GroupSync,
            MarkCreate,
            MarkWrite,
            ProjectionCreate,
            ProjectionWrite,
            ProjectionSetLen,
            ProjectionSync,
        ]);
        match self {
            Self::Appends => {
                sites.extend([MarkSync, RecoveryRewrite, RecoverySync, RecoveryDirSync])
            }
            Self::Blobs => sites.extend([
                BlobDirCreate,
                BlobDirSync,
                BlobCreate,
                BlobWrite,
                BlobSync,
                BlobRename,
            ]),
            Self::Signed => sites.extend([
                CheckpointsDirCreate,
                CheckpointsDirSync,
                CheckpointCreate,
                CheckpointWrite,
                CheckpointSync,
                CheckpointRename,
                CheckpointDirSync,
            ]),
            Self::Resize => sites.extend([SegmentRemove, RecoveryRewrite]),
            Self::Roll | Self::RollAtOpening | Self::Projection => {}
        }
        sites
    }

    /// Where recoveries from the load must have been cut.
    pub(crate) fn recovery_sites(self) -> BTreeSet<Site> {
        use Site::*;
        let mut sites = BTreeSet::from([
            RecoveryRewrite,
            RecoveryZero,
            RecoverySync,
            RecoveryDirSync,
            SegmentRemove,
            IdentityRemove,
            RecordRemove,
            GroupWrite,
            GroupSync,
            MarkWrite,
            ProjectionWrite,
        ]);
        // In these a group is torn rarely if ever, and a sample may have none.
        if matches!(self, Self::Blobs | Self::Projection) {
            sites.remove(&RecoveryZero);
        }
        sites
    }

    /// Plays the load on a disk. What fails is noted and played past, as a caller would.
    pub(crate) fn play(self, disk: &SimulatedDisk, model: &Shared) {
        let options = |program: &str| self.options(disk, program);
        play(self.steps(), options, model);
    }

    /// How this load's journal is opened.
    pub(crate) fn options(self, disk: &SimulatedDisk, program: &str) -> Options {
        let options = simulated::options(disk, 7).program(program);
        match self {
            Self::Signed => options.signer(simulated::signer()),
            _ => options,
        }
    }
}

/// Another journal that did the same, entries of the same lengths at the same places.
pub(crate) fn twin_of(load: Load, disk: &SimulatedDisk) {
    let mut steps = load.steps();
    for step in &mut steps {
        if let Step::Append(batches) = step {
            for entry in batches.iter_mut().flatten() {
                entry.at.wall_ms += 1;
            }
        }
    }
    let options = |program: &str| simulated::options(disk, 8).program(program);
    play(steps, options, &Shared::default());
}

fn play(steps: Vec<Step>, options: impl Fn(&str) -> Options, model: &Shared) {
    let mut journal = None;
    for step in steps {
        match (step, &journal) {
            (
                Step::Open {
                    program,
                    segment_bytes,
                },
                _,
            ) => {
                let options = options(&program).segment_bytes(segment_bytes);
                journal = open(&options, model).ok();
            }
            (_, None) => {}
            (Step::Append(batches), Some(journal)) => append(journal, model, batches),
            (Step::Begin(entries), Some(journal)) => {
                let at = model.lock().unwrap().hand_over(entries.clone());
                let settled = begin(journal, entries);
                model.lock().unwrap().settle(at, &settled);
            }
            (Step::Blob { run, content }, Some(journal)) => blob(journal, model, run, content),
            (Step::Background, Some(journal)) => simulated::run_background(journal),
            // What cannot be signed is signed later; nobody was promised anything.
            (Step::Sign, Some(journal)) => drop(journal.checkpoint()),
            (Step::Checkpoint, Some(journal)) => simulated::checkpoint_projection(journal),
            (Step::Close, Some(_)) => journal = None,
        }
    }
}

/// Opens the journal, creating it if there is none.
pub(crate) fn open(options: &Options, model: &Shared) -> Result<Journal, Box<OpenError>> {
    let opened = simulated::opened_entry(options);
    let at = model.lock().unwrap().open(opened);
    let journal = options.open_or_create(Path::new(FOLDER));
    let mut model = model.lock().unwrap();
    match &journal {
        Ok(journal) => model.opened(at, journal.recovered().end, journal.epoch()),
        // Its entry may be in the log all the same.
        Err(_) => model.not_opened(at),
    }
    journal.map_err(Box::new)
}

/// Hands batches over together, then waits for each.
pub(crate) fn append(journal: &Journal, model: &Shared, batches: Vec<Vec<Entry>>) {
    let handed: Vec<_> = batches
        .into_iter()
        .map(|entries| {
            let at = model.lock().unwrap().hand_over(entries.clone());
            let batch = Batch {
                entries,
                starts_effects: false,
            };
            (at, journal.append(batch))
        })
        .collect();
    for (at, append) in handed {
        let settled = wait(append);
        model.lock().unwrap().settle(at, &settled);
    }
}

fn blob(journal: &Journal, model: &Shared, run: &str, content: Vec<u8>) {
    let Ok(blob) = journal.put_blob(&content) else {
        return;
    };
    model.lock().unwrap().stored(blob, content);
    let mut entry = outcome(run, "step/0", String::new());
    let Body::Outcome(body) = &mut entry.body else {
        unreachable!("made so above")
    };
    body.outcome = Outcome::Succeeded(Payload::BytesBlob(blob));
    append(journal, model, vec![vec![entry]]);
}
