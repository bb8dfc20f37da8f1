//! What is said over the socket: one JSON line each way.

use intendant::operator::command::{Change, Refusal};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Longest line, in bytes: the largest output with room for what is around it.
pub(super) const LINE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// What a command asks.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub(crate) enum Ask {
    /// Is anybody there, and is all well?
    Health,
    /// All that is pending.
    Pending,
    /// All runs.
    Runs,
    /// One run in full.
    Show {
        /// The run.
        run: String,
    },
    /// A change. Who asks is added by the server.
    Change {
        /// Why.
        reason: String,
        /// The request's id.
        request: String,
        /// What is to change.
        change: Change,
    },
    /// Ask the reconciler now.
    Reconcile {
        /// The attempt.
        intent: String,
    },
    /// A checkpoint of what is durable now.
    Checkpoint,
    /// Lines of the log behind a sequence.
    Tail {
        /// Of this run alone.
        run: Option<String>,
        /// The last sequence already seen.
        after: u64,
    },
}

/// What the engine says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// The answer.
    Ok(Value),
    /// Why there is none; nothing was changed.
    Refused(Refusal),
}
