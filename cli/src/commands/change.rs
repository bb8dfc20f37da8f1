//! What all commands that change something have in common.

use std::path::Path;

use clap::Args;
use intendant::operator::command::Change;
use serde_json::{Value, json};

use super::Common;
use crate::exit::{Exit, Failure};
use crate::print;
use crate::reach::Reach;

/// Names a request, so that it can be sent again.
#[derive(Debug, Args)]
pub(super) struct RequestArgs {
    /// Id of this request: the same id again gets the recorded answer and changes nothing
    /// [default: a new one]
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
}

/// Sends a change and says what is true once it is durable.
pub(super) fn send(
    common: &Common,
    reason: &str,
    request: RequestArgs,
    change: &Change,
) -> Result<Exit, Failure> {
    let request = request
        .request_id
        .unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
    if request.is_empty() {
        return Err(Failure::usage("the request id is empty", "leave it out"));
    }
    let done = Reach::new(&common.data)
        .change(reason, &request, change)
        .map_err(|mut failure| {
            if matches!(failure.exit, Exit::Storage | Exit::Owned) {
                failure.remedy.push_str(&format!(
                    " (to send the same request again: --request-id {request})"
                ));
            }
            failure
        })?;
    for warning in &done.warnings {
        print::note(format!("warning: {warning}"));
    }
    if common.json {
        print::json(&json!({
            "message": done.message,
            "sequence": done.sequence,
            "replayed": done.replayed,
            "warnings": done.warnings,
            "request": request,
        }));
    } else {
        print::out(format!("{} (entry {})", done.message, done.sequence));
        print::out(format!("request {request}"));
    }
    Ok(Exit::Done)
}

/// A JSON value given on the command line, or in a file named with `@`.
pub(super) fn json_argument(name: &str, text: &str) -> Result<Value, Failure> {
    let bytes = match text.strip_prefix('@') {
        Some(path) => std::fs::read(path).map_err(|error| {
            Failure::usage(
                format!("{name}: {path} cannot be read: {error}"),
                "name a file that can be read",
            )
            .at(Path::new(path))
        })?,
        None => text.as_bytes().to_vec(),
    };
    intendant_journal::format::canonical::parse(&bytes).map_err(|why| {
        Failure::usage(
            format!("{name} is not one JSON value: {why}"),
            "write JSON (text needs its quotes), or @FILE",
        )
    })
}
