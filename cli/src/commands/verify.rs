//! `intendant verify`: checks the record from outside.

use clap::Args;
use intendant_journal::error::{OpenError, ReadError};
use serde_json::json;

use super::Common;
use crate::exit::{Exit, Failure};
use crate::open;
use crate::print;

/// Check every frame, the hash chain and every blob; change nothing
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  intendant verify --json

Exit codes: 0 valid, 10 altered, 4 unreadable. Truncation below a signed checkpoint (11) and a
missing or unsigned head (12) are told once checkpoints are signed; until then a cut that leaves
the mark behind is told as altered.")]
pub(super) struct VerifyArgs {}

pub(super) fn run(common: &Common, _: &VerifyArgs) -> Result<Exit, Failure> {
    let report = open::verify(&common.data).map_err(|error| {
        let altered = matches!(
            error,
            OpenError::Damaged(_)
                | OpenError::Shortened { .. }
                | OpenError::Read(ReadError::Damaged(_))
        );
        Failure::from(error).with_exit(match altered {
            true => Exit::Altered,
            false => Exit::JournalRefused,
        })
    })?;
    let log = &report.log;
    if common.json {
        print::json(&json!({
            "schema": 1,
            "valid": true,
            "journal": log.id.to_string(),
            "epoch": log.epoch,
            "segments": log.segments,
            "entries": log.end,
            "last_sequence": log.end,
            "chain_head": log.chain.to_string(),
            "blobs": report.blobs,
            "unfinished": log.unfinished.as_ref().map(|unfinished| json!({
                "path": unfinished.path, "offset": unfinished.offset, "what": unfinished.what,
            })),
        }));
        return Ok(Exit::Done);
    }
    let mut rows = vec![
        ("journal", log.id.to_string()),
        ("epoch", log.epoch.to_string()),
        ("segments", log.segments.to_string()),
        ("entries", log.end.to_string()),
        ("last sequence", log.end.to_string()),
        ("chain head", log.chain.to_string()),
        ("blobs", report.blobs.to_string()),
    ];
    if let Some(unfinished) = &log.unfinished {
        let place = format!("{} at {}", unfinished.path.display(), unfinished.offset);
        rows.push((
            "unfinished",
            format!(
                "{}: {place}; nothing of it was acknowledged",
                unfinished.what
            ),
        ));
    }
    print::out("valid");
    let rows = rows
        .into_iter()
        .map(|(name, value)| vec![name.to_owned(), value])
        .collect();
    print::out(print::table(&[], &[0], rows));
    Ok(Exit::Done)
}
