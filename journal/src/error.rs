//! Errors of the journal: what happened, where, and what to do.
//!
//! Classes a caller can act on: *refused* (nothing reached the log), *unsettled* (it may or may
//! not be there after a restart; ask for it by id), *operator* (damage, wrong folder, newer
//! version, no space, owned by another process).

use std::path::PathBuf;

use crate::format::entry::Sequence;

/// Why a batch is not (known to be) durable.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// Nothing of the batch is in the log, and nothing of it will turn up later.
    #[error("refused, nothing was recorded: {why}")]
    Refused {
        /// Cause and remedy.
        why: String,
    },
    /// The disk is full: nothing was recorded. Running actions can still record how they ended.
    #[error(
        "no space for a new intent on the journal's disk: {why}; free space and start again, nothing was begun"
    )]
    NoSpace {
        /// What could not be made ready.
        why: String,
    },
    /// The batch is larger than a batch may be: nothing was recorded.
    #[error("a batch of {bytes} bytes is larger than the {max} bytes that fit in one segment")]
    TooLarge {
        /// Its encoded size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// A write or sync failed under the batch. It may or may not be there after a restart.
    #[error(
        "unsettled: the journal's storage failed ({why}); the record may or may not be there after a restart, which is safe"
    )]
    Unsettled {
        /// The failed operation.
        why: String,
    },
    /// The journal was disabled by an earlier failure: nothing of this batch reached the log.
    #[error("refused, the journal is disabled since {why}; a restart is safe")]
    Disabled {
        /// The failure that disabled it.
        why: String,
    },
}

/// Why stored entries or blobs cannot be given back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// What is stored is damaged.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// The disk could not be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The projection could not be read.
    #[error("the projection {}: {why}; it can be deleted while stopped, the next start rebuilds it from the log", path.display())]
    Projection {
        /// Its file.
        path: PathBuf,
        /// What failed.
        why: String,
    },
}

/// Damage found in the journal, and where. No byte of evidence is changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}: damaged at offset {offset}: {what}; {lost}. {remedy}", path.display())]
pub struct Damage {
    /// The damaged file.
    pub path: PathBuf,
    /// Number of the segment, if the file is one.
    pub segment: Option<u64>,
    /// Byte offset in the file.
    pub offset: u64,
    /// What was found there.
    pub what: String,
    /// What is known to be lost.
    pub lost: String,
    /// What to do.
    pub remedy: String,
}

/// Why a journal cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no journal here.
    #[error("{}: there is no journal here; name the right folder with --data, or start a job to create one", path.display())]
    Missing {
        /// The folder.
        path: PathBuf,
    },
    /// A journal is recorded for this path, and it is gone: not a fresh start.
    #[error("{}: journal {id} was here and is gone (volume not mounted? wrong path?); bring it back, or start a new one deliberately with --new-journal", path.display())]
    Gone {
        /// The folder.
        path: PathBuf,
        /// Identity of the recorded journal.
        id: String,
    },
    /// The folder holds something else, and nothing of a journal.
    #[error("{}: not a journal of Intendant: {what}; name another folder with --data", path.display())]
    Foreign {
        /// The folder or file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// Written by a newer program; left untouched.
    #[error("{}: journal format version {found}, this program reads up to {known}; nothing is lost and nothing was changed, use a newer program", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Version found.
        found: u32,
        /// Newest version known.
        known: u32,
    },
    /// A live process owns the journal.
    #[error("{}: in use by process {pid}", path.display())]
    Owned {
        /// The folder.
        path: PathBuf,
        /// The owner's process id, 0 if it could not be read.
        pid: u32,
        /// The owner's socket, if it serves one.
        socket: Option<PathBuf>,
    },
    /// The journal is damaged: stopped before anything was done.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// The log ends before a sequence that a witness says was durable.
    #[error("{}: the log ends at sequence {end} (offset {offset}), but {witness} shows that {durable} was durable: {} entries are lost; restore the folder from a backup", path.display(), durable.0 - end.0)]
    Shortened {
        /// The segment's file in which it ends; the journal's folder if it has none.
        path: PathBuf,
        /// Number of that segment.
        segment: Option<u64>,
        /// Byte offset in the file behind the last entry found.
        offset: u64,
        /// Last sequence found.
        end: Sequence,
        /// Last sequence known durable.
        durable: Sequence,
        /// Who says so.
        witness: String,
    },
    /// The log is whole in itself, and is not the one that was signed.
    #[error("{}: the log (segment {segment}, batch at offset {offset}) has another hash behind sequence {sequence} than the signed checkpoint {} says: it was written anew at or before that entry; keep the folder as evidence and restore the log from a backup", path.display(), checkpoint.display())]
    Contradicted {
        /// The segment's file that holds the entry.
        path: PathBuf,
        /// Number of that segment.
        segment: u64,
        /// Where the entry's batch begins in it.
        offset: u64,
        /// The entry behind which the hash differs.
        sequence: Sequence,
        /// The file of the checkpoint.
        checkpoint: PathBuf,
    },
    /// The disk failed.
    #[error("{}: {doing}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was being done.
        doing: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// Reading stored entries failed.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The first append of the opening failed.
    #[error(transparent)]
    Append(#[from] AppendError),
}
