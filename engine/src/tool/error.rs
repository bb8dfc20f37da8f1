//! How a call can end without a usable output. The type says what is known of the effect.

/// What a tool's own code reports instead of an output.
///
/// There is deliberately no conversion from arbitrary errors: whoever reports an error says what is
/// known of the effect. Whatever is not classified is [`ToolError::Unknown`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ToolError {
    /// Certainly no effect: refused before work, connection refused. May be tried again.
    #[error("not executed: {0}")]
    NotExecuted(String),
    /// The target answered with a definite failure: the effect did not happen and will not.
    #[error("failed: {0}")]
    Failed(String),
    /// Nobody knows: the attempt is in doubt.
    #[error("unknown: {0}")]
    Unknown(String),
}

impl ToolError {
    /// For errors that say nothing of the effect.
    pub fn unknown(error: impl std::fmt::Display) -> Self {
        Self::Unknown(error.to_string())
    }
}
