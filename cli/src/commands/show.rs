//! `intendant show`: one run or one action in full.

use clap::Args;
use intendant::operator::report::{ActionDetail, RunDetail};

use super::Common;
use crate::exit::{Exit, Failure};
use crate::print;
use crate::reach::Reach;

/// Show a run, or an action with all that is recorded of it
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  intendant show payouts\n  intendant show payouts/pay/p-0001#1"
)]
pub(super) struct ShowArgs {
    /// A run, or an attempt or action as `intendant pending` names it
    #[arg(value_name = "RUN|INTENT")]
    what: String,
}

pub(super) fn run(common: &Common, args: &ShowArgs) -> Result<Exit, Failure> {
    let reach = Reach::new(&common.data);
    if args.what.contains('/') {
        let action = reach.action(&args.what)?;
        if common.json {
            print::json(&action);
        } else {
            print_action(&action);
        }
    } else {
        let run = reach.show(&args.what)?;
        if common.json {
            print::json(&run);
        } else {
            print_run(run);
        }
    }
    Ok(Exit::Done)
}

fn print_run(detail: RunDetail) {
    let line = &detail.line;
    print::out(format!(
        "run {}: {}, workflow {} version {}, pass {}, started {}, last entry {}",
        line.run, line.state, line.workflow, line.version, line.pass, line.started, line.updated
    ));
    if let Some(result) = &detail.result {
        print::out(format!("result: {}", text_of(result)));
    }
    if detail.actions_list.is_empty() {
        print::out("it has no actions");
        return;
    }
    let rows = detail
        .actions_list
        .into_iter()
        .map(|action| {
            vec![
                format!("{}#{}", action.action, action.attempt),
                action.tool,
                action.state,
                action.why.unwrap_or_default(),
            ]
        })
        .collect();
    print::out(print::table(
        &["INTENT", "TOOL", "STATE", "WHY"],
        &[0],
        rows,
    ));
}

fn print_action(action: &ActionDetail) {
    let mut rows = vec![
        ("action", action.action.clone()),
        ("state", action.state.clone()),
        ("attempt", action.attempt.to_string()),
        (
            "tool",
            format!("{} (version {})", action.tool, action.tool_version),
        ),
        ("arguments", text_of(&action.arguments)),
        ("digest", action.digest.clone()),
        ("key", action.idempotency_key.clone()),
        ("recovery", action.recovery.clone()),
    ];
    if let Some(closure) = &action.closure {
        rows.push(("closure", closure.clone()));
    }
    if let Some(output) = &action.output {
        rows.push(("output", text_of(output)));
    }
    if let Some(why) = &action.why {
        rows.push(("why", why.clone()));
    }
    rows.push(("on a restart", action.explain.clone()));
    let rows = rows
        .into_iter()
        .map(|(name, value)| vec![name.to_owned(), value])
        .collect();
    print::out(print::table(&[], &[0], rows));
    let history = action
        .history
        .iter()
        .map(|line| {
            vec![
                line.sequence.to_string(),
                line.epoch.to_string(),
                line.at.clone(),
                line.what.clone(),
                line.detail.clone(),
            ]
        })
        .collect();
    print::out("");
    print::out(print::table(
        &["ENTRY", "EPOCH", "AT", "WHAT", "DETAIL"],
        &[0, 1, 2, 3],
        history,
    ));
    for log in &action.logs {
        print::out(format!("\nstandard error of attempt {}:", log.attempt));
        print::out(print::plain(text_of(&log.text).trim_end()));
    }
}

/// Text as it is, all else as JSON.
fn text_of(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
