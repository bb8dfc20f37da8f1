//! A command as a tool.
//!
//! | how the command ended | the reply |
//! |---|---|
//! | exit 0, something on standard output | that text as the output; the engine reads it strictly |
//! | exit 0, nothing but white space there, no output declared | the output `null` |
//! | exit 0, nothing but white space there, an output declared | the empty text: *succeeded, output unusable* |
//! | exit 0, more than 16 MiB there | length and hash: *succeeded, output unusable* |
//! | exit with a code of `exit_codes.failed` | failed |
//! | exit with a code of `exit_codes.not_executed` | not executed |
//! | no guard or lock to run under; program or folder missing, not executable | not executed |
//! | any other code, any signal, out of time | unknown |
//! | something of the same attempt still runs; the guard itself was killed | unknown |

use std::path::PathBuf;

use intendant::tool::call::Call;
use intendant::tool::contract::Contract;
use intendant::tool::error::ToolError;
use intendant::tool::json::{AttemptContext, BoxFuture, JsonTool, RawOutput, Reply};
use serde_json::Value;

use super::attempt_lock::AttemptLock;
use super::execution::{Ending, Execution, Finished};
use super::output::{Gathered, last_line};
use super::protocol::Ended;
use super::spec::{Argv, CommandSpec, ExitCodes, GuardPlace, Meaning};

/// A tool whose attempts are executions of a command under a guard.
///
/// The arguments reach it as canonical JSON on standard input, the attempt through its environment.
/// Dropping a call kills everything that the command started.
#[derive(Clone, Debug)]
pub struct CommandTool {
    contract: Contract,
    run: Argv,
    cwd: PathBuf,
    exit_codes: ExitCodes,
    place: GuardPlace,
}

impl CommandTool {
    /// The tool that runs the declared command under this contract.
    #[must_use]
    pub fn new(contract: Contract, spec: &CommandSpec) -> Self {
        Self {
            contract,
            run: spec.run.clone(),
            cwd: spec.cwd.clone(),
            exit_codes: spec.exit_codes.clone(),
            place: spec.place.clone(),
        }
    }

    /// What a finished execution of this tool's command means.
    #[must_use]
    pub fn reply(&self, finished: Finished) -> Reply {
        let Finished {
            ending,
            stdout,
            stderr,
        } = finished;
        let program = self.run.program();
        let said = last_line(&stderr).map_or_else(String::new, |line| format!(": {line}"));
        let result = match ending {
            Ending::Ended(Ended::Exited(code)) => match self.exit_codes.meaning(code) {
                Meaning::Succeeded => Ok(self.output(stdout)),
                Meaning::Failed => Err(ToolError::Failed(format!(
                    "{program} exited with {code}{said}"
                ))),
                Meaning::NotExecuted => Err(ToolError::NotExecuted(format!(
                    "{program} exited with {code}{said}"
                ))),
                Meaning::Unknown => Err(ToolError::Unknown(format!(
                    "{program} exited with {code}, which says nothing of the effect{said}"
                ))),
            },
            Ending::Ended(Ended::Signalled(signal)) => Err(ToolError::Unknown(format!(
                "{program} was killed by signal {signal}{said}"
            ))),
            Ending::NotStarted(why) => Err(ToolError::NotExecuted(why)),
            Ending::LockHeld => Err(ToolError::Unknown(format!(
                "{program} was not started: something of the same attempt still runs"
            ))),
            Ending::TimedOut(after) => Err(ToolError::Unknown(format!(
                "{program} did not end within {after:?}, so its guard kills it{said}"
            ))),
            Ending::GuardLost(why) => Err(ToolError::Unknown(format!(
                "the guard of {program} was lost: {why}{said}"
            ))),
        };
        Reply {
            result,
            log: stderr,
        }
    }

    fn output(&self, stdout: Gathered) -> RawOutput {
        match stdout {
            Gathered::TooLong { sha256, bytes } => RawOutput::TooLong { sha256, bytes },
            Gathered::Whole(text)
                if self.contract.output.is_none() && text.iter().all(u8::is_ascii_whitespace) =>
            {
                RawOutput::Value(Value::Null)
            }
            Gathered::Whole(text) => RawOutput::Text(text),
        }
    }
}

impl JsonTool for CommandTool {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn call<'a>(&'a self, cx: &'a Call, arguments: &'a Value) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            let execution = Execution {
                argv: &self.run,
                cwd: &self.cwd,
                place: &self.place,
                cx,
                arguments,
                timeout: self.contract.timeout,
            };
            self.reply(execution.run().await)
        })
    }

    fn sender_gone<'a>(&'a self, cx: &'a AttemptContext) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let lock = AttemptLock::path(&self.place.attempts, &cx.key, cx.attempt);
            AttemptLock::wait_gone(&lock).await;
        })
    }
}
