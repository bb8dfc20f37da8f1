//! `intendant deny`: a person's no.

use clap::Args;
use intendant::operator::command::Change;

use super::Common;
use super::change::{RequestArgs, send};
use crate::exit::{Exit, Failure};

/// Say no to an attempt that awaits approval
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  intendant deny payouts/pay/p-0001#1 --reason \"account is closed\""
)]
pub(super) struct DenyArgs {
    /// The attempt, as `intendant pending` names it
    intent: String,
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    request: RequestArgs,
}

pub(super) fn run(common: &Common, args: DenyArgs) -> Result<Exit, Failure> {
    let change = Change::Deny {
        intent: args.intent,
    };
    send(common, &args.reason, args.request, &change)
}
