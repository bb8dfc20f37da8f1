//! One owner: a lock tied to the open file `LOCK`, which also says who holds it.
//!
//! The lock ends with the process, however it ends, so a file left behind never blocks anybody.
//! What is written in the file is for messages and for finding the owner's socket, and is believed
//! only while the lock is held.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::disk::{Access, Disk, DiskFile, Lock, Site, read_full_at, write_all_at};
use crate::error::OpenError;
use crate::format::entry::Epoch;

/// Name of the file in the journal's folder.
pub(crate) const LOCK: &str = "LOCK";
/// How long a second opener tries before it is refused.
const PATIENCE: Duration = Duration::from_secs(2);
const AGAIN_AFTER: Duration = Duration::from_millis(20);
/// The text is padded with spaces to this, so that one write replaces what was there.
const TEXT_BYTES: usize = 1024;
const MAX_BYTES: usize = 64 * 1024;

/// Who holds a journal.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Owner {
    /// Its process id.
    pub pid: u32,
    /// The epoch of its opening; 0 while it is still recovering.
    #[serde(default)]
    pub epoch: Epoch,
    /// The socket on which it takes commands, if it serves one.
    #[serde(default)]
    pub socket: Option<PathBuf>,
}

/// The lock, held until it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    owner: Owner,
    /// What the file said before.
    before: Vec<u8>,
}

impl Held {
    /// Takes the lock of a folder, trying for two seconds.
    pub(crate) fn take(disk: &dyn Disk, folder: &Path, pid: u32) -> Result<Self, OpenError> {
        let path = folder.join(LOCK);
        let io = |doing: &str, source| OpenError::Io {
            path: path.clone(),
            doing: doing.into(),
            source,
        };
        let file = open(disk, &path).map_err(|error| io("opening it", error))?;
        let until = Instant::now() + PATIENCE;
        while !file
            .try_lock(Lock::Exclusive)
            .map_err(|error| io("locking it", error))?
        {
            if Instant::now() >= until {
                let owner = read(&*file);
                return Err(OpenError::Owned {
                    path: folder.to_owned(),
                    pid: owner.as_ref().map_or(0, |owner| owner.pid),
                    socket: owner.and_then(|owner| owner.socket),
                });
            }
            std::thread::sleep(AGAIN_AFTER);
        }
        let mut before = vec![0; MAX_BYTES];
        let read = read_full_at(&*file, &mut before, 0).map_err(|error| io("reading it", error))?;
        before.truncate(read);
        let mut held = Self {
            file,
            before,
            path: path.clone(),
            owner: Owner {
                pid,
                epoch: Epoch(0),
                socket: None,
            },
        };
        held.write().map_err(|error| io("writing it", error))?;
        Ok(held)
    }

    /// Puts back what the file said before: an opening that is refused changes no byte. That this
    /// may fail is no trouble, since nobody believes the text of a lock that is not held.
    pub(crate) fn give_back(self) {
        if !self.before.is_empty() {
            let _ = write_all_at(&*self.file, &self.before, 0, Site::LockWrite);
        }
    }

    /// Says which opening holds the lock.
    pub(crate) fn set_epoch(&mut self, epoch: Epoch) -> io::Result<()> {
        self.owner.epoch = epoch;
        self.write()
    }

    /// Says where the owner takes commands.
    pub(crate) fn set_socket(&mut self, socket: Option<PathBuf>) -> io::Result<()> {
        self.owner.socket = socket;
        self.write()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn write(&mut self) -> io::Result<()> {
        let mut text = serde_json::to_vec(&self.owner).map_err(io::Error::other)?;
        let old = usize::try_from(self.file.len()?).unwrap_or(MAX_BYTES);
        let padded = text.len().max(TEXT_BYTES).max(old.min(MAX_BYTES));
        text.resize(padded - 1, b' ');
        text.push(b'\n');
        write_all_at(&*self.file, &text, 0, Site::LockWrite)
    }
}

fn open(disk: &dyn Disk, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
    loop {
        match disk.open(path, Access::ReadWrite) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        match disk.create(path, Site::LockCreate) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created,
        }
    }
}

fn read(file: &dyn DiskFile) -> Option<Owner> {
    let len = usize::try_from(file.len().ok()?).ok()?.min(MAX_BYTES);
    let mut text = vec![0; len];
    let read = read_full_at(file, &mut text, 0).ok()?;
    serde_json::from_slice(&text[..read]).ok()
}

/// Who holds the journal in a folder right now; `None` if nobody does. An owner that is just
/// writing its name is reported with process id 0.
///
/// # Errors
/// The system's error.
pub fn owner(disk: &dyn Disk, folder: &Path) -> io::Result<Option<Owner>> {
    let file = match disk.open(&folder.join(LOCK), Access::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    // Shared, so that those who only ask never keep each other out; it ends with this call.
    if file.try_lock(Lock::Shared)? {
        return Ok(None);
    }
    Ok(Some(read(&*file).unwrap_or(Owner {
        pid: 0,
        epoch: Epoch(0),
        socket: None,
    })))
}
