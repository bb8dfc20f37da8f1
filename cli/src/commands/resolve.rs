//! `intendant resolve`: a person settles an attempt in doubt.

use clap::Args;
use intendant::operator::command::{Change, Settle};

use super::Common;
use super::change::{RequestArgs, json_argument, send};
use crate::exit::{Exit, Failure};

/// Settle an attempt in doubt
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  intendant resolve payouts/pay/p-0001#1 --executed --output '{\"receipt\":\"r-17\"}' --reason \"seen in the bank's list\"
  intendant resolve payouts/pay/p-0001#1 --never-ran --reason \"the bank has no such request\"
  intendant resolve payouts/pay/p-0001#1 --give-up --reason \"the bank does not know either\"

Ask first, where the tool has a reconciler: intendant reconcile payouts/pay/p-0001#1")]
pub(super) struct ResolveArgs {
    /// The attempt, as `intendant pending` names it; it must be the current one
    intent: String,
    #[command(flatten)]
    found: Found,
    /// Output of the executed attempt: JSON, or @FILE; checked by the tool's output schema
    #[arg(long, value_name = "JSON|@FILE", requires = "executed")]
    output: Option<String>,
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    request: RequestArgs,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Found {
    /// It happened; takes --output JSON, what the tool would have printed (null if nothing)
    #[arg(long, requires = "output")]
    executed: bool,
    /// It did not happen and will not: your claim, on which it is run again under the same key
    #[arg(long)]
    never_ran: bool,
    /// Nobody will find out: its call returns the error GivenUp
    #[arg(long)]
    give_up: bool,
}

pub(super) fn run(common: &Common, args: ResolveArgs) -> Result<Exit, Failure> {
    let resolution = match (&args.found, &args.output) {
        (
            Found {
                never_ran: true, ..
            },
            _,
        ) => Settle::NeverRan,
        (Found { give_up: true, .. }, _) => Settle::GiveUp,
        (_, Some(output)) => Settle::Executed {
            output: json_argument("--output", output)?,
        },
        (_, None) => {
            return Err(Failure::usage(
                "--executed takes --output",
                "give the output that the tool would have printed, null if it prints nothing",
            ));
        }
    };
    if args.reason.trim().is_empty() {
        return Err(Failure::usage(
            "the reason is empty",
            "say in --reason how you know",
        ));
    }
    let change = Change::Resolve {
        intent: args.intent,
        resolution,
    };
    send(common, &args.reason, args.request, &change)
}
