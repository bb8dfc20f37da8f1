//! How a durable operation can end other than with its value.

/// Why a call gave no output. It says what is known of the effect.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// Refused before policy was asked: undeclared tool, arguments that do not fit. No effect.
    #[error("refused: {0}")]
    Refused(String),
    /// Policy or an approver said no. No effect.
    #[error("denied: {}", reasons.join("; "))]
    Denied {
        /// Every reason.
        reasons: Vec<String>,
    },
    /// The effect did not happen and will not.
    #[error("failed: {why}")]
    Failed {
        /// Why.
        why: String,
        /// True if its key was voided at the target.
        voided: bool,
    },
    /// The effect happened; its output cannot be used.
    #[error("succeeded, output unusable: {0}")]
    Unusable(String),
    /// A person gave up finding out whether the effect happened.
    #[error("given up: {0}")]
    GivenUp(String),
    /// The place was used for another action before: other tool or other arguments.
    #[error("conflict: {0}")]
    Conflict(String),
    /// Somebody asked the run to end: nothing new starts.
    #[error("cancelled: {0}")]
    Cancelled(String),
}
