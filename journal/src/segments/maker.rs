//! Makes one segment ready: created under a temporary name, filled with zeros, given its header,
//! synced, renamed, and the folder synced.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::SegmentName;
use super::supply::{Refusal, Spare};
use crate::disk::{Access, Disk, DiskFile, Site, read_full_at, remove_if_there, write_all_at};
use crate::format::entry::JournalId;
use crate::format::segment::SegmentHeader;
use crate::mutants::{self, Mutant};

/// Zeros are written in pieces of this size.
const PIECE_BYTES: usize = 1024 * 1024;

#[derive(Debug)]
pub(super) struct Maker {
    pub(super) disk: Arc<dyn Disk>,
    /// The folder `journal`.
    pub(super) folder: PathBuf,
    pub(super) journal: JournalId,
    pub(super) segment_bytes: u64,
}

impl Maker {
    /// Makes the segment of that number.
    pub(super) fn make(&self, number: u64) -> Result<Spare, Refusal> {
        let unfinished = SegmentName::Unfinished(number).path(&self.folder);
        let filled = self.fill(number, &unfinished);
        let file = match filled {
            Ok(file) => file,
            Err(error) => {
                // Its bytes are needed by others now; if even this fails, the next try begins
                // with the same removal.
                if let Err(error) = remove_if_there(&*self.disk, &unfinished, Site::SegmentRemove) {
                    tracing::warn!(%error, path = %unfinished.display(), "not removed");
                }
                return Err(Refusal::NoSpace(format!(
                    "{} cannot be made ready: {error}",
                    unfinished.display()
                )));
            }
        };
        let path = SegmentName::Segment(number).path(&self.folder);
        let broken = |what: &str, error: io::Error| {
            Refusal::Broken(format!("{what} {}: {error}", path.display()))
        };
        file.sync_all(Site::SegmentSync)
            .map_err(|error| broken("sync of", error))?;
        self.disk
            .rename(&unfinished, &path, Site::SegmentRename)
            .map_err(|error| {
                Refusal::NoSpace(format!(
                    "{} cannot be renamed: {error}",
                    unfinished.display()
                ))
            })?;
        if !mutants::is(Mutant::NoDirectorySync) {
            self.disk
                .sync_dir(&self.folder, Site::SegmentDirSync)
                .map_err(|error| broken("sync of the folder of", error))?;
        }
        Ok(Spare {
            number,
            bytes: self.segment_bytes,
            file,
        })
    }

    fn fill(&self, number: u64, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        remove_if_there(&*self.disk, path, Site::SegmentRemove)?;
        let file = self.disk.create(path, Site::SegmentCreate)?;
        let zeros =
            vec![0; PIECE_BYTES.min(usize::try_from(self.segment_bytes).unwrap_or(PIECE_BYTES))];
        let mut at = 0;
        while at < self.segment_bytes {
            let piece = (self.segment_bytes - at).min(zeros.len() as u64);
            let piece = usize::try_from(piece).unwrap_or(zeros.len());
            write_all_at(&*file, &zeros[..piece], at, Site::SegmentFill)?;
            at += piece as u64;
        }
        if number > 1 && mutants::is(Mutant::StaleRecycledAccepted) {
            let old = SegmentName::Segment(1).path(&self.folder);
            let old = self.disk.open(&old, Access::Read)?;
            let mut bytes = vec![0; zeros.len()];
            let read = read_full_at(&*old, &mut bytes, 0)?;
            write_all_at(&*file, &bytes[..read], 0, Site::SegmentFill)?;
        }
        let header = SegmentHeader {
            journal: self.journal,
            number,
            bytes: self.segment_bytes,
        };
        write_all_at(&*file, &header.page(), 0, Site::SegmentHeader)?;
        Ok(file)
    }
}
