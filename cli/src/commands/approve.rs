//! `intendant approve`: a person's yes.

use clap::Args;
use intendant::operator::command::Change;

use super::Common;
use super::change::{RequestArgs, send};
use crate::exit::{Exit, Failure};

/// Say yes to an attempt that awaits approval
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  intendant approve payouts/pay/p-0001#1 --reason \"checked with finance\""
)]
pub(super) struct ApproveArgs {
    /// The attempt, as `intendant pending` names it
    intent: String,
    /// Why
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    #[command(flatten)]
    request: RequestArgs,
}

pub(super) fn run(common: &Common, args: ApproveArgs) -> Result<Exit, Failure> {
    let change = Change::Approve {
        intent: args.intent,
    };
    send(common, &args.reason, args.request, &change)
}
