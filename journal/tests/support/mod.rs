//! What the tests of the journal share: folders, entries, and a disk that fails on demand.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod faulty;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use intendant_journal::disk::Site;
use intendant_journal::error::AppendError;
use intendant_journal::face::{Append, Appended, Batch, IntentLog};
use intendant_journal::format::entry::*;
use intendant_journal::{Journal, Options};

/// Smallest segments.
pub const SMALL: u64 = 64 * 1024;

/// A folder for a journal and one for the user's state.
pub struct Place {
    root: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
        }
    }

    pub fn data(&self) -> PathBuf {
        self.root.path().join("data")
    }

    pub fn state(&self) -> PathBuf {
        self.root.path().join("state")
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    pub fn options(&self) -> Options {
        Options::new()
            .segment_bytes(SMALL)
            .state_home(self.state())
            .program("test 1")
    }

    pub fn open(&self) -> Journal {
        self.options().open_or_create(self.data()).unwrap()
    }

    pub fn segment(&self, number: u64) -> PathBuf {
        self.data().join(format!("journal/{number:016}.seg"))
    }

    /// Every file below the data folder, with its content.
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        read_tree(&self.data(), &mut files);
        files
    }

    /// A copy of the data folder as another place, with the record outside rewritten by opening.
    pub fn copy(&self) -> Self {
        let copy = Self::new();
        copy_tree(&self.data(), &copy.data());
        copy
    }
}

fn read_tree(folder: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_tree(&path, files);
        } else {
            files.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
}

pub fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_tree(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

pub fn note(run: &str, value: &str) -> Entry {
    Entry {
        at: Moment::default(),
        run: Some(run.into()),
        body: Body::Noted(NotedEntry {
            path: ScopePath("note/0".into()),
            what: "now".into(),
            value: value.into(),
        }),
    }
}

pub fn started(run: &str) -> Entry {
    Entry {
        at: Moment::default(),
        run: Some(run.into()),
        body: Body::PassStarted(PassStarted {
            workflow: "w".into(),
            version: 1,
            pass: 1,
            input: Payload::Json("null".into()),
            input_digest: Digest([0; 32]),
        }),
    }
}

pub fn attempt(path: &str) -> AttemptRef {
    AttemptRef {
        action: ActionRef {
            path: ScopePath(path.into()),
            generation: 1,
        },
        attempt: 1,
    }
}

pub fn intent(run: &str, path: &str) -> Entry {
    Entry {
        at: Moment::default(),
        run: Some(run.into()),
        body: Body::Action(ActionEntry {
            attempt: attempt(path),
            proposal: Some(Proposal {
                tool: "pay".into(),
                tool_version: 1,
                arguments: Payload::Json("{}".into()),
                digest: Digest([1; 32]),
            }),
            decision: Decision {
                verdict: Verdict::Allow,
                reasons: vec![],
                policy_version: "p".into(),
            },
            intent: Some(Intent {
                key: Key([2; 16]),
                class: RecoveryClass::Opaque,
                timeout_ms: 1,
                closure: None,
                attempts_max: 1,
                backoff_first_ms: 1,
                backoff_max_ms: 1,
            }),
        }),
    }
}

pub fn outcome(run: &str, path: &str, output: String) -> Entry {
    Entry {
        at: Moment::default(),
        run: Some(run.into()),
        body: Body::Outcome(OutcomeEntry {
            attempt: attempt(path),
            outcome: Outcome::Succeeded(Payload::Json(output)),
            log: None,
        }),
    }
}

/// Appends and waits.
pub fn append(journal: &dyn IntentLog, entries: Vec<Entry>) -> Result<Appended, AppendError> {
    wait(journal.append(Batch {
        entries,
        starts_effects: false,
    }))
}

/// Appends a batch that lets an effect start, and waits.
pub fn begin(journal: &dyn IntentLog, entries: Vec<Entry>) -> Result<Appended, AppendError> {
    wait(journal.append(Batch {
        entries,
        starts_effects: true,
    }))
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

pub fn wait(mut append: Append) -> Result<Appended, AppendError> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match Future::poll(std::pin::Pin::new(&mut append), &mut context) {
            Poll::Ready(done) => return done,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// The values of the notes in a run, in order.
pub fn notes(journal: &dyn IntentLog, run: &str) -> Vec<String> {
    let history = journal.history(run).unwrap();
    history
        .into_iter()
        .filter_map(|recorded| value(&recorded))
        .collect()
}

pub fn value(recorded: &Recorded) -> Option<String> {
    match &recorded.entry.body {
        Body::Noted(noted) => Some(noted.value.clone()),
        _ => None,
    }
}

/// Hands batches over, lets their group be written but not synced, and copies the folder at that
/// moment: what a process leaves behind that is killed there.
pub fn killed_before_sync(place: &Place, batches: Vec<Vec<Entry>>) -> Place {
    let disk = faulty::FaultyDisk::default();
    let journal = place
        .options()
        .disk(Arc::new(disk.clone()))
        .open_or_create(place.data())
        .unwrap();
    // A batch of its own keeps the writer busy, so that the others share a group.
    disk.hold(Site::GroupSync);
    let busy = journal.append(Batch {
        entries: vec![note("busy", "busy")],
        starts_effects: false,
    });
    disk.wait_held(Site::GroupSync);
    let appends: Vec<_> = batches
        .into_iter()
        .map(|entries| {
            journal.append(Batch {
                entries,
                starts_effects: false,
            })
        })
        .collect();
    disk.let_one_go(Site::GroupSync);
    wait(busy).unwrap();
    disk.wait_held(Site::GroupSync);
    let copy = place.copy();
    disk.let_go(Site::GroupSync);
    for append in appends {
        wait(append).unwrap();
    }
    copy
}

/// Offset of the first occurrence of some bytes in a file.
pub fn find(path: &Path, needle: &[u8]) -> usize {
    let bytes = std::fs::read(path).unwrap();
    bytes
        .windows(needle.len())
        .position(|window| window == needle)
        .unwrap_or_else(|| panic!("not found in {}", path.display()))
}

/// Changes one byte of a file.
pub fn flip(path: &Path, offset: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[offset] ^= 0x40;
    std::fs::write(path, bytes).unwrap();
}
