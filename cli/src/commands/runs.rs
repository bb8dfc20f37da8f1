//! `intendant runs`: lists all runs.

use clap::Args;
use serde_json::json;

use super::Common;
use crate::exit::{Exit, Failure};
use crate::print;
use crate::reach::Reach;

/// List all runs, oldest first
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  intendant runs --json")]
pub(super) struct RunsArgs {}

pub(super) fn run(common: &Common, _: &RunsArgs) -> Result<Exit, Failure> {
    let runs = Reach::new(&common.data).runs()?;
    if common.json {
        print::json(&json!({ "schema": 1, "runs": runs }));
        return Ok(Exit::Done);
    }
    if runs.is_empty() {
        print::out("there are no runs");
        return Ok(Exit::Done);
    }
    let rows = runs
        .into_iter()
        .map(|run| {
            let open = run.actions.in_doubt
                + run.actions.parked
                + run.actions.awaiting_approval
                + run.actions.running;
            let bad = run.actions.failed + run.actions.denied + run.actions.given_up;
            vec![
                run.run,
                run.state,
                format!("{} v{}", run.workflow, run.version),
                run.actions.done.to_string(),
                bad.to_string(),
                open.to_string(),
                print::age(&run.updated),
            ]
        })
        .collect();
    let headings = [
        "RUN", "STATE", "WORKFLOW", "DONE", "FAILED", "OPEN", "UPDATED",
    ];
    print::out(print::table(&headings, &[0], rows));
    Ok(Exit::Done)
}
