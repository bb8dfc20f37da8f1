//! `intendant signal`: tells a run something.

use clap::Args;
use intendant::operator::command::Change;

use super::Common;
use super::change::{RequestArgs, json_argument, send};
use crate::exit::{Exit, Failure};

/// Send a signal to a run, waiting for it or not yet
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  intendant signal onboarding document-signed --payload '{\"by\":\"alice\"}'"
)]
pub(super) struct SignalArgs {
    /// The run
    run: String,
    /// The signal's name
    name: String,
    /// What it carries: JSON, or @FILE
    #[arg(long, value_name = "JSON|@FILE", default_value = "null")]
    payload: String,
    /// Why
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    #[command(flatten)]
    request: RequestArgs,
}

pub(super) fn run(common: &Common, args: SignalArgs) -> Result<Exit, Failure> {
    let change = Change::Signal {
        run: args.run,
        name: args.name,
        payload: json_argument("--payload", &args.payload)?,
    };
    send(common, &args.reason, args.request, &change)
}
