//! `intendant cancel`: asks a run to end.

use clap::Args;
use intendant::operator::command::Change;

use super::Common;
use super::change::{RequestArgs, send};
use crate::exit::{Exit, Failure};

/// Ask a run to end: nothing new starts, running actions finish
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  intendant cancel payouts --reason \"wrong file\"")]
pub(super) struct CancelArgs {
    /// The run
    run: String,
    /// Why
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    #[command(flatten)]
    request: RequestArgs,
}

pub(super) fn run(common: &Common, args: CancelArgs) -> Result<Exit, Failure> {
    let change = Change::Cancel { run: args.run };
    send(common, &args.reason, args.request, &change)
}
