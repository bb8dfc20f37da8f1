//! The journals that are damaged.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use intendant_journal::disk::Site;
use intendant_journal::disk::simulated::{Files, SimulatedDisk};
use intendant_journal::face::{Batch, IntentLog};
use intendant_journal::format::entry::{Entry, JournalId, Payload, Recorded, Sequence};
use intendant_journal::{Journal, Options, scan};

use crate::support::faulty::FaultyDisk;
use crate::support::*;

/// The journal's folder.
pub(crate) const DATA: &str = "/disk/data";
/// The user's state, where the record outside is.
pub(crate) const STATE: &str = "/disk/state";
/// All of it.
pub(crate) const ROOT: &str = "/disk";

/// A journal, and what is known of it.
pub(crate) struct Specimen {
    pub(crate) files: Files,
    pub(crate) id: JournalId,
    /// Entries somebody was told of.
    pub(crate) acknowledged: Vec<Recorded>,
    /// Entries on disk that nobody was told of: they may be lost from the end.
    pub(crate) in_flight: Vec<Recorded>,
    /// Number of segments that hold entries.
    pub(crate) used: u64,
}

pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(DATA).join(name)
}

pub(crate) fn segment(number: u64) -> PathBuf {
    data(&format!("journal/{number:016}.seg"))
}

pub(crate) fn options(disk: &SimulatedDisk) -> Options {
    Options::new()
        .segment_bytes(SMALL)
        .state_home(STATE)
        .program("specimen 1")
        .disk(Arc::new(disk.clone()))
}

fn entries(disk: &SimulatedDisk) -> (Vec<Recorded>, u64) {
    let mut entries = Vec::new();
    scan::scan_on(disk, Path::new(DATA), &mut |recorded| {
        entries.push(recorded)
    })
    .unwrap();
    let used = (1..)
        .take_while(|number| {
            let files = disk.contents(&segment(*number));
            let bytes = files.values().next();
            bytes.is_some_and(|bytes| bytes[4096..].iter().any(|byte| *byte != 0))
        })
        .count() as u64;
    (entries, used)
}

/// Two openings, three segments in use and a spare behind them, batches of one and of several
/// entries, and a blob that an entry names.
fn write(disk: &SimulatedDisk) -> JournalId {
    let journal = options(disk).open_or_create(DATA).unwrap();
    append(&journal, vec![started("r"), note("r", "one")]).unwrap();
    append(&journal, vec![note("r", "two")]).unwrap();
    let long = |letter: &str, bytes: usize| note("r", &letter.repeat(bytes));
    append(&journal, vec![long("a", 30_000), note("r", "three")]).unwrap();
    append(&journal, vec![long("b", 40_000)]).unwrap();
    journal.close();
    let journal = options(disk).open(DATA).unwrap();
    let blob = journal.put_blob(&[b'7'; 1_500]).unwrap();
    let mut named = outcome("r", "pay/0", String::new());
    let body = &mut named.body;
    if let intendant_journal::format::entry::Body::Outcome(outcome) = body {
        outcome.outcome =
            intendant_journal::format::entry::Outcome::Succeeded(Payload::JsonBlob(blob));
    }
    append(&journal, vec![intent("r", "pay/0"), named]).unwrap();
    append(&journal, vec![long("c", 40_000)]).unwrap();
    append(&journal, vec![note("r", "four"), note("r", "five")]).unwrap();
    append(&journal, vec![note("r", "six")]).unwrap();
    let id = journal.id();
    // The spare is made by a thread of its own: wait for it, so that all specimens are alike.
    while disk.contents(&segment(4)).is_empty() {
        std::thread::yield_now();
    }
    journal.close();
    id
}

impl Specimen {
    /// A journal that was closed in order: everything in it was acknowledged.
    pub(crate) fn closed() -> Self {
        let disk = SimulatedDisk::new();
        let id = write(&disk);
        let specimen = Self::of(&disk, id);
        assert_eq!(specimen.used, 3, "the sweeps want several segments");
        specimen
    }

    /// The same on a machine whose user's state does not know it.
    pub(crate) fn unrecorded() -> Self {
        let mut specimen = Self::closed();
        specimen.files.retain(|path, _| !path.starts_with(STATE));
        specimen
    }

    /// A closed journal on a disk.
    pub(crate) fn of(disk: &SimulatedDisk, id: JournalId) -> Self {
        let (acknowledged, used) = entries(disk);
        Self {
            files: disk.contents(Path::new(ROOT)),
            id,
            acknowledged,
            in_flight: Vec::new(),
            used,
        }
    }

    /// What a process leaves that is killed after it wrote its last group and before it synced it:
    /// two batches that nobody was told of.
    pub(crate) fn killed() -> Self {
        let disk = SimulatedDisk::new();
        let id = write(&disk);
        let faulty = FaultyDisk::over(Arc::new(disk.clone()));
        let journal = options(&disk)
            .disk(Arc::new(faulty.clone()))
            .open(DATA)
            .unwrap();
        let hand_over = |journal: &Journal, entries: Vec<Entry>| {
            journal.append(Batch {
                entries,
                starts_effects: false,
            })
        };
        // A batch of its own keeps the writer busy, so that the others share a group.
        faulty.hold(Site::GroupSync);
        let busy = hand_over(&journal, vec![note("r", "busy")]);
        faulty.wait_held(Site::GroupSync);
        let group = [
            hand_over(
                &journal,
                vec![note("r", "unsettled one"), note("r", "and two")],
            ),
            hand_over(&journal, vec![note("r", "unsettled three")]),
        ];
        faulty.let_one_go(Site::GroupSync);
        wait(busy).unwrap();
        faulty.wait_held(Site::GroupSync);
        let files = disk.contents(Path::new(ROOT));
        let told = journal.durable();
        faulty.let_go(Site::GroupSync);
        for append in group {
            wait(append).unwrap();
        }
        drop(journal);
        let killed = SimulatedDisk::holding(&files);
        let (mut acknowledged, used) = entries(&killed);
        let in_flight = acknowledged.split_off(usize::try_from(told.0).unwrap());
        assert_eq!(in_flight.len(), 3);
        Self {
            files,
            id,
            acknowledged,
            in_flight,
            used,
        }
    }

    /// The same without some files.
    pub(crate) fn without(mut self, names: &[&str]) -> Self {
        for name in names {
            self.files.remove(&data(name)).unwrap();
        }
        self
    }

    pub(crate) fn last_acknowledged(&self) -> Sequence {
        Sequence(self.acknowledged.len() as u64)
    }

    pub(crate) fn bytes(&self, path: &Path) -> &[u8] {
        &self.files[path]
    }

    /// Behind the last byte of a file that is not zero.
    pub(crate) fn content_end(&self, path: &Path) -> usize {
        let bytes = self.bytes(path);
        bytes
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last + 1)
    }
}
