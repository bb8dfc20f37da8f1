//! `intendant retry`: makes new actions of what failed.

use clap::Args;
use intendant::operator::command::Change;

use super::Common;
use super::change::{RequestArgs, send};
use crate::exit::{Exit, Failure};

/// Make new actions, with new keys, of what failed, was denied, given up or unusable
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  intendant retry payouts --item p-0001 --reason \"account was corrected\"
  intendant run job.toml

They are made when the run is started again.")]
pub(super) struct RetryArgs {
    /// The run; it must have ended
    run: String,
    /// Only the items with this key
    #[arg(long, value_name = "KEY")]
    item: Option<String>,
    /// Why
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    #[command(flatten)]
    request: RequestArgs,
}

pub(super) fn run(common: &Common, args: RetryArgs) -> Result<Exit, Failure> {
    let change = Change::Retry {
        run: args.run,
        item: args.item,
    };
    send(common, &args.reason, args.request, &change)
}
