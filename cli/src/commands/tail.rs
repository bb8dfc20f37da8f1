//! `intendant tail`: the journal's entries as they come.

use std::time::Duration;

use clap::Args;
use intendant::operator::report::HistoryLine;
use serde_json::json;

use super::Common;
use crate::exit::{Exit, Failure};
use crate::print;
use crate::reach::Reach;

/// How often new entries are looked for.
const TICK: Duration = Duration::from_millis(300);

/// Print the journal's entries, one a line
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  intendant tail payouts --follow
  intendant tail --after 1000 --json

With --follow and --json every entry is a JSON object on a line of its own.")]
pub(super) struct TailArgs {
    /// Only this run's entries
    run: Option<String>,
    /// Go on printing entries as they become durable, until stopped
    #[arg(long)]
    follow: bool,
    /// Only entries behind this one
    #[arg(long, value_name = "SEQUENCE", default_value_t = 0)]
    after: u64,
}

pub(super) fn run(common: &Common, args: &TailArgs) -> Result<Exit, Failure> {
    let reach = Reach::new(&common.data);
    let run = args.run.as_deref();
    let (lines, mut end) = reach.tail(run, args.after)?;
    if !args.follow {
        match (common.json, lines.is_empty()) {
            (true, _) => print::json(&json!({
                "schema": 1, "as_of_sequence": end, "entries": lines,
            })),
            (false, true) => print::out("no such entries"),
            (false, false) => show(common, &lines),
        }
        return Ok(Exit::Done);
    }
    show(common, &lines);
    let mut was_live = true;
    loop {
        std::thread::sleep(TICK);
        let live = reach.tail_on(run, end)?;
        let new = match live {
            Some(new) => {
                was_live = true;
                Some(new)
            }
            // What it wrote at last before it ended.
            None if was_live => {
                was_live = false;
                Some(reach.tail(run, end)?)
            }
            None => None,
        };
        if let Some((lines, reached)) = new {
            show(common, &lines);
            end = end.max(reached);
        }
    }
}

fn show(common: &Common, lines: &[HistoryLine]) {
    for line in lines {
        if common.json {
            print::json(line);
        } else {
            let run = match line.run.as_str() {
                "" => "-",
                run => run,
            };
            print::out(format!(
                "{} {} {} {} {}",
                line.sequence, line.at, run, line.what, line.detail
            ));
        }
    }
}
