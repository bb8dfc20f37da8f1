//! Content-addressed files for payloads too long for an entry: `blobs/ab/<sha256>`.
//!
//! Invariants:
//! - A file under its final name has its whole content: it is written and synced under a temporary
//!   name, renamed, and the folder synced, before [`Blobs::put`] returns. A crash in between leaves
//!   at most a temporary file, which the next try removes.
//! - What [`Blobs::get`] gives back has the asked hash and length, or it is an error.
//! - A sync that failed is not asked again: from then on nothing more is stored in this opening.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};

use crate::disk::{Access, Disk, Publish, Site, create_dirs, parent_of, publish, read_full_at};
use crate::error::{AppendError, Damage, ReadError};
use crate::format::entry::{BlobRef, Digest};

/// Hashes kept in memory as stored by this opening; more are forgotten and checked again.
const STORED_MAX: usize = 65_536;

const PUBLISH: Publish = Publish {
    create: Site::BlobCreate,
    write: Site::BlobWrite,
    sync: Site::BlobSync,
    rename: Site::BlobRename,
    dir_sync: Site::BlobDirSync,
    remove: Site::BlobRemove,
};

/// The blobs of one opening of a journal.
#[derive(Debug)]
pub(crate) struct Blobs {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    state: Mutex<State>,
    /// Told whenever a digest leaves [`State::busy`].
    idle: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Digests being stored right now. Two callers with the same content wait for each other, so
    /// that a temporary name belongs to one of them.
    busy: HashSet<Digest>,
    /// Digests known durable.
    stored: HashSet<Digest>,
    /// Folders whose names are known durable.
    folders: HashSet<PathBuf>,
    /// The sync that failed, if one did.
    failed: Option<String>,
}

impl Blobs {
    /// The blobs under the folder, which is made when the first one is stored.
    #[must_use]
    pub(crate) fn new(disk: Arc<dyn Disk>, folder: PathBuf) -> Self {
        Self {
            disk,
            folder,
            state: Mutex::default(),
            idle: Condvar::new(),
        }
    }

    /// Stores content; it is durable when the call returns.
    ///
    /// # Errors
    /// [`AppendError::NoSpace`] or [`AppendError::Refused`]: nothing was promised.
    pub(crate) fn put(&self, content: &[u8]) -> Result<BlobRef, AppendError> {
        let sha256 = Digest(Sha256::digest(content).into());
        let blob = BlobRef {
            sha256,
            bytes: content.len() as u64,
        };
        {
            let mut state = self.state();
            while state.busy.contains(&sha256) {
                state = self
                    .idle
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            if state.stored.contains(&sha256) {
                return Ok(blob);
            }
            if let Some(why) = &state.failed {
                return Err(AppendError::Refused {
                    why: format!("blobs are not stored any more since {why}; a restart is safe"),
                });
            }
            state.busy.insert(sha256);
        }
        let stored = self.store(&blob, content);
        let mut state = self.state();
        state.busy.remove(&sha256);
        self.idle.notify_all();
        match stored {
            Ok(()) => {
                if state.stored.len() >= STORED_MAX {
                    state.stored.clear();
                }
                state.stored.insert(sha256);
                Ok(blob)
            }
            Err(error) => {
                let why = format!("{}: {error}", self.path(&blob).display());
                if is_full(&error) {
                    return Err(AppendError::NoSpace { why });
                }
                state.failed.get_or_insert_with(|| why.clone());
                Err(AppendError::Refused { why })
            }
        }
    }

    /// Reads content back and checks its length and hash.
    ///
    /// # Errors
    /// [`ReadError::Damaged`] if it is missing or not what it was; [`ReadError::Io`] if it could not
    /// be read.
    pub(crate) fn get(&self, blob: &BlobRef) -> Result<Vec<u8>, ReadError> {
        let path = self.path(blob);
        match self.read(&path, blob) {
            Ok(content) => Ok(content),
            Err(Unreadable::Damaged(what)) => Err(ReadError::Damaged(Damage {
                path,
                segment: None,
                offset: 0,
                what,
                lost: format!(
                    "the payload of {} bytes that entries name by this hash",
                    blob.bytes
                ),
                remedy: "Restore this file from a backup; every other payload is unaffected"
                    .to_owned(),
            })),
            Err(Unreadable::Io(source)) => Err(ReadError::Io { path, source }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change under the lock is one step; a panic elsewhere leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, blob: &BlobRef) -> PathBuf {
        let name = blob.sha256.to_string();
        self.folder.join(&name[..2]).join(name)
    }

    fn store(&self, blob: &BlobRef, content: &[u8]) -> io::Result<()> {
        let path = self.path(blob);
        let folder = parent_of(&path);
        self.make_folders(folder)?;
        if self.read(&path, blob).is_ok() {
            // Stored by an earlier opening. Its content was synced before it got its name; the
            // name itself may not have been.
            return self.disk.sync_dir(folder, Site::BlobDirSync);
        }
        publish(
            &*self.disk,
            &path,
            &path.with_extension("tmp"),
            content,
            PUBLISH,
        )
    }

    /// Makes the folder, and its name and that of the folder above it durable, once an opening: an
    /// earlier one may have been cut between making a folder and syncing its name.
    fn make_folders(&self, folder: &Path) -> io::Result<()> {
        for folder in [&*self.folder, folder] {
            if self.state().folders.contains(folder) {
                continue;
            }
            create_dirs(&*self.disk, folder, Site::BlobDirCreate, Site::BlobDirSync)?;
            self.state().folders.insert(folder.to_owned());
        }
        Ok(())
    }

    fn read(&self, path: &Path, blob: &BlobRef) -> Result<Vec<u8>, Unreadable> {
        let file = match self.disk.open(path, Access::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Unreadable::Damaged("the file is missing".to_owned()));
            }
            Err(error) => return Err(Unreadable::Io(error)),
        };
        let len = file.len().map_err(Unreadable::Io)?;
        if len != blob.bytes {
            let what = format!("{len} bytes long, it should be {}", blob.bytes);
            return Err(Unreadable::Damaged(what));
        }
        let len = usize::try_from(len)
            .map_err(|_| Unreadable::Damaged("longer than this machine's memory".to_owned()))?;
        let mut content = vec![0; len];
        let read = read_full_at(&*file, &mut content, 0).map_err(Unreadable::Io)?;
        let found = Digest(Sha256::digest(&content[..read]).into());
        if found != blob.sha256 {
            return Err(Unreadable::Damaged(format!(
                "its content has the hash {found}"
            )));
        }
        Ok(content)
    }
}

/// Why a blob's file does not give its content.
#[derive(Debug)]
enum Unreadable {
    Damaged(String),
    Io(io::Error),
}

/// A full disk: nothing is broken, and the same content can be stored once there is space.
fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

#[cfg(test)]
mod tests;
