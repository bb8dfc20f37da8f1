//! Who beside the log is asked what had been durable: the mark, the record of the journal outside of
//! its folder, and the checkpoints in the folder.
//!
//! A witness can only make the judgement of a log stricter: one that cannot be read says nothing.

use std::path::{Path, PathBuf};

use crate::checkpoints::{CHECKPOINTS, Checkpoint, Testimony, Verifier};
use crate::disk::Disk;
use crate::error::OpenError;
use crate::format::entry::{JournalId, Sequence};
use crate::recovery::{Seen, Witness, io_error};
use crate::writer::{MARK, read_mark};

/// Whom to ask.
#[derive(Clone, Copy)]
pub(crate) enum Asked<'a> {
    /// Everybody; checkpoints are judged by these keys.
    All { keys: &'a [Verifier] },
    /// All but the checkpoints: the caller judges them, and wants to know the chain values behind
    /// these entries, in order.
    NoCheckpoints { watch: &'a [Sequence] },
}

/// What they said.
#[derive(Clone, Debug)]
pub(crate) struct Witnesses {
    /// Who names the highest sequence: the mark, or else the record outside; or a checkpoint if
    /// that names a higher one.
    pub(crate) last: Option<Witness>,
    /// A checkpoint in the folder vouches for this journal.
    pub(crate) has_checkpoint: bool,
    /// The newest checkpoint that a known key has signed.
    signed: Option<(PathBuf, Checkpoint)>,
    watch: Vec<Sequence>,
}

impl Witnesses {
    /// Asks them. `recorded`: the journal is recorded outside, which is done once its first entry
    /// is durable.
    ///
    /// # Errors
    /// [`OpenError::Io`].
    pub(crate) fn ask(
        disk: &dyn Disk,
        folder: &Path,
        id: JournalId,
        recorded: bool,
        asked: Asked<'_>,
    ) -> Result<Self, OpenError> {
        let path = folder.join(MARK);
        let mark = read_mark(disk, &path, id).map_err(io_error(&path, "reading it"))?;
        let within = match mark {
            Some(durable) => Some(Witness {
                name: "the mark",
                durable,
            }),
            None if recorded => Some(Witness {
                name: "the record of this journal outside of its folder",
                durable: Sequence(1),
            }),
            None => None,
        };
        let (testimony, watch) = match asked {
            Asked::NoCheckpoints { watch } => (Testimony::default(), watch.to_vec()),
            Asked::All { keys } => {
                let path = folder.join(CHECKPOINTS);
                let testimony = Testimony::read(disk, &path, id, keys)
                    .map_err(io_error(&path, "reading it"))?;
                let watch = testimony.signed.iter().map(|(_, says)| says.sequence);
                let watch = watch.collect();
                (testimony, watch)
            }
        };
        let checkpoint = testimony.durable.map(|durable| Witness {
            name: "a checkpoint",
            durable,
        });
        Ok(Self {
            last: [within, checkpoint]
                .into_iter()
                .flatten()
                .max_by_key(|witness| witness.durable),
            has_checkpoint: testimony.durable.is_some(),
            watch,
            signed: testimony.signed,
        })
    }

    /// The entries behind which the chain value is to be told.
    pub(crate) fn watch(&self) -> &[Sequence] {
        &self.watch
    }

    /// Holds what was read of the log against what was signed. The chain value at the newest
    /// checkpoint vouches for everything before it.
    ///
    /// # Errors
    /// [`OpenError::Contradicted`].
    pub(crate) fn check(&self, seen: &[Seen]) -> Result<(), OpenError> {
        let Some((checkpoint, says)) = &self.signed else {
            return Ok(());
        };
        match seen.iter().find(|seen| seen.sequence == says.sequence) {
            Some(seen) if seen.chain != says.chain => Err(OpenError::Contradicted {
                path: seen.path.clone(),
                segment: seen.segment,
                offset: seen.offset,
                sequence: seen.sequence,
                checkpoint: checkpoint.clone(),
            }),
            _ => Ok(()),
        }
    }
}
