//! The file `mark`, read at an opening and overwritten after each durable group.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::disk::{Access, Disk, DiskFile, Site, read_full_at, write_all_at};
use crate::format::entry::{JournalId, Sequence};
use crate::format::mark::{SLOT_BYTES, SLOTS, read_slot, slot};

/// Name of the file in the journal's folder.
pub(crate) const MARK: &str = "mark";

/// What the mark says was durable; `None` if there is none that can be read as one.
///
/// # Errors
/// The system's error, other than that there is no such file.
pub(crate) fn read_mark(
    disk: &dyn Disk,
    path: &Path,
    journal: JournalId,
) -> io::Result<Option<Sequence>> {
    match disk.open(path, Access::Read) {
        Ok(file) => Ok(slots(&*file, journal)?.into_iter().flatten().max()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn slots(file: &dyn DiskFile, journal: JournalId) -> io::Result<[Option<Sequence>; SLOTS]> {
    let mut found = [None; SLOTS];
    for (at, found) in found.iter_mut().enumerate() {
        let mut bytes = [0; SLOT_BYTES];
        read_full_at(file, &mut bytes, (at * SLOT_BYTES) as u64)?;
        *found = read_slot(&bytes, journal);
    }
    Ok(found)
}

/// The mark of a journal that is open.
#[derive(Debug)]
pub(crate) struct Mark {
    file: Arc<dyn DiskFile>,
    journal: JournalId,
    /// The slot to be overwritten next: never the one that says the most.
    next: usize,
    failed: bool,
}

impl Mark {
    pub(crate) fn open(disk: &dyn Disk, path: &Path, journal: JournalId) -> io::Result<Self> {
        let file = match disk.open(path, Access::ReadWrite) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                disk.create(path, Site::MarkCreate)?
            }
            opened => opened?,
        };
        let [first, second] = slots(&*file, journal)?;
        Ok(Self {
            file,
            journal,
            next: usize::from(first > second),
            failed: false,
        })
    }

    /// Says that everything up to here is durable. A mark that cannot be written is no reason to
    /// stop: it lags behind then, as it may.
    pub(crate) fn advance(&mut self, durable: Sequence) {
        let bytes = slot(self.journal, durable);
        let at = (self.next * SLOT_BYTES) as u64;
        match write_all_at(&*self.file, &bytes, at, Site::MarkWrite) {
            Ok(()) => self.next = (self.next + 1) % SLOTS,
            Err(error) if !self.failed => {
                self.failed = true;
                tracing::warn!(%error, "the mark cannot be written and lags behind");
            }
            Err(_) => {}
        }
    }

    /// Makes the last mark durable.
    pub(crate) fn sync(&self) {
        if let Err(error) = self.file.sync_data(Site::MarkSync) {
            tracing::warn!(%error, "the mark cannot be synced and may lag behind");
        }
    }
}
