//! Freezing: a private copy of what was proposed, which neither planner nor approver can change.

use std::sync::Arc;

use intendant_journal::format::canonical;
use intendant_journal::format::entry::{ActionRef, Digest, Intent, Payload, Proposal};
use serde_json::Value;

use super::Kernel;
use super::tools::Registered;

/// Domain of action digests.
const DOMAIN: &str = "intendant/action/1";

/// A frozen proposal. Its fields can be read, never written.
#[derive(Clone)]
pub struct Frozen {
    pub(super) tool: Arc<Registered>,
    pub(super) arguments: Arc<str>,
    pub(super) digest: Digest,
}

/// A call that was refused before policy was asked. Nothing was recorded and nothing ran.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

impl Kernel {
    /// Freezes a proposal: the tool must be declared, the arguments must fit its closed schema.
    ///
    /// # Errors
    /// [`Refused`], before policy is asked, for an undeclared tool, missing, unknown or wrongly
    /// typed arguments, and values without exact canonical form.
    pub fn freeze(&self, tool: &str, arguments: &Value) -> Result<Frozen, Refused> {
        let registered = self.registered(tool)?;
        registered
            .check_input(arguments)
            .map_err(|why| Refused(format!("arguments of {tool:?} do not fit its input: {why}")))?;
        let text = canonical::to_text(arguments)
            .map_err(|why| Refused(format!("arguments of {tool:?}: {why}")))?;
        let digest = action_digest(tool, &text);
        Ok(Frozen {
            tool: registered.clone(),
            arguments: text.into(),
            digest,
        })
    }

    /// Thaws a recorded proposal for a later attempt: the recorded bytes, never rebuilt ones.
    ///
    /// # Errors
    /// [`Refused`] if its tool is not declared any more.
    pub(crate) fn refreeze(&self, proposal: &Proposal, arguments: &str) -> Result<Frozen, Refused> {
        let registered = self.registered(&proposal.tool)?;
        Ok(Frozen {
            tool: registered.clone(),
            arguments: arguments.into(),
            digest: proposal.digest,
        })
    }

    fn registered(&self, tool: &str) -> Result<&Arc<Registered>, Refused> {
        self.tools.get(tool).ok_or_else(|| {
            let known = self.tools.names().join(", ");
            Refused(format!(
                "tool {tool:?} is not declared; declared are: {known}"
            ))
        })
    }

    /// A declared tool's table row.
    pub(crate) fn declared(&self, tool: &str) -> Option<&Arc<Registered>> {
        self.tools.get(tool)
    }
}

/// The digest of tool and arguments.
pub(crate) fn action_digest(tool: &str, arguments: &str) -> Digest {
    let mut text = String::with_capacity(tool.len() + arguments.len() + 8);
    text.push_str(&tool.len().to_string());
    text.push(':');
    text.push_str(tool);
    text.push_str(arguments);
    canonical::digest(DOMAIN, &text)
}

impl Frozen {
    /// Name of the tool.
    pub fn tool(&self) -> &str {
        &self.tool.contract.name
    }

    /// Its declaration.
    pub fn contract(&self) -> &crate::tool::contract::Contract {
        &self.tool.contract
    }

    /// Canonical JSON text of the arguments.
    pub fn arguments(&self) -> &str {
        &self.arguments
    }

    /// Digest of tool and arguments.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The proposal as it is recorded.
    pub(crate) fn record(&self, arguments: Payload) -> Proposal {
        Proposal {
            tool: self.tool.contract.name.clone(),
            tool_version: self.tool.contract.version,
            arguments,
            digest: self.digest,
        }
    }
}

/// Who is to act: what a permit binds besides the proposal.
#[derive(Clone, Debug)]
pub(crate) struct Acting {
    /// The run.
    pub(crate) run: String,
    /// The action in it.
    pub(crate) action: ActionRef,
    /// The attempt.
    pub(crate) attempt: u32,
    /// A person's yes covers this attempt.
    pub(crate) approved: bool,
    /// The intent of the attempt before. What was recorded stays in force for later attempts: a
    /// changed declaration never gives permission to run again.
    pub(crate) earlier: Option<Intent>,
}
