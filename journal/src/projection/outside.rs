//! What a projection remembers, asked by somebody who may change nothing: redb mends a file while it
//! opens it, so its changes are kept in memory and thrown away.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use redb::{BackendError, StorageBackend};

use super::store::Store;
use super::{FILE_NAME, contained};
use crate::disk::{Access, Disk, DiskFile, read_full_at};
use crate::format::entry::{JournalId, Sequence};

const PIECE_BYTES: u64 = 4096;

/// The applied sequence of the projection in a journal's folder; `None` if there is none of this
/// journal that can be read as one. Its owner must not be at work: what is read then is a mixture.
pub(crate) fn remembered(disk: &dyn Disk, folder: &Path, journal: JournalId) -> Option<Sequence> {
    let file = disk.open(&folder.join(FILE_NAME), Access::Read).ok()?;
    // An empty file would be filled with empty tables.
    let len = file.len().ok().filter(|len| *len > 0)?;
    let backend = Overlay {
        file,
        changes: Mutex::new(Changes {
            len,
            pieces: BTreeMap::new(),
        }),
    };
    contained(|| Store::open(backend, journal))
        .ok()
        .map(|(_, applied)| applied)
}

/// A file, and over it what was changed.
#[derive(Debug)]
struct Overlay {
    file: Arc<dyn DiskFile>,
    changes: Mutex<Changes>,
}

#[derive(Debug)]
struct Changes {
    len: u64,
    /// Changed pieces by their number, each of [`PIECE_BYTES`].
    pieces: BTreeMap<u64, Vec<u8>>,
}

impl Overlay {
    fn with<T>(&self, call: impl FnOnce(&mut Changes) -> T) -> T {
        // Each change is one step; a panic of redb elsewhere leaves nothing half done.
        call(&mut self.changes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The piece as the file has it, zeros behind its end.
    fn original(&self, number: u64) -> io::Result<Vec<u8>> {
        let mut piece = vec![0; PIECE_BYTES as usize];
        read_full_at(&*self.file, &mut piece, number * PIECE_BYTES)?;
        Ok(piece)
    }
}

/// The parts of a range that lie in one piece each: piece, offset in it, offset in the range, length.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let place = offset + at as u64;
        let inside = usize::try_from(place % PIECE_BYTES).unwrap_or(0);
        let part = (PIECE_BYTES as usize - inside).min(length - at);
        let found = (place / PIECE_BYTES, inside, at, part);
        at += part;
        (part > 0).then_some(found)
    })
}

impl StorageBackend for Overlay {
    fn len(&self) -> Result<u64, io::Error> {
        Ok(self.with(|changes| changes.len))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.with(|changes| {
            if offset.saturating_add(out.len() as u64) > changes.len {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let read = read_full_at(&*self.file, out, offset)?;
            out[read..].fill(0);
            for (number, inside, at, part) in parts(offset, out.len()) {
                if let Some(piece) = changes.pieces.get(&number) {
                    out[at..at + part].copy_from_slice(&piece[inside..inside + part]);
                }
            }
            Ok(())
        })
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.with(|changes| {
            // What comes back behind a cut must be zeros, not what the file has there.
            for number in len / PIECE_BYTES..changes.len.div_ceil(PIECE_BYTES) {
                let mut piece = match changes.pieces.remove(&number) {
                    Some(piece) => piece,
                    None => self.original(number)?,
                };
                let keep = len.saturating_sub(number * PIECE_BYTES).min(PIECE_BYTES);
                piece[usize::try_from(keep).unwrap_or(0)..].fill(0);
                changes.pieces.insert(number, piece);
            }
            changes.len = len;
            Ok(())
        })
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.with(|changes| {
            for (number, inside, at, part) in parts(offset, data.len()) {
                let mut piece = match changes.pieces.remove(&number) {
                    Some(piece) => piece,
                    None => self.original(number)?,
                };
                piece[inside..inside + part].copy_from_slice(&data[at..at + part]);
                changes.pieces.insert(number, piece);
            }
            changes.len = changes.len.max(offset + data.len() as u64);
            Ok(())
        })
    }

    // Nobody else sees what is changed here: there is nothing to lock.
    fn try_lock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<bool, BackendError> {
        Ok(true)
    }

    fn try_lock_shared_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<bool, BackendError> {
        Ok(true)
    }

    fn unlock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<(), BackendError> {
        Ok(())
    }
}
