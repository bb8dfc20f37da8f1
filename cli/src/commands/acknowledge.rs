//! `intendant acknowledge`: a person has seen an incident.

use clap::Args;
use intendant::operator::command::Change;

use super::Common;
use super::change::{RequestArgs, send};
use crate::exit::{Exit, Failure};

/// Say that an incident was looked at, so that `pending` lists it no longer
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  intendant acknowledge payouts 1432 --reason \"the bank reversed the second payout\""
)]
pub(super) struct AcknowledgeArgs {
    /// The run
    run: String,
    /// Sequence of the incident, as `intendant pending` names it
    sequence: u64,
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    request: RequestArgs,
}

pub(super) fn run(common: &Common, args: AcknowledgeArgs) -> Result<Exit, Failure> {
    let change = Change::Acknowledge {
        run: args.run,
        sequence: args.sequence,
    };
    send(common, &args.reason, args.request, &change)
}
