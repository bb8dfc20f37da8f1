//! `intendant pending`: what has not ended, why, and what happens next.

use clap::Args;

use super::Common;
use crate::exit::{Exit, Failure};
use crate::print;
use crate::reach::Reach;

/// List what is in doubt, running, awaiting approval, parked or waiting: why, since when, what next
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  intendant pending")]
pub(super) struct PendingArgs {}

pub(super) fn run(common: &Common, _: &PendingArgs) -> Result<Exit, Failure> {
    let pending = Reach::new(&common.data).pending()?;
    if common.json {
        print::json(&pending);
        return Ok(Exit::Done);
    }
    for alarm in &pending.alarms {
        print::out(format!("ALARM: {alarm}"));
    }
    if pending.items.is_empty() {
        print::out(format!(
            "nothing is pending (engine {}, entry {})",
            pending.engine, pending.as_of_sequence
        ));
        return Ok(Exit::Done);
    }
    let count = pending.items.len();
    let rows = pending
        .items
        .into_iter()
        .map(|item| {
            let next = match &item.next.at {
                Some(at) => format!("{} (at {at})", item.next.what),
                None => item.next.what,
            };
            vec![
                item.intent,
                item.state.replace('_', " "),
                print::age(&item.since),
                item.why,
                next,
            ]
        })
        .collect();
    let headings = ["INTENT", "STATE", "SINCE", "WHY", "NEXT"];
    print::out(print::table(&headings, &[0, 2], rows));
    print::out(format!(
        "{count} pending (engine {}, entry {})",
        pending.engine, pending.as_of_sequence
    ));
    Ok(Exit::Done)
}
