//! What one frame of kind `Entry` holds: one durable fact about a run, or about the journal itself.
//!
//! Invariants:
//! - An entry is a fact, never a wish: it is written before it is acted on and never changed.
//! - Variants and fields are encoded by position (see [`super::codec`]). Variants are only ever
//!   added at the end of their enum; a field is never added, removed or reordered without raising
//!   the format version. The golden files in `tests/golden` hold this.
//! - JSON values are stored as the canonical text they were digested over ([`super::canonical`]),
//!   so that a round trip cannot change a digest.

use serde::{Deserialize, Serialize};

/// Position of an entry in the journal: 1 for the first entry, without gaps.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct Sequence(pub u64);

/// Raised by every opening of a journal; a fence for late writers.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct Epoch(pub u32);

/// The random identity of a journal, made once when it is created.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JournalId(pub [u8; 16]);

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Digest(pub [u8; 32]);

/// The idempotency key of an action: 128 bits, shown as 32 lowercase hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key(pub [u8; 16]);

impl std::fmt::Display for Sequence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl std::fmt::Display for Epoch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

macro_rules! hex_text {
    ($name:ident) => {
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }
    };
}
hex_text!(JournalId);
hex_text!(Digest);
hex_text!(Key);

/// When something happened, by two clocks: the wall clock, which people read and which may step,
/// and the boot clock, which includes suspension and never steps within one boot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Moment {
    /// Milliseconds since the Unix epoch.
    pub wall_ms: i64,
    /// Milliseconds since this machine booted, suspension included. Comparable only between
    /// entries of openings with the same boot id.
    pub boot_ms: u64,
}

/// One durable fact.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// When it was written down.
    pub at: Moment,
    /// The run it belongs to; `None` for facts about the journal itself.
    pub run: Option<String>,
    /// The fact.
    pub body: Body,
}

/// An entry together with its place in the journal.
#[derive(Clone, PartialEq, Debug)]
pub struct Recorded {
    /// Its place.
    pub sequence: Sequence,
    /// The opening that wrote it.
    pub epoch: Epoch,
    /// The fact.
    pub entry: Entry,
}

/// The kinds of fact. The order of the variants is part of the format.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Body {
    /// A process opened the journal and raised its epoch. The first entry of every opening.
    Opened(Opened),
    /// A pass of a run began: the first one starts the run, later ones execute its workflow anew
    /// over the actions already known (a job file with new rows, a raised version, a retry).
    PassStarted(PassStarted),
    /// Proposal, decision and intent of one attempt: one entry with three typed parts.
    Action(ActionEntry),
    /// What an attempt's tool really answered, or how it was cut.
    Outcome(OutcomeEntry),
    /// The reconciler is about to be asked.
    Asking(AttemptRef),
    /// What the reconciler answered; recorded before it is acted on.
    Answered(AnsweredEntry),
    /// A person or an approver spoke on an attempt that awaits approval.
    Approval(ApprovalEntry),
    /// The attempt stays in doubt until a person settles it.
    Parked(ParkedEntry),
    /// A person settled an attempt in doubt.
    Resolved(ResolvedEntry),
    /// Evidence that arrived after its attempt was settled or superseded. Never changes an outcome.
    LateReply(OutcomeEntry),
    /// Whether the effect holds, read from an independent source.
    Verified(VerifiedEntry),
    /// A workflow asked to be woken.
    TimerSet(TimerSet),
    /// A timer came due and woke its workflow.
    TimerFired(ScopePath),
    /// A workflow asked for the next signal of a name.
    SignalAwaited(SignalAwaited),
    /// A signal arrived from outside.
    SignalReceived(SignalReceived),
    /// A local value (now, random, uuid) fixed for ever.
    Noted(NotedEntry),
    /// Somebody asked the run to end.
    CancelRequested(OperatorNote),
    /// Failed, denied or given-up actions are to be done anew under a new generation and key.
    RetryRequested(RetryRequested),
    /// The current pass ended.
    PassEnded(PassEnded),
    /// Something that should not have happened, to be listed until a person acknowledges it.
    Incident(IncidentEntry),
    /// A person acknowledged the incident recorded at that sequence.
    IncidentAcknowledged(IncidentAcknowledged),
}

/// Structural name of a place in a run, such as `pay/p-0042` or `3/alice/0`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ScopePath(pub String);

impl std::fmt::Display for ScopePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// An action of the entry's run: its place, and how often it was begun anew by `retry`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ActionRef {
    /// Where in the run.
    pub path: ScopePath,
    /// 1, raised only by a retry that makes a new action of a failed one.
    pub generation: u32,
}

/// One attempt of an action.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct AttemptRef {
    /// The action.
    pub action: ActionRef,
    /// 1 for the first execution.
    pub attempt: u32,
}

/// Who opened the journal.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Opened {
    /// Process id of the opener.
    pub pid: u32,
    /// The kernel's boot id: boot-clock readings compare only within one.
    pub boot_id: String,
    /// Name and version of the opening program.
    pub program: String,
}

/// A payload: JSON text or raw bytes, inline or by hash.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Payload {
    /// Canonical JSON text.
    Json(String),
    /// Bytes that are no JSON (standard error, output that did not parse).
    Bytes(Vec<u8>),
    /// Canonical JSON text kept in a blob file.
    JsonBlob(BlobRef),
    /// Bytes kept in a blob file.
    BytesBlob(BlobRef),
    /// Bytes that could not be kept; only what identifies them is.
    Lost(BlobRef),
}

/// Names the content of a blob file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BlobRef {
    /// SHA-256 of the content.
    pub sha256: Digest,
    /// Its length in bytes.
    pub bytes: u64,
}

/// The start of a pass of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PassStarted {
    /// Name of the workflow.
    pub workflow: String,
    /// Version of the workflow at this pass.
    pub version: u32,
    /// 1 for the first pass.
    pub pass: u32,
    /// Input of the run in this pass.
    pub input: Payload,
    /// Digest of the input.
    pub input_digest: Digest,
}

/// Proposal, decision and intent of one attempt.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ActionEntry {
    /// Which attempt.
    pub attempt: AttemptRef,
    /// The frozen proposal; written with the first decision on the action, `None` afterwards.
    pub proposal: Option<Proposal>,
    /// What policy said of this attempt.
    pub decision: Decision,
    /// Present exactly when the attempt may run: the durable consumption of its permit.
    pub intent: Option<Intent>,
}

/// A frozen proposal.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Proposal {
    /// The declared tool.
    pub tool: String,
    /// Version of its declaration.
    pub tool_version: u32,
    /// Exact arguments.
    pub arguments: Payload,
    /// Digest of tool name and arguments.
    pub digest: Digest,
}

/// The verdict on one attempt.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Decision {
    /// What was decided.
    pub verdict: Verdict,
    /// Every reason, in order.
    pub reasons: Vec<String>,
    /// Version of the policy that decided.
    pub policy_version: String,
}

/// What policy can say.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Verdict {
    /// It may run.
    Allow,
    /// It may not.
    Deny,
    /// It may run once a person or an approver has said yes.
    RequireApproval,
    /// It may not run as proposed; the text says which change would be acceptable.
    Repair(String),
}

/// The durable intent of one attempt, with the declaration in force.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Intent {
    /// The idempotency key; the same for all attempts of the action.
    pub key: Key,
    /// The recovery class in force.
    pub class: RecoveryClass,
    /// How long the attempt may take, in milliseconds.
    pub timeout_ms: u64,
    /// The closure the tool's reconciler can give, if it declared one.
    pub closure: Option<Closure>,
    /// Attempts allowed in all by the retry rule in force.
    pub attempts_max: u32,
    /// First pause before a retry, in milliseconds; doubled after each, up to `backoff_max_ms`.
    pub backoff_first_ms: u64,
    /// Longest pause before a retry, in milliseconds.
    pub backoff_max_ms: u64,
}

/// What an interruption means for a tool (DESIGN section 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RecoveryClass {
    /// No effect: run again.
    ReadOnly,
    /// The target remembers the key for the window: run again with it while inside.
    Idempotent {
        /// How long the target remembers a key, in milliseconds.
        window_ms: u64,
    },
    /// A reconciler is registered: ask it.
    Reconcilable,
    /// Nothing is known: park.
    Opaque,
}

/// What makes "it never will happen" true, strongest first (DESIGN section 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Closure {
    /// A tombstone under the same key, where the effect's own write would go.
    AbortClaim,
    /// The target refuses lower epochs and has seen the new one before being asked.
    Fence,
    /// The target enforces a deadline carried in the request.
    Deadline,
}

/// How an attempt ended, as far as its own process could tell.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct OutcomeEntry {
    /// Which attempt.
    pub attempt: AttemptRef,
    /// What is known.
    pub outcome: Outcome,
    /// The last part of what the tool wrote to standard error, if anything.
    pub log: Option<Payload>,
}

/// What a tool's answer says of the effect.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Outcome {
    /// The effect happened; this is the output.
    Succeeded(Payload),
    /// The effect happened; its output cannot be used.
    Unusable {
        /// What came, raw or by hash.
        raw: Payload,
        /// Why it cannot be used.
        why: String,
    },
    /// Certainly no effect; may be tried again.
    NotExecuted {
        /// Why.
        why: String,
        /// When the next attempt is due, if there is to be one.
        retry_at: Option<Moment>,
    },
    /// The target answered with a definite failure.
    Failed {
        /// The target's answer.
        why: String,
    },
    /// Nobody knows.
    Unknown {
        /// What was seen.
        why: String,
    },
    /// Nobody knows, because the engine itself stopped while the attempt ran. Such an attempt does
    /// not count against the retry rule: it says nothing of the tool.
    Interrupted {
        /// What was seen.
        why: String,
    },
}

/// A reconciler's recorded answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AnsweredEntry {
    /// The attempt that was asked about.
    pub attempt: AttemptRef,
    /// What was answered.
    pub answer: Answer,
}

/// The five answers of a reconciler (DESIGN section 4).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// It happened.
    Executed {
        /// The output, if the target still knows it.
        output: Payload,
        /// The target's own proof.
        evidence: Payload,
    },
    /// It has not happened and never will, guaranteed by the closure.
    NeverWill {
        /// What guarantees it.
        closure: Closure,
        /// The key is burned: no later attempt can run under it either.
        burned: bool,
        /// The target's own proof, if it gave one.
        evidence: Option<Payload>,
    },
    /// The target is still working on it.
    Running {
        /// When to ask again, in milliseconds from the answer.
        retry_after_ms: u64,
    },
    /// It cannot be seen, as of a moment; says nothing of what is still on its way.
    NotSeen {
        /// The moment as the reconciler named it.
        as_of: String,
    },
    /// The reconciler could not tell.
    Unknown {
        /// Why.
        why: String,
    },
}

/// A recorded word on an approval.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ApprovalEntry {
    /// The attempt that awaits it.
    pub attempt: AttemptRef,
    /// True only for an explicit yes.
    pub approved: bool,
    /// Who spoke, and why.
    pub note: OperatorNote,
}

/// Who did something from outside, and why.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OperatorNote {
    /// The person or program, such as `uid:1000 (alice)`.
    pub who: String,
    /// The reason given.
    pub reason: String,
    /// The caller's request id: the same request again returns the recorded answer.
    pub request: String,
}

/// Why an attempt waits for a person.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ParkedEntry {
    /// The attempt.
    pub attempt: AttemptRef,
    /// Why nobody but a person can settle it.
    pub why: String,
}

/// A person's word on an attempt in doubt.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ResolvedEntry {
    /// The attempt.
    pub attempt: AttemptRef,
    /// What the person found.
    pub resolution: Resolution,
    /// Who, why.
    pub note: OperatorNote,
}

/// What a person may say of an attempt in doubt.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Resolution {
    /// It happened, with this output.
    Executed(Payload),
    /// It did not happen and will not: a person's claim, no closure behind it.
    NeverRan,
    /// Nobody will find out: the call returns the error `GivenUp`.
    GaveUp,
}

/// A recorded verification.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct VerifiedEntry {
    /// The attempt that succeeded.
    pub attempt: AttemptRef,
    /// What the check found.
    pub verification: Verification,
    /// What was looked at.
    pub why: String,
}

/// Whether an effect holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Verification {
    /// An independent source shows it.
    Passed,
    /// An independent source contradicts it: the action fails.
    Failed,
    /// No check, or no answer.
    Inconclusive,
}

/// A timer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TimerSet {
    /// Its place in the run.
    pub path: ScopePath,
    /// When it is due, wall clock, milliseconds since the Unix epoch.
    pub due_wall_ms: i64,
}

/// A wait for a signal.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SignalAwaited {
    /// Its place in the run.
    pub path: ScopePath,
    /// The name waited for.
    pub name: String,
}

/// A signal from outside.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SignalReceived {
    /// Its name.
    pub name: String,
    /// What it carries.
    pub payload: Payload,
    /// Who sent it; the request id makes a resend harmless.
    pub note: OperatorNote,
}

/// A local value fixed at first sight.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NotedEntry {
    /// Its place in the run.
    pub path: ScopePath,
    /// What kind of value: `now`, `random`, `uuid`.
    pub what: String,
    /// The value, as canonical JSON.
    pub value: String,
}

/// Failed actions to be done anew.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RetryRequested {
    /// The actions as they ended; each begins anew one generation higher.
    pub actions: Vec<ActionRef>,
    /// Who, why.
    pub note: OperatorNote,
}

/// The end of a pass.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PassEnded {
    /// Which pass.
    pub pass: u32,
    /// How it ended.
    pub end: End,
}

/// How a pass ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum End {
    /// The workflow returned this value.
    Completed(Payload),
    /// The workflow returned an error.
    Failed(String),
    /// Somebody asked for it.
    Cancelled(String),
}

/// Something that contradicts what was settled.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct IncidentEntry {
    /// The attempt concerned, if one is.
    pub attempt: Option<AttemptRef>,
    /// What was seen.
    pub what: String,
}

/// A person has seen an incident.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct IncidentAcknowledged {
    /// Sequence of the incident.
    pub sequence: Sequence,
    /// Who, why.
    pub note: OperatorNote,
}
