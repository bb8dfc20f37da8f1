//! A tool as a job file declares it: its contract and its command lines.

use std::path::Path;
use std::time::Duration;

use intendant::tool::contract::{
    Approval, Asks, Closure, Contract, RecoveryClass, Retry, SideEffect,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{duration, script, word};

/// A declared tool. Its serde form uses the words of the job file, so that a difference between
/// two declarations reads like one.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobTool {
    /// One sentence for people and models.
    pub description: String,
    /// JSON Schema of the arguments, closed.
    pub input: Value,
    /// JSON Schema of the output, if declared.
    pub output: Option<Value>,
    /// The command that performs it.
    pub run: Vec<String>,
    /// The command that finds out whether it happened.
    pub reconcile: Option<Vec<String>>,
    /// What an interruption means.
    pub recovery: Recovery,
    /// The closure that its reconciler gives.
    #[serde(with = "word::optional")]
    pub closure: Option<Closure>,
    /// How bad an effect is to undo.
    #[serde(with = "word")]
    pub side_effect: SideEffect,
    /// How long an attempt may take.
    #[serde(with = "duration::serde_text")]
    pub timeout: Duration,
    /// How long one question to the reconciler may take.
    #[serde(with = "duration::serde_text")]
    pub reconcile_timeout: Duration,
    /// When attempts are repeated.
    pub retry: Repeats,
    /// How the reconciler is asked.
    pub asks: Repeats,
    /// What exit codes say of the effect.
    pub exit_codes: ExitCodes,
    /// Whether each attempt needs a person's yes.
    #[serde(with = "word")]
    pub approval: Approval,
}

/// What an interruption means, in the words of the job file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recovery {
    /// No effect: run again.
    ReadOnly,
    /// Nothing is known: parked for a person.
    Opaque,
    /// The reconciler is asked.
    Reconcilable,
    /// The target remembers the key for the window.
    Idempotent {
        /// For how long.
        #[serde(with = "duration::serde_text")]
        window: Duration,
    },
}

/// How often and how fast something is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Repeats {
    /// In all, the first one included.
    pub attempts: u32,
    /// First pause, doubled after each.
    #[serde(with = "duration::serde_text")]
    pub first: Duration,
    /// Longest pause.
    #[serde(with = "duration::serde_text")]
    pub max: Duration,
}

/// What exit codes say of the effect. Zero always means success; a code in neither list says
/// nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExitCodes {
    /// The effect did not happen and will not.
    pub failed: Vec<u8>,
    /// Certainly no effect, may be tried again.
    pub not_executed: Vec<u8>,
}

impl JobTool {
    /// The engine's contract of this tool. `version` is the job's.
    #[must_use]
    pub fn contract(&self, name: &str, version: u32) -> Contract {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Contract {
            version,
            description: self.description.clone(),
            input: self.input.clone(),
            output: self.output.clone(),
            recovery: match self.recovery {
                Recovery::ReadOnly => RecoveryClass::ReadOnly,
                Recovery::Opaque => RecoveryClass::Opaque,
                Recovery::Reconcilable => RecoveryClass::Reconcilable,
                Recovery::Idempotent { window } => RecoveryClass::Idempotent {
                    window_ms: milliseconds(window),
                },
            },
            side_effect: self.side_effect,
            closure: self.closure,
            timeout: self.timeout,
            reconcile_timeout: self.reconcile_timeout,
            retry: Retry {
                attempts_max: self.retry.attempts,
                backoff_first: self.retry.first,
                backoff_max: self.retry.max,
            },
            asks: Asks {
                asks_max: self.asks.attempts,
                backoff_first: self.asks.first,
                backoff_max: self.asks.max,
            },
            approval: self.approval,
            ..Contract::new(name)
        }
    }

    /// The command that performs it, its program made absolute.
    #[must_use]
    pub fn run_command(&self, folder: &Path) -> Vec<String> {
        script::absolute(&self.run, folder)
    }

    /// The command that asks, its program made absolute.
    #[must_use]
    pub fn reconcile_command(&self, folder: &Path) -> Option<Vec<String>> {
        let command = self.reconcile.as_ref()?;
        Some(script::absolute(command, folder))
    }
}
