//! The declaration of a tool (DESIGN section 3). A tool that is not declared does not exist.

use std::time::Duration;

pub use intendant_journal::format::entry::{Closure, RecoveryClass};
use serde_json::Value;

/// Longest output, in bytes of JSON text, that is kept at all: 16 MiB.
pub const OUTPUT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What a tool declares of itself.
///
/// The default of everything that bears on safety is the cautious one: `Opaque`, `Irreversible`.
#[derive(Clone, Debug)]
pub struct Contract {
    /// Its name, by which workflows and job files call it.
    pub name: String,
    /// Version of the declaration; part of the record, not of the key.
    pub version: u32,
    /// One sentence for people and models.
    pub description: String,
    /// JSON Schema of the arguments. Closed: a field it does not name is refused.
    pub input: Value,
    /// JSON Schema of the output, if one is declared.
    pub output: Option<Value>,
    /// What an interruption means.
    pub recovery: RecoveryClass,
    /// How bad an effect is to undo.
    pub side_effect: SideEffect,
    /// The closure that its reconciler can give. Without one, "never will" counts as "unknown".
    pub closure: Option<Closure>,
    /// How long one attempt may take before it is in doubt.
    pub timeout: Duration,
    /// How long one question to the reconciler may take.
    pub reconcile_timeout: Duration,
    /// When attempts are repeated by themselves.
    pub retry: Retry,
    /// How often and how fast the reconciler is asked before the attempt is parked.
    pub asks: Asks,
    /// Whether each attempt needs a person's yes.
    pub approval: Approval,
}

impl Contract {
    /// A declaration with cautious defaults: opaque, irreversible, 60 s, no retry, any object in.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: 1,
            description: String::new(),
            input: serde_json::json!({"type": "object", "additionalProperties": false}),
            output: None,
            recovery: RecoveryClass::Opaque,
            side_effect: SideEffect::Irreversible,
            closure: None,
            timeout: Duration::from_secs(60),
            reconcile_timeout: Duration::from_secs(30),
            retry: Retry::default(),
            asks: Asks::default(),
            approval: Approval::Never,
        }
    }

    /// Without effect: run again after an interruption.
    pub fn read_only(mut self) -> Self {
        self.recovery = RecoveryClass::ReadOnly;
        self.side_effect = SideEffect::ReadOnly;
        self
    }

    /// The target remembers the key for `window`: run again inside it.
    pub fn idempotent(mut self, window: Duration) -> Self {
        let window_ms = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
        self.recovery = RecoveryClass::Idempotent { window_ms };
        self
    }

    /// A reconciler is registered. `closure` is what makes its "never will" true; without one it
    /// can only ever confirm.
    pub fn reconcilable(mut self, closure: impl Into<Option<Closure>>) -> Self {
        self.recovery = RecoveryClass::Reconcilable;
        self.closure = closure.into();
        self
    }

    /// Each attempt needs a person's yes.
    pub fn approved_by_a_person(mut self) -> Self {
        self.approval = Approval::Always;
        self
    }

    /// How long one attempt may take.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// How bad an effect is to undo.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SideEffect {
    /// Nothing changes.
    ReadOnly,
    /// Can be undone exactly.
    Reversible,
    /// Can be made good.
    Compensatable,
    /// Neither.
    Irreversible,
}

/// When attempts are repeated by themselves: after `NotExecuted`, and after `Unknown` only for
/// classes that declare it safe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retry {
    /// Attempts in all, the first included; at least 1.
    pub attempts_max: u32,
    /// First pause, doubled after each attempt.
    pub backoff_first: Duration,
    /// Longest pause.
    pub backoff_max: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts_max: 3,
            backoff_first: Duration::from_secs(1),
            backoff_max: Duration::from_secs(60),
        }
    }
}

/// How the reconciler is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asks {
    /// Questions before the attempt is parked; at least 1.
    pub asks_max: u32,
    /// First pause, doubled after each question.
    pub backoff_first: Duration,
    /// Longest pause.
    pub backoff_max: Duration,
}

impl Default for Asks {
    fn default() -> Self {
        Self {
            asks_max: 8,
            backoff_first: Duration::from_secs(1),
            backoff_max: Duration::from_secs(60),
        }
    }
}

/// Whether each attempt needs a person's yes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Approval {
    /// No.
    Never,
    /// Yes.
    Always,
}
