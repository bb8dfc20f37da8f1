//! `intendant explain`: what a restart would do with an action.

use clap::Args;
use serde_json::json;

use super::Common;
use crate::exit::{Exit, Failure};
use crate::print;
use crate::reach::Reach;

/// Say what a restart would do with an action
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  intendant explain payouts/pay/p-0001#1")]
pub(super) struct ExplainArgs {
    /// The attempt, as `intendant pending` names it
    intent: String,
}

pub(super) fn run(common: &Common, args: &ExplainArgs) -> Result<Exit, Failure> {
    let action = Reach::new(&common.data).action(&args.intent)?;
    let intent = format!("{}#{}", action.action, action.attempt);
    if common.json {
        print::json(&json!({
            "intent": intent,
            "action": action.action,
            "attempt": action.attempt,
            "tool": action.tool,
            "state": action.state,
            "recovery": action.recovery,
            "closure": action.closure,
            "why": action.why,
            "explain": action.explain,
        }));
    } else {
        print::out(format!("{intent} is {}", action.state));
        if let Some(why) = &action.why {
            print::out(format!("why: {why}"));
        }
        print::out(format!("on a restart: {}", action.explain));
    }
    Ok(Exit::Done)
}
