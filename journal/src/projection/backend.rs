//! redb's storage on a file of [`crate::disk`], so that each of its changes names a site and a
//! simulated disk can come under it.
//!
//! redb changes a file while it opens it. Until it is known that the journal may be changed at all,
//! a backend *holds back* what redb does, and redb sees it in memory; let through, it is done to the
//! file in the same order, syncs included, as if it had never been held.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use redb::{BackendError, StorageBackend};

use crate::disk::{DiskFile, Lock, Site, read_full_at, write_all_at};

const PIECE_BYTES: u64 = 4096;

/// One open projection file. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Backend(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    file: Arc<dyn DiskFile>,
    /// Somebody else may own the file: it is only read, and not locked.
    bystander: bool,
    held: RwLock<Option<Held>>,
}

/// What redb did that the file does not know of.
#[derive(Debug)]
struct Held {
    /// The length that redb sees.
    len: u64,
    /// The pieces that redb sees otherwise than they are in the file, by their number.
    pieces: BTreeMap<u64, Vec<u8>>,
    /// Everything it did, in order.
    changes: Vec<Change>,
}

#[derive(Debug)]
enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    SetLen(u64),
    Sync,
}

impl Backend {
    /// The owner's, holding back until [`Backend::let_through`].
    pub(super) fn held_back(file: Arc<dyn DiskFile>) -> io::Result<Self> {
        Self::new(file, false)
    }

    /// Somebody's who may not change the file, ever.
    pub(super) fn of_bystander(file: Arc<dyn DiskFile>) -> io::Result<Self> {
        Self::new(file, true)
    }

    fn new(file: Arc<dyn DiskFile>, bystander: bool) -> io::Result<Self> {
        let held = Held {
            len: file.len()?,
            pieces: BTreeMap::new(),
            changes: Vec::new(),
        };
        Ok(Self(Arc::new(Shared {
            file,
            bystander,
            held: RwLock::new(Some(held)),
        })))
    }

    /// Does to the file what was held back, and holds back no more.
    ///
    /// # Errors
    /// The system's error. Part of it was done then, as a crash might have left it.
    pub(super) fn let_through(&self) -> io::Result<()> {
        let mut held = self.held();
        let Some(state) = held.as_mut() else {
            return Ok(());
        };
        for change in std::mem::take(&mut state.changes) {
            change.apply(&*self.0.file)?;
        }
        *held = None;
        Ok(())
    }

    fn held(&self) -> RwLockWriteGuard<'_, Option<Held>> {
        // A panic of redb leaves each change done or not.
        self.0.held.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self, lock: Lock) -> Result<bool, BackendError> {
        if self.0.bystander {
            return Ok(true);
        }
        self.0.file.try_lock(lock).map_err(BackendError::Io)
    }

    /// Keeps a change, or does it to the file once nothing is held back.
    fn change(
        &self,
        change: impl FnOnce() -> Change,
        through: impl FnOnce(&dyn DiskFile) -> io::Result<()>,
    ) -> io::Result<()> {
        let file = &*self.0.file;
        if self.seen().is_some()
            && let Some(held) = self.held().as_mut()
        {
            return held.see(file, change());
        }
        through(file)
    }

    fn seen(&self) -> RwLockReadGuard<'_, Option<Held>> {
        self.0.held.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Change {
    fn apply(&self, file: &dyn DiskFile) -> io::Result<()> {
        match self {
            Self::Write { offset, bytes } => write(file, bytes, *offset),
            Self::SetLen(len) => set_len(file, *len),
            Self::Sync => sync(file),
        }
    }
}

fn write(file: &dyn DiskFile, bytes: &[u8], offset: u64) -> io::Result<()> {
    write_all_at(file, bytes, offset, Site::ProjectionWrite)
}

fn set_len(file: &dyn DiskFile, len: u64) -> io::Result<()> {
    file.set_len(len, Site::ProjectionSetLen)
}

fn sync(file: &dyn DiskFile) -> io::Result<()> {
    file.sync_data(Site::ProjectionSync)
}

impl Held {
    fn see(&mut self, file: &dyn DiskFile, change: Change) -> io::Result<()> {
        match &change {
            Change::Write { offset, bytes } => {
                for part in parts(*offset, bytes.len()) {
                    let piece = self.piece(file, part.piece)?;
                    piece[part.inside..part.inside + part.bytes]
                        .copy_from_slice(&bytes[part.at..part.at + part.bytes]);
                }
                self.len = self.len.max(offset + bytes.len() as u64);
            }
            Change::SetLen(len) => {
                // What comes back behind a cut are zeros, not what the file has there.
                for number in len / PIECE_BYTES..self.len.div_ceil(PIECE_BYTES) {
                    let keep = len.saturating_sub(number * PIECE_BYTES).min(PIECE_BYTES);
                    let keep = usize::try_from(keep).unwrap_or(0);
                    self.piece(file, number)?[keep..].fill(0);
                }
                self.len = *len;
            }
            Change::Sync => {}
        }
        self.changes.push(change);
        Ok(())
    }

    /// A piece that is about to be changed: as it is in the file, with zeros behind its end.
    fn piece(&mut self, file: &dyn DiskFile, number: u64) -> io::Result<&mut Vec<u8>> {
        use std::collections::btree_map::Entry;
        match self.pieces.entry(number) {
            Entry::Occupied(there) => Ok(there.into_mut()),
            Entry::Vacant(place) => {
                let mut piece = vec![0; PIECE_BYTES as usize];
                read_full_at(file, &mut piece, number * PIECE_BYTES)?;
                Ok(place.insert(piece))
            }
        }
    }

    fn read(&self, file: &dyn DiskFile, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if offset.saturating_add(out.len() as u64) > self.len {
            return Err(ends_early(offset));
        }
        let read = read_full_at(file, out, offset)?;
        out[read..].fill(0);
        for part in parts(offset, out.len()) {
            if let Some(piece) = self.pieces.get(&part.piece) {
                out[part.at..part.at + part.bytes]
                    .copy_from_slice(&piece[part.inside..part.inside + part.bytes]);
            }
        }
        Ok(())
    }
}

/// The part of a range that lies in one piece.
struct Part {
    piece: u64,
    /// Where it begins in the piece.
    inside: usize,
    /// Where it begins in the range.
    at: usize,
    bytes: usize,
}

fn parts(offset: u64, length: usize) -> impl Iterator<Item = Part> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let place = offset + at as u64;
        let inside = usize::try_from(place % PIECE_BYTES).unwrap_or(0);
        let part = Part {
            piece: place / PIECE_BYTES,
            inside,
            at,
            bytes: (PIECE_BYTES as usize - inside).min(length - at),
        };
        at += part.bytes;
        (part.bytes > 0).then_some(part)
    })
}

fn ends_early(offset: u64) -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        format!("the file ends before what should be at offset {offset}"),
    )
}

/// redb locks either the whole storage or parts of it. The whole is what a lock of the open file
/// does, and is all that one owner needs.
fn is_whole(start: Bound<u64>, end: Bound<u64>) -> bool {
    matches!(start, Bound::Unbounded | Bound::Included(0)) && end == Bound::Unbounded
}

impl StorageBackend for Backend {
    fn len(&self) -> Result<u64, io::Error> {
        match &*self.seen() {
            Some(held) => Ok(held.len),
            None => self.0.file.len(),
        }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        match &*self.seen() {
            Some(held) => held.read(&*self.0.file, offset, out),
            None if read_full_at(&*self.0.file, out, offset)? < out.len() => {
                Err(ends_early(offset))
            }
            None => Ok(()),
        }
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.change(|| Change::SetLen(len), |file| set_len(file, len))
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.change(|| Change::Sync, sync)
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        let held = || Change::Write {
            offset,
            bytes: data.to_vec(),
        };
        self.change(held, |file| write(file, data, offset))
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        if !is_whole(start, end) {
            return Err(BackendError::Unsupported);
        }
        self.lock(Lock::Exclusive)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        if !is_whole(start, end) {
            return Err(BackendError::Unsupported);
        }
        self.lock(Lock::Shared)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        if !is_whole(start, end) {
            return Err(BackendError::Unsupported);
        }
        // The lock ends with the open file, which redb drops next: it unlocks the whole only when
        // it closes.
        Ok(())
    }
}
