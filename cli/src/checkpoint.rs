//! A checkpoint made on demand, by whoever has the journal open.

use std::path::PathBuf;

use intendant_journal::Journal;
use intendant_journal::checkpoints::CheckpointError;
use serde::{Deserialize, Serialize};

use crate::exit::{Exit, Failure};

/// A checkpoint as the program gives it away.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Given {
    pub(crate) journal: String,
    pub(crate) sequence: u64,
    pub(crate) chain_head: String,
    pub(crate) time_ms: i64,
    /// The public half of the key, as `signing-key.pub` holds it.
    pub(crate) key: String,
    /// Where it lies in the journal's folder.
    pub(crate) path: PathBuf,
    /// The signed note, byte for byte.
    pub(crate) note: String,
}

/// Makes one of what is durable now.
pub(crate) fn make(journal: &Journal) -> Result<Given, Failure> {
    let written = journal.checkpoint().map_err(failure)?;
    let key = journal.signed_by().map(ToString::to_string);
    Ok(Given {
        journal: written.checkpoint.journal.to_string(),
        sequence: written.checkpoint.sequence.0,
        chain_head: written.checkpoint.chain.to_string(),
        time_ms: written.checkpoint.wall_ms,
        key: key.unwrap_or_default(),
        path: written.path,
        note: written.note,
    })
}

fn failure(error: CheckpointError) -> Failure {
    let message = error.to_string();
    match error {
        CheckpointError::Unsigned => Failure::new(
            Exit::Unsigned,
            "unsigned",
            "this journal is not signed: there is no signing key, so there is no checkpoint",
            "set HOME or XDG_CONFIG_HOME to a folder that can be written, and start again",
        ),
        CheckpointError::Io { path, .. } => Failure::new(
            Exit::Storage,
            "checkpoint",
            message,
            "look at the disk; recording goes on",
        )
        .at(&path),
        _ => Failure::new(
            Exit::Storage,
            "disabled",
            message,
            "look at the disk, then start again: a restart is safe",
        ),
    }
}
