//! Writing checkpoints into the journal's folder.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::checkpoint::Checkpoint;
use super::folder::path_of;
use super::key::Signer;
use super::note::Note;
use crate::disk::{Disk, Publish, Site, create_dirs, publish};
use crate::format::entry::{Digest, JournalId, Moment, Sequence};
use crate::surroundings::now;

/// The end of what is durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub(crate) sequence: Sequence,
    pub(crate) chain: Digest,
}

/// Why there is no checkpoint.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The journal was opened without a key: its checkpoints cannot be signed, so none are made.
    #[error(
        "the journal was opened without a signing key, so its checkpoints cannot be signed; open it with one"
    )]
    Unsigned,
    /// The log could not be followed to its end.
    #[error("the journal is disabled since {why}; a restart is safe")]
    Disabled {
        /// The failure that disabled it.
        why: String,
    },
    /// It could not be written. Recording goes on.
    #[error("{}: the checkpoint cannot be written: {why}; look at the disk, recording goes on", path.display())]
    Io {
        /// Its file.
        path: PathBuf,
        /// The system's error.
        why: String,
    },
}

/// A checkpoint that is durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Written {
    /// What it says.
    pub checkpoint: Checkpoint,
    /// The signed note, byte for byte.
    pub note: String,
    /// Where it is.
    pub path: PathBuf,
}

pub(crate) struct NotaryStart {
    pub(crate) disk: Arc<dyn Disk>,
    /// The folder `checkpoints`.
    pub(crate) folder: PathBuf,
    pub(crate) journal: JournalId,
    pub(crate) signer: Option<Arc<Signer>>,
    /// Where time stands still.
    pub(crate) now: Option<Moment>,
}

/// Signs and writes, for whichever thread asks.
#[derive(Debug)]
pub(crate) struct Notary {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    journal: JournalId,
    signer: Option<Arc<Signer>>,
    now: Option<Moment>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The folder is there, durably.
    placed: bool,
    /// The newest one.
    last: Option<Written>,
    /// Why the last one could not be written, until one can.
    trouble: Option<String>,
}

impl Notary {
    pub(crate) fn new(start: NotaryStart) -> Self {
        let NotaryStart {
            disk,
            folder,
            journal,
            signer,
            now,
        } = start;
        Self {
            disk,
            folder,
            journal,
            signer,
            now,
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn signer(&self) -> Option<&Signer> {
        self.signer.as_deref()
    }

    /// Why the last checkpoint could not be written, if it could not.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.lock().trouble.clone()
    }

    /// Makes the checkpoint of a head that is durable, unless the newest one is of the same.
    pub(crate) fn write(&self, head: Head) -> Result<Written, CheckpointError> {
        let signer = self.signer.as_ref().ok_or(CheckpointError::Unsigned)?;
        // Held while writing: there is one temporary name, so that no interrupted start leaves more
        // than one file behind.
        let mut state = self.lock();
        if let Some(last) = &state.last
            && last.checkpoint.sequence == head.sequence
        {
            return Ok(last.clone());
        }
        let checkpoint = Checkpoint {
            journal: self.journal,
            sequence: head.sequence,
            chain: head.chain,
            wall_ms: self.now.unwrap_or_else(now).wall_ms,
        };
        let note = Note::sign(checkpoint.to_string(), signer).to_string();
        let path = path_of(&self.folder, head.sequence);
        let temporary = self.folder.join(UNFINISHED);
        let done = self
            .place(&mut state.placed)
            .and_then(|()| publish(&*self.disk, &path, &temporary, note.as_bytes(), SITES));
        if let Err(error) = done {
            let error = CheckpointError::Io {
                path,
                why: error.to_string(),
            };
            if state.trouble.is_none() {
                tracing::warn!(%error, "no checkpoint; recording goes on");
            }
            state.trouble = Some(error.to_string());
            return Err(error);
        }
        state.trouble = None;
        let written = Written {
            checkpoint,
            note,
            path,
        };
        // A seal may be written after a newer one was asked for.
        if state
            .last
            .as_ref()
            .is_none_or(|last| last.checkpoint.sequence < head.sequence)
        {
            state.last = Some(written.clone());
        }
        Ok(written)
    }

    /// Makes the folder, unless that was done.
    fn place(&self, placed: &mut bool) -> std::io::Result<()> {
        if !*placed {
            create_dirs(
                &*self.disk,
                &self.folder,
                Site::CheckpointsDirCreate,
                Site::CheckpointsDirSync,
            )?;
            *placed = true;
        }
        Ok(())
    }

    /// As [`Notary::write`], for those who have nobody to tell: trouble is warned of and kept.
    pub(crate) fn write_if_signing(&self, head: Head) {
        if self.signer.is_some() && head.sequence > Sequence(0) {
            // The trouble is kept, see `trouble`.
            let _ = self.write(head);
        }
    }
}

const UNFINISHED: &str = "unfinished.tmp";

const SITES: Publish = Publish {
    create: Site::CheckpointCreate,
    write: Site::CheckpointWrite,
    sync: Site::CheckpointSync,
    rename: Site::CheckpointRename,
    dir_sync: Site::CheckpointDirSync,
    remove: Site::CheckpointRemove,
};
