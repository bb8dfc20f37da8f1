//! The folder `checkpoints`: names, and what is read from it.

use std::io;
use std::path::{Path, PathBuf};

use super::checkpoint::Checkpoint;
use super::key::Verifier;
use super::note::{MAX_BYTES, Note, Standing};
use crate::disk::{Disk, read_small};
use crate::format::entry::{JournalId, Sequence};

const SUFFIX: &str = ".note";

/// Name of the file of a checkpoint: so many digits that names sort as sequences do.
pub(super) fn path_of(folder: &Path, sequence: Sequence) -> PathBuf {
    folder.join(format!("{:020}{SUFFIX}", sequence.0))
}

fn sequence_of(name: &str) -> Option<Sequence> {
    let digits = name.strip_suffix(SUFFIX)?;
    let plain = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok().map(Sequence))?
}

/// Names and sequences of the checkpoints in the folder, in order; none if there is no folder.
pub(super) fn list(disk: &dyn Disk, folder: &Path) -> io::Result<Vec<(Sequence, PathBuf)>> {
    let names = match disk.list(folder) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found: Vec<_> = names
        .iter()
        .filter_map(|name| Some((sequence_of(name.to_str()?)?, folder.join(name))))
        .collect();
    found.sort();
    Ok(found)
}

/// What the checkpoints in the folder say of the log to somebody who has these keys.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Testimony {
    /// The highest sequence that one of them says had been durable.
    ///
    /// One whose signature by a known key does not hold is no witness. One that no known key has
    /// signed counts as the mark does, which is not signed either: it must name this journal, and
    /// the same sequence as its file's name, so that no single flipped bit makes it say more than
    /// was signed.
    pub(crate) durable: Option<Sequence>,
    /// The newest one that a known key has signed.
    pub(crate) signed: Option<(PathBuf, Checkpoint)>,
}

impl Testimony {
    /// Reads the newest checkpoints, and no more than needed.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn read(
        disk: &dyn Disk,
        folder: &Path,
        journal: JournalId,
        keys: &[Verifier],
    ) -> io::Result<Self> {
        let mut testimony = Self::default();
        for (sequence, path) in list(disk, folder)?.into_iter().rev() {
            let bytes = match read_small(disk, &path, MAX_BYTES) {
                Ok(bytes) => bytes.unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => Vec::new(),
                Err(error) => return Err(error),
            };
            let Some((standing, checkpoint)) = read_note(&bytes, keys)
                .filter(|(_, says)| says.journal == journal && says.sequence == sequence)
            else {
                tracing::warn!(path = %path.display(), "not a checkpoint of this journal: no witness");
                continue;
            };
            testimony.durable = testimony.durable.max(Some(sequence));
            if let Standing::Signed(_) = standing {
                testimony.signed = Some((path, checkpoint));
            }
            if testimony.signed.is_some() || keys.is_empty() {
                break;
            }
        }
        Ok(testimony)
    }
}

/// A note that is signed, by a known key that holds or by unknown ones alone, and what it says.
fn read_note(bytes: &[u8], keys: &[Verifier]) -> Option<(Standing, Checkpoint)> {
    let note = Note::parse(bytes).ok()?;
    let standing = note.standing(keys);
    match standing {
        Standing::Broken(_) | Standing::Unsigned => None,
        Standing::Signed(_) | Standing::UnknownKey(_) => {
            Some((standing, Checkpoint::parse(note.text()).ok()?))
        }
    }
}
