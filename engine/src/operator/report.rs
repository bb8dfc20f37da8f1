//! What operators are shown. These types are the JSON of the program (INTERFACES section 4).

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// All that is pending.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Pending {
    /// Version of this shape: 1.
    pub schema: u32,
    /// `live` or `stopped`.
    pub engine: String,
    /// The sequence up to which this is true.
    pub as_of_sequence: u64,
    /// Red conditions of the engine itself, such as a journal disabled by a failed sync.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alarms: Vec<String>,
    /// Oldest first.
    pub items: Vec<PendingItem>,
}

/// One thing that has not ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PendingItem {
    /// `<action id>#<attempt>`; for timers and signals the place that waits.
    pub intent: String,
    /// The run.
    pub run: String,
    /// The action's id.
    pub action: String,
    /// The attempt.
    pub attempt: u32,
    /// The tool, empty for timers and signals.
    pub tool: String,
    /// Key of the item within a `for_each`, if it is one, as its row has it.
    pub item_key: Option<String>,
    /// 32 hex digits, empty where there is no action.
    pub idempotency_key: String,
    /// `running reconciling in_doubt parked awaiting_approval waiting_timer waiting_signal
    /// incident`.
    pub state: String,
    /// RFC 3339.
    pub since: String,
    /// Why it is pending, in one sentence.
    pub why: String,
    /// What happens next, and when (RFC 3339) if by itself.
    pub next: Next,
}

/// What happens next to a pending item.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Next {
    /// One sentence, or a command to use.
    pub what: String,
    /// When, RFC 3339; absent if a person is waited for or it is going on now.
    pub at: Option<String>,
}

/// One run in a list.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunLine {
    /// Its id.
    pub run: String,
    /// Its workflow.
    pub workflow: String,
    /// Workflow version of the current pass.
    pub version: u32,
    /// The current pass.
    pub pass: u32,
    /// `running`, `waiting`, `completed`, `failed`, `cancelled`, `diverged`, `broken`.
    pub state: String,
    /// RFC 3339.
    pub started: String,
    /// RFC 3339, of its last entry.
    pub updated: String,
    /// Counts of its actions.
    pub actions: ActionCounts,
}

/// How many actions of a run stand where.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ActionCounts {
    /// Succeeded, in whatever way.
    pub done: u64,
    /// Of all that ended: those that had ended before this start.
    pub replayed: u64,
    /// Of those done: settled by a reconciler.
    pub reconciled: u64,
    /// Failed, output unusable included.
    pub failed: u64,
    /// Denied by policy or by an approver.
    pub denied: u64,
    /// Given up by a person.
    pub given_up: u64,
    /// In doubt and being asked about.
    pub in_doubt: u64,
    /// In doubt and waiting for a person.
    pub parked: u64,
    /// Waiting for an approval.
    pub awaiting_approval: u64,
    /// Running now.
    pub running: u64,
}

/// One run in full.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunDetail {
    /// As in the list.
    #[serde(flatten)]
    pub line: RunLine,
    /// Its result or error, once ended.
    pub result: Option<Value>,
    /// Its actions in the order they were proposed.
    pub actions_list: Vec<ActionDetail>,
}

/// One action in full.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ActionDetail {
    /// Its id.
    pub action: String,
    /// Current attempt.
    pub attempt: u32,
    /// The tool.
    pub tool: String,
    /// Version of its declaration.
    pub tool_version: u32,
    /// Exact arguments.
    pub arguments: Value,
    /// Digest of tool and arguments, hex.
    pub digest: String,
    /// 32 hex digits.
    pub idempotency_key: String,
    /// Recovery class in force, as a job file writes it.
    pub recovery: String,
    /// Closure in force.
    pub closure: Option<String>,
    /// Where its life stands, in DESIGN's words.
    pub state: String,
    /// Output, once succeeded.
    pub output: Option<Value>,
    /// Why, where it did not succeed.
    pub why: Option<String>,
    /// What a restart would do with it.
    pub explain: String,
    /// What its attempts wrote to standard error, as far as it was kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<AttemptLog>,
    /// All entries about it, oldest first.
    pub history: Vec<HistoryLine>,
}

/// The last part of what an attempt wrote to standard error.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AttemptLog {
    /// The attempt.
    pub attempt: u32,
    /// The text; `{"blob": {"sha256", "bytes"}}` where it lies in a blob that was not read, as in
    /// the detail of a whole run; `{"lost": ..}` where it could not be kept.
    pub text: Value,
}

/// One recorded fact, for people.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HistoryLine {
    /// Its sequence.
    pub sequence: u64,
    /// The opening that wrote it.
    pub epoch: u32,
    /// RFC 3339.
    pub at: String,
    /// The run, empty for facts about the journal.
    pub run: String,
    /// Name of the fact in snake case, such as `intent`, `outcome`, `answered`.
    pub what: String,
    /// The fact in one line.
    pub detail: String,
}
