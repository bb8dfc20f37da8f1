//! A command as a reconciler: asks whether the attempt in doubt had its effect.
//!
//! It runs under the same guard and takes the same lock as the attempt it asks about. So it cannot
//! run while anything of that attempt lives, two of them cannot run at once, and the next attempt
//! waits for a reconciler that a crash left behind just as it waits for a tool.

use std::path::PathBuf;
use std::time::Duration;

use intendant::tool::json::{AttemptContext, BoxFuture, JsonReconciler};
use intendant::tool::reconciler::JsonAnswer;
use serde_json::Value;

use super::answer;
use super::attempt_lock::AttemptLock;
use super::execution::{Ending, Execution, Finished};
use super::output::{Gathered, last_line};
use super::protocol::Ended;
use super::spec::{Argv, CommandSpec, GuardPlace};

/// When to ask again while something of the attempt still runs on this machine.
const STILL_RUNS_RETRY: Duration = Duration::from_secs(1);

/// A reconciler whose questions are executions of a command under a guard.
///
/// It gets what the tool got: the same arguments, and the attempt in doubt in its environment. It
/// exits with 0 and prints one answer; everything else is *unknown*.
#[derive(Clone, Debug)]
pub struct CommandReconciler {
    reconcile: Argv,
    cwd: PathBuf,
    place: GuardPlace,
    timeout: Duration,
}

impl CommandReconciler {
    /// The reconciler of the declared command, if it declares one. A question may take `timeout`.
    #[must_use]
    pub fn new(spec: &CommandSpec, timeout: Duration) -> Option<Self> {
        Some(Self {
            reconcile: spec.reconcile.clone()?,
            cwd: spec.cwd.clone(),
            place: spec.place.clone(),
            timeout,
        })
    }

    fn answer(&self, finished: Finished) -> JsonAnswer {
        let program = self.reconcile.program();
        let said = last_line(&finished.stderr).map_or_else(String::new, |line| format!(": {line}"));
        let why = match (finished.ending, finished.stdout) {
            (Ending::Ended(Ended::Exited(0)), Gathered::Whole(printed)) => {
                return answer::read(&printed);
            }
            (Ending::LockHeld, _) => {
                return JsonAnswer::Running {
                    retry_after: STILL_RUNS_RETRY,
                };
            }
            (Ending::Ended(Ended::Exited(0)), Gathered::TooLong { bytes, .. }) => {
                format!("{program} printed {bytes} bytes, which is no answer")
            }
            (Ending::Ended(Ended::Exited(code)), _) => {
                format!("{program} exited with {code}{said}")
            }
            (Ending::Ended(Ended::Signalled(signal)), _) => {
                format!("{program} was killed by signal {signal}{said}")
            }
            (Ending::NotStarted(why), _) => why,
            (Ending::TimedOut(after), _) => {
                format!("{program} did not answer within {after:?}, so its guard kills it{said}")
            }
            (Ending::GuardLost(why), _) => format!("the guard of {program} was lost: {why}{said}"),
        };
        JsonAnswer::Unknown(why)
    }
}

impl JsonReconciler for CommandReconciler {
    fn ask<'a>(
        &'a self,
        cx: &'a AttemptContext,
        arguments: &'a Value,
    ) -> BoxFuture<'a, JsonAnswer> {
        Box::pin(async move {
            let execution = Execution {
                argv: &self.reconcile,
                cwd: &self.cwd,
                place: &self.place,
                cx,
                arguments,
                timeout: self.timeout,
            };
            self.answer(execution.run().await)
        })
    }

    fn sender_gone<'a>(&'a self, cx: &'a AttemptContext) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let lock = AttemptLock::path(&self.place.attempts, &cx.key, cx.attempt);
            AttemptLock::wait_gone(&lock).await;
        })
    }
}
