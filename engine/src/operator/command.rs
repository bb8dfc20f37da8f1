//! What operators can change. Every change becomes an entry with who, when and why; a request sent
//! again with the same request id gets the recorded answer and changes nothing.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A change asked for by a person or program outside the engine.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Change {
    /// Say yes to an attempt that awaits approval.
    Approve {
        /// `<action id>#<attempt>`.
        intent: String,
    },
    /// Say no.
    Deny {
        /// `<action id>#<attempt>`.
        intent: String,
    },
    /// Settle an attempt in doubt.
    Resolve {
        /// `<action id>#<attempt>`; must be the current one and in doubt.
        intent: String,
        /// What was found.
        resolution: Settle,
    },
    /// Send a signal to a run, started or not yet waiting for it.
    Signal {
        /// The run.
        run: String,
        /// The signal's name.
        name: String,
        /// What it carries.
        payload: Value,
    },
    /// End a run: nothing new starts, running actions finish.
    Cancel {
        /// The run.
        run: String,
    },
    /// Make new actions of what failed, was denied, given up or unusable.
    Retry {
        /// The run.
        run: String,
        /// Only the items with this key.
        item: Option<String>,
    },
    /// A person has seen an incident.
    Acknowledge {
        /// The run.
        run: String,
        /// Sequence of the incident.
        sequence: u64,
    },
}

/// What a person found of an attempt in doubt.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settle {
    /// It happened, with this output.
    Executed {
        /// Checked by the tool's output schema.
        output: Value,
    },
    /// It did not happen and will not.
    NeverRan,
    /// Nobody will find out.
    GiveUp,
}

/// A change with its author.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Request {
    /// Who asks, such as `uid:1000`.
    pub who: String,
    /// Why.
    pub reason: String,
    /// The caller's id of this request.
    pub request: String,
    /// What is asked.
    pub change: Change,
}

/// The durable answer to a change.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Done {
    /// What is true now, in one sentence.
    pub message: String,
    /// Sequence of the entry that records it.
    pub sequence: u64,
    /// True if the same request had been answered before.
    pub replayed: bool,
    /// What the operator should know (such as: no closure backs this claim).
    pub warnings: Vec<String>,
}

/// Why a change was refused; nothing was recorded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
#[error("{message}; {remedy}")]
pub struct Refusal {
    /// Stable code, such as `not_found`, `not_in_doubt`, `not_current`, `schema`, `ended`.
    pub code: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub remedy: String,
}
