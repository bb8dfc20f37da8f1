//! `intendant reconcile`: asks the reconciler now.

use clap::Args;
use serde_json::json;

use super::Common;
use crate::exit::{Exit, Failure};
use crate::print;
use crate::reach::Reach;

/// Ask a tool's reconciler about an attempt in doubt now
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  intendant reconcile payouts/pay/p-0001#1

On a stopped journal the answer is recorded, and nothing follows from it until the job is started
again.")]
pub(super) struct ReconcileArgs {
    /// The attempt, as `intendant pending` names it
    intent: String,
}

pub(super) fn run(common: &Common, args: &ReconcileArgs) -> Result<Exit, Failure> {
    let message = Reach::new(&common.data).reconcile(&args.intent)?;
    if common.json {
        print::json(&json!({ "intent": args.intent, "message": message }));
    } else {
        print::out(message);
    }
    Ok(Exit::Done)
}
