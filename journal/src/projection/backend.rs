//! redb's storage on a file of [`crate::disk`], so that each of its changes names a site and a
//! simulated disk can come under it.

use std::io;
use std::ops::Bound;
use std::sync::Arc;

use redb::{BackendError, StorageBackend};

use crate::disk::{DiskFile, Lock, Site, read_full_at, write_all_at};

/// One open projection file.
#[derive(Debug)]
pub(super) struct Backend {
    file: Arc<dyn DiskFile>,
}

impl Backend {
    pub(super) fn new(file: Arc<dyn DiskFile>) -> Self {
        Self { file }
    }
}

/// redb locks either the whole storage or parts of it. The whole is what a lock of the open file
/// does, and is all that one owner needs.
fn is_whole(start: Bound<u64>, end: Bound<u64>) -> bool {
    matches!(start, Bound::Unbounded | Bound::Included(0)) && end == Bound::Unbounded
}

impl StorageBackend for Backend {
    fn len(&self) -> Result<u64, io::Error> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        let read = read_full_at(&*self.file, out, offset)?;
        if read < out.len() {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("the file ends {} bytes behind offset {offset}", read),
            ));
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.file.set_len(len, Site::ProjectionSetLen)
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.file.sync_data(Site::ProjectionSync)
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        write_all_at(&*self.file, data, offset, Site::ProjectionWrite)
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        if !is_whole(start, end) {
            return Err(BackendError::Unsupported);
        }
        self.file
            .try_lock(Lock::Exclusive)
            .map_err(BackendError::Io)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        if !is_whole(start, end) {
            return Err(BackendError::Unsupported);
        }
        self.file.try_lock(Lock::Shared).map_err(BackendError::Io)
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
