//! What a reconciler may answer (DESIGN section 4).
//!
//! Only [`JsonAnswer::NeverWill`] can lead to another attempt, and only where the tool's contract
//! declares a closure. There is no conversion from the other answers to it.

use std::time::Duration;

use serde_json::Value;

/// The five answers.
#[derive(Clone, PartialEq, Debug)]
pub enum JsonAnswer {
    /// It happened.
    Executed {
        /// The output; `Null` if the target does not know it any more.
        output: Value,
        /// The target's own proof (an id, a hash).
        evidence: Value,
    },
    /// It has not happened and never will. Counts as unknown unless the contract declares the
    /// closure that guarantees it.
    NeverWill {
        /// True where the target cannot compare attempts, so that no later attempt can run under
        /// this key either: the action ends as failed (voided).
        burned: bool,
        /// The target's own proof, if any.
        evidence: Option<Value>,
    },
    /// The target is working on it.
    Running {
        /// When to ask again.
        retry_after: Duration,
    },
    /// It cannot be seen. Never leave to run again.
    NotSeen {
        /// As of which moment, in the target's words.
        as_of: String,
    },
    /// No answer.
    Unknown(
        /// Why.
        String,
    ),
}
