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

/// The highest sequence that a checkpoint in the folder says had been durable.
///
/// One whose signature by a known key does not hold is no witness. One that no known key has signed
/// counts as the mark does, which is not signed either: it must name this journal, and the same
/// sequence as its file's name, so that no single flipped bit makes it say more than was signed.
///
/// # Errors
/// The system's error.
pub(crate) fn newest_witness(
    disk: &dyn Disk,
    folder: &Path,
    journal: JournalId,
    keys: &[Verifier],
) -> io::Result<Option<Sequence>> {
    for (sequence, path) in list(disk, folder)?.into_iter().rev() {
        let bytes = match read_small(disk, &path, MAX_BYTES) {
            Ok(bytes) => bytes.unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => continue,
            Err(error) => return Err(error),
        };
        let witnesses = Note::parse(&bytes).is_ok_and(|note| {
            let signed = !matches!(
                note.standing(keys),
                Standing::Broken(_) | Standing::Unsigned
            );
            let says = Checkpoint::parse(note.text());
            signed && says.is_ok_and(|it| it.journal == journal && it.sequence == sequence)
        });
        if witnesses {
            return Ok(Some(sequence));
        }
        tracing::warn!(path = %path.display(), "not a checkpoint of this journal: no witness");
    }
    Ok(None)
}
