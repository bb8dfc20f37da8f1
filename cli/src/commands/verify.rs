//! `intendant verify`: checks the record from outside.

use std::path::PathBuf;

use clap::Args;
use intendant_journal::checkpoints::Standing;
use intendant_journal::checkpoints::audit::{AuditReport, Checked, Conclusion, Evidence, Finding};
use intendant_journal::error::{OpenError, ReadError};
use intendant_journal::format::entry::Sequence;
use serde_json::{Value, json};

use super::Common;
use crate::exit::{Exit, Failure};
use crate::keys;
use crate::open;
use crate::print;

/// Check every frame, the hash chain, every blob and the signed checkpoints; change nothing
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  intendant verify --json
  intendant verify --checkpoint /mnt/other-machine/payouts.note --key signing-key.pub

It reads a copy, a stopped journal or a live one. The checkpoints in the folder are always checked;
that the folder was set back as a whole to an earlier state is found only by one kept elsewhere.

Exit codes: 0 valid, 10 altered, 11 truncated: it ends before what is known to have been in it,
12 the chain is whole in itself, but nothing signed by a known key vouches for it, 4 unreadable,
2 bad usage.")]
pub(super) struct VerifyArgs {
    /// A checkpoint that is kept elsewhere, as `intendant checkpoint` gave it. May be repeated
    #[arg(long, value_name = "FILE")]
    checkpoint: Vec<PathBuf>,
    /// A public key that is believed [default: your own, signing-key.pub in
    /// $XDG_CONFIG_HOME/intendant/]. May be repeated
    #[arg(long, value_name = "FILE")]
    key: Vec<PathBuf>,
}

pub(super) fn run(common: &Common, args: &VerifyArgs) -> Result<Exit, Failure> {
    let keys = match args.key.as_slice() {
        [] => keys::known(),
        files => keys::in_files(files)?,
    };
    let mut kept_elsewhere = Vec::new();
    for path in &args.checkpoint {
        let bytes = std::fs::read(path).map_err(|error| {
            no_checkpoint(path, format!("{}: reading it: {error}", path.display()))
        })?;
        kept_elsewhere.push((path.clone(), bytes));
    }
    let evidence = Evidence {
        keys,
        kept_elsewhere,
    };
    let report = open::audit(&common.data, &evidence).map_err(|error| {
        let exit = match &error {
            OpenError::Damaged(_) | OpenError::Read(ReadError::Damaged(_)) => Exit::Altered,
            OpenError::Shortened { .. } => Exit::Truncated,
            _ => Exit::JournalRefused,
        };
        Failure::from(error).with_exit(exit)
    })?;
    for checked in &report.checkpoints {
        if let Finding::Unreadable(why) = &checked.finding
            && args.checkpoint.contains(&checked.path)
        {
            let what = format!("{}: it is no checkpoint: {why}", checked.path.display());
            return Err(no_checkpoint(&checked.path, what));
        }
    }
    let exit = match report.conclusion() {
        Conclusion::Valid(_) => Exit::Done,
        Conclusion::Unsigned { .. } => Exit::Unsigned,
        Conclusion::Altered { by, first, place } => {
            return Err(altered(&report, by, first).in_log(place.as_ref(), first.0));
        }
        Conclusion::Truncated {
            by,
            end,
            durable,
            place,
        } => return Err(truncated(by, end, durable).in_log(place, end.0 + 1)),
    };
    match common.json {
        true => print::json(&in_json(&report)),
        false => in_words(&report),
    }
    Ok(exit)
}

fn no_checkpoint(path: &std::path::Path, what: String) -> Failure {
    let remedy = "name a file that intendant checkpoint made with --checkpoint";
    Failure::usage(what, remedy).at(path)
}

/// Who vouches for it, in the words of a sentence.
fn signed_by(checked: &Checked) -> String {
    match &checked.standing {
        Some(Standing::Signed(name)) => format!("signed by {name}"),
        Some(Standing::UnknownKey(names)) => {
            format!("signed by {}, which is not known", names.join(", "))
        }
        Some(Standing::Broken(name)) => format!("with a broken signature by {name}"),
        Some(Standing::Unsigned) | None => "not signed".to_owned(),
    }
}

fn altered(report: &AuditReport, by: &Checked, first: Sequence) -> Failure {
    let path = by.path.display();
    let sequence = by.checkpoint.map_or(Sequence(0), |it| it.sequence);
    let (message, remedy) = match &by.finding {
        Finding::OtherJournal => (
            format!(
                "{path}: this checkpoint ({}) is of another journal than {}, which is in the folder",
                signed_by(by),
                report.verified.log.id
            ),
            "find out who put the other journal here, or name the checkpoint that belongs to it",
        ),
        Finding::BrokenSignature => (
            format!(
                "{path}: the checkpoint was altered: it is {}",
                signed_by(by)
            ),
            "keep the folder as evidence; a copy of the checkpoint kept elsewhere tells what it said",
        ),
        Finding::Unreadable(why) => (
            format!("{path}: the checkpoint was altered: {why}"),
            "keep the folder as evidence; a copy of the checkpoint kept elsewhere tells what it said",
        ),
        Finding::Differs | Finding::Fits | Finding::Beyond => (
            format!(
                "{path}: the log has another hash behind sequence {sequence} than this checkpoint \
                 ({}) says: entries from {first} on may be others than were signed",
                signed_by(by)
            ),
            "keep the folder as evidence and restore the log from a backup",
        ),
    };
    Failure::new(Exit::Altered, "altered", message, remedy).at(&by.path)
}

fn truncated(by: &Checked, end: Sequence, durable: Sequence) -> Failure {
    let message = format!(
        "the log ends at sequence {end}, but the checkpoint {} ({}) shows that {durable} was \
         durable: {} entries are lost",
        by.path.display(),
        signed_by(by),
        durable.0 - end.0
    );
    let remedy = "keep the folder as evidence and restore it from a backup";
    Failure::new(Exit::Truncated, "truncated", message, remedy).at(&by.path)
}

/// The checkpoint that vouches for the log, or why none does.
fn head(report: &AuditReport) -> Result<&Checked, String> {
    match report.conclusion() {
        Conclusion::Valid(head) => Ok(head),
        Conclusion::Unsigned { why } => Err(why),
        Conclusion::Altered { .. } | Conclusion::Truncated { .. } => {
            Err("it does not fit".to_owned())
        }
    }
}

fn in_json(report: &AuditReport) -> Value {
    let log = &report.verified.log;
    let head = head(report);
    json!({
        "schema": 1,
        "valid": head.is_ok(),
        "signed": head.is_ok(),
        "why_unsigned": head.as_ref().err(),
        "head": head.ok().and_then(|head| Some((head, head.checkpoint?))).map(|(head, says)| json!({
            "path": head.path,
            "sequence": says.sequence,
            "time_ms": says.wall_ms,
            "key": key_of(head),
        })),
        "checkpoints": report.checkpoints.len(),
        "journal": log.id.to_string(),
        "epoch": log.epoch,
        "segments": log.segments,
        "entries": log.end,
        "last_sequence": log.end,
        "chain_head": log.chain.to_string(),
        "blobs": report.verified.blobs,
        "unfinished": log.unfinished.as_ref().map(|unfinished| json!({
            "path": unfinished.path, "offset": unfinished.offset, "what": unfinished.what,
        })),
    })
}

fn key_of(checked: &Checked) -> Option<&str> {
    match &checked.standing {
        Some(Standing::Signed(name)) => Some(name),
        _ => None,
    }
}

fn in_words(report: &AuditReport) {
    let log = &report.verified.log;
    let mut rows = Vec::new();
    match head(report) {
        Ok(head) => {
            let up_to = head.checkpoint.map_or(Sequence(0), |says| says.sequence);
            print::out("valid");
            rows.push(("signed up to", format!("{up_to} of {}", log.end)));
            rows.push(("signed by", key_of(head).unwrap_or_default().to_owned()));
            rows.push(("checkpoint", head.path.display().to_string()));
        }
        Err(why) => {
            print::out("UNSIGNED: the chain is whole in itself, and nobody vouches for it");
            rows.push(("why", why));
        }
    }
    rows.extend([
        ("journal", log.id.to_string()),
        ("epoch", log.epoch.to_string()),
        ("segments", log.segments.to_string()),
        ("entries", log.end.to_string()),
        ("last sequence", log.end.to_string()),
        ("chain head", log.chain.to_string()),
        ("blobs", report.verified.blobs.to_string()),
        ("checkpoints", report.checkpoints.len().to_string()),
    ]);
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
    let rows = rows
        .into_iter()
        .map(|(name, value)| vec![name.to_owned(), value])
        .collect();
    print::out(print::table(&[], &[0], rows));
}
