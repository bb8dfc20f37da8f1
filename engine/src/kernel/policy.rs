//! What policy can say of a proposal. An error is a denial.

use super::proposal::Frozen;
use crate::tool::contract::Approval;

/// What a policy looks at: a copy that it cannot change.
pub struct Question<'a> {
    /// The run that proposes.
    pub run: &'a str,
    /// The place in it.
    pub path: &'a str,
    /// The attempt.
    pub attempt: u32,
    /// Tool, arguments and digest.
    pub proposal: &'a Frozen,
    /// True if a person's yes covers the attempt.
    pub approved: bool,
}

/// A policy's answer, with every reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ruling {
    /// It may run.
    Allow {
        /// Why.
        reasons: Vec<String>,
    },
    /// It may not.
    Deny {
        /// Why not.
        reasons: Vec<String>,
    },
    /// Not as proposed.
    Repair {
        /// Why not.
        reasons: Vec<String>,
        /// The change that would be acceptable.
        change: String,
    },
    /// Only with a person's yes. Ignored where one covers the attempt.
    RequireApproval {
        /// Why.
        reasons: Vec<String>,
    },
}

/// A policy that could not decide. The action is denied.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("policy failed: {0}")]
pub struct PolicyError(pub String);

/// Decides on frozen proposals.
pub trait Policy: Send + Sync + 'static {
    /// Names the rules in force; recorded with every decision.
    fn version(&self) -> String;

    /// Decides.
    ///
    /// # Errors
    /// [`PolicyError`] denies the action; so does a panic.
    fn decide(&self, question: &Question<'_>) -> Result<Ruling, PolicyError>;
}

/// The policy of a declaration: what is declared may run, what its contract wants approved waits
/// for a yes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Declared;

impl Policy for Declared {
    fn version(&self) -> String {
        "declared/1".to_owned()
    }

    fn decide(&self, question: &Question<'_>) -> Result<Ruling, PolicyError> {
        Ok(match question.proposal.contract().approval {
            Approval::Never => Ruling::Allow {
                reasons: Vec::new(),
            },
            Approval::Always => Ruling::RequireApproval {
                reasons: vec!["the tool's declaration wants it".to_owned()],
            },
        })
    }
}
