//! What is said at the end of a run.

use std::time::Duration;

use intendant::engine::status::{Halt, RunEnd, RunStatus};
use intendant::operator::report::ActionCounts;
use serde_json::{Value, json};

use crate::exit::{Exit, Failure};
use crate::print;

/// How a run stands when the program ends.
pub(super) struct Summary {
    pub(super) run: String,
    pub(super) status: RunStatus,
    pub(super) counts: ActionCounts,
    pub(super) elapsed: Duration,
    pub(super) syncs: u64,
    pub(super) epoch: u32,
    /// Other runs of the journal that have not ended.
    pub(super) others: usize,
    /// Nothing was to be done.
    pub(super) idle: bool,
    /// The signal that stopped it.
    pub(super) signal: Option<Exit>,
}

impl Summary {
    /// The code to end with, or the failure to tell.
    pub(super) fn exit(&self) -> Result<Exit, Failure> {
        match &self.status {
            RunStatus::JournalFailed(error) => Err(error.clone().into()),
            RunStatus::Halted(halt) => Err(halted(halt)),
            RunStatus::Ended(RunEnd::Completed(_)) => Ok(Exit::Done),
            RunStatus::Ended(_) => Ok(Exit::SomeFailed),
            _ => Ok(self.signal.unwrap_or(Exit::NeedsPerson)),
        }
    }

    fn state(&self) -> &'static str {
        match &self.status {
            RunStatus::Ended(RunEnd::Completed(_)) => "completed",
            RunStatus::Ended(_) | RunStatus::Halted(_) => "failed",
            _ => "waiting",
        }
    }

    /// As programs read it.
    pub(super) fn json(&self) -> Value {
        let counts = &self.counts;
        json!({
            "run": self.run,
            "state": self.state(),
            "actions": {
                "done": counts.done,
                "replayed": counts.replayed,
                "reconciled": counts.reconciled,
                "failed": counts.failed,
                "denied": counts.denied,
                "given_up": counts.given_up,
                "in_doubt": counts.in_doubt,
                "parked": counts.parked,
                "awaiting_approval": counts.awaiting_approval,
            },
            "elapsed_s": (self.elapsed.as_secs_f64() * 1e3).round() / 1e3,
            "syncs": self.syncs,
            "epoch": self.epoch,
            "other_open_runs": self.others,
            "why": self.why(),
        })
    }

    fn why(&self) -> Option<&str> {
        match &self.status {
            RunStatus::Ended(RunEnd::Failed(why) | RunEnd::Cancelled(why)) => Some(why),
            _ => None,
        }
    }

    /// As people read it.
    pub(super) fn print(&self) {
        let word = match (&self.status, self.signal) {
            (RunStatus::Ended(RunEnd::Completed(_)), _) if self.idle => {
                "is done; there was nothing to do"
            }
            (RunStatus::Ended(RunEnd::Failed(_)), _) if self.idle => {
                "has ended and some of it failed; there was nothing to do"
            }
            (RunStatus::Ended(RunEnd::Cancelled(_)), _) if self.idle => {
                "was cancelled; there was nothing to do"
            }
            (RunStatus::Ended(RunEnd::Completed(_)), _) => "completed",
            (RunStatus::Ended(RunEnd::Failed(_)), _) => "ended, and some of it failed",
            (RunStatus::Ended(RunEnd::Cancelled(_)), _) => "was cancelled",
            (RunStatus::NeedsPerson, _) => "waits for a person",
            (_, Some(_)) => "was stopped with work left",
            _ => "did not end",
        };
        print::out(format!("run {} {word}", self.run));
        if let Some(why) = self.why() {
            print::out(format!("  {why}"));
        }
        let counts = &self.counts;
        let mut rows = vec![
            ("done", counts.done.to_string()),
            ("replayed", counts.replayed.to_string()),
            ("reconciled", counts.reconciled.to_string()),
            ("failed", counts.failed.to_string()),
            ("in doubt", counts.in_doubt.to_string()),
            ("parked", counts.parked.to_string()),
        ];
        for (name, count) in [
            ("denied", counts.denied),
            ("given up", counts.given_up),
            ("awaiting approval", counts.awaiting_approval),
            ("due or running", counts.running),
        ] {
            if count > 0 {
                rows.push((name, count.to_string()));
            }
        }
        rows.push(("time", print::span(self.elapsed)));
        rows.push(("syncs", self.syncs.to_string()));
        rows.push(("epoch", self.epoch.to_string()));
        if self.others > 0 {
            rows.push(("other open runs", self.others.to_string()));
        }
        let rows = rows
            .into_iter()
            .map(|(name, value)| vec![name.to_owned(), value])
            .collect();
        print::out(print::table(&[], &[0, 1], rows));
        if let Some(next) = self.next() {
            print::out(next);
        }
    }

    /// What a person can do next.
    fn next(&self) -> Option<String> {
        match &self.status {
            RunStatus::Ended(RunEnd::Completed(_)) => None,
            RunStatus::Ended(RunEnd::Failed(_)) => Some(format!(
                "next: intendant show {run}, then intendant retry {run} and run it again",
                run = self.run
            )),
            RunStatus::Ended(RunEnd::Cancelled(_)) => Some(format!(
                "next: to go on with what was not begun, raise the job's version; see intendant show {}",
                self.run
            )),
            RunStatus::NeedsPerson => Some(
                "next: intendant pending says what to decide; then start the same command again"
                    .to_owned(),
            ),
            _ => Some("next: start the same command again to go on".to_owned()),
        }
    }
}

fn halted(halt: &Halt) -> Failure {
    let text = halt.to_string();
    let (exit, code, remedy) = match halt {
        Halt::Diverged { .. } => (
            Exit::Diverged,
            "diverged",
            "use the program it began with, or another run id",
        ),
        Halt::Broken(_) => (
            Exit::JournalRefused,
            "broken",
            "keep the folder and report it; see intendant verify",
        ),
        _ => (
            Exit::Diverged,
            "halted",
            "use the program it began with; nothing is lost",
        ),
    };
    Failure::new(exit, code, text, remedy)
}
