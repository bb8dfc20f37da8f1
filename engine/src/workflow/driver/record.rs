//! From what tools and reconcilers said to what is recorded, and back to what the workflow gets.

use super::question;
use crate::action::life::Settled;
use crate::engine::status::Halt;
use crate::kernel::{Exit, ExitEnd, Unusable};
use crate::tool::error::ToolError;
use crate::tool::reconciler::JsonAnswer;
use crate::workflow::board::CallResult;
use crate::workflow::error::CallError;
use intendant_journal::format::entry::{
    AnsweredEntry, AttemptRef, Outcome, OutcomeEntry, Payload, ScopePath,
};
use std::sync::Arc;

use super::{Driver, Stopped};
use crate::payload::{bounded, lost};

impl Driver {
    pub(super) fn record_exit(&self, attempt: AttemptRef, exit: Exit) -> OutcomeEntry {
        let outcome = match exit.end {
            ExitEnd::Succeeded(text) => match self.keep_text(&text) {
                Ok(payload) => Outcome::Succeeded(payload),
                Err(_) => Outcome::Unusable {
                    raw: lost(text.as_bytes()),
                    why: "its output could not be stored; only its hash is kept".to_owned(),
                },
            },
            ExitEnd::Unusable { raw, why } => {
                let raw = match raw {
                    Unusable::Bytes(bytes) => self.keep_bytes(&bytes),
                    Unusable::Hash { sha256, bytes } => {
                        let sha256 = intendant_journal::format::entry::Digest(sha256);
                        Payload::Lost(intendant_journal::format::entry::BlobRef { sha256, bytes })
                    }
                };
                Outcome::Unusable {
                    raw,
                    why: bounded(why),
                }
            }
            ExitEnd::Error(ToolError::NotExecuted(why)) => Outcome::NotExecuted {
                why: bounded(why),
                retry_at: None,
            },
            ExitEnd::Error(ToolError::Failed(why)) => Outcome::Failed { why: bounded(why) },
            ExitEnd::Error(ToolError::Unknown(why)) => Outcome::Unknown { why: bounded(why) },
        };
        let log = (!exit.log.is_empty())
            .then(|| crate::payload::keep_log(self.shared.log.as_ref(), &exit.log));
        OutcomeEntry {
            attempt,
            outcome,
            log,
        }
    }

    pub(super) fn record_answer(&self, attempt: AttemptRef, answer: JsonAnswer) -> AnsweredEntry {
        let registered = self.shared.kernel.declared(&self.tool_of(&attempt.action));
        let closure = self
            .life(&attempt.action)
            .and_then(|life| life.intent())
            .and_then(|intent| intent.closure);
        question::record(
            self.shared.log.as_ref(),
            registered.map(|registered| registered.as_ref()),
            closure,
            attempt,
            answer,
        )
    }

    pub(super) fn settled_result(&self, path: &ScopePath) -> Result<CallResult, Stopped> {
        let settled = match self.staged.get(path) {
            Some(staged) => staged.life.settled(),
            None => self
                .state
                .action(path)
                .and_then(|action| action.life.settled()),
        };
        self.result_of(settled.expect("only settled actions are delivered"))
    }

    pub(super) fn result_of(&self, settled: &Settled) -> Result<CallResult, Stopped> {
        Ok(match settled {
            Settled::Succeeded { output, .. } => Ok(self.text_of(output)?),
            Settled::Unusable { why, .. } => Err(CallError::Unusable(why.clone())),
            Settled::Failed { why, voided, .. } => Err(CallError::Failed {
                why: why.clone(),
                voided: *voided,
            }),
            Settled::Denied { reasons } => Err(CallError::Denied {
                reasons: reasons.clone(),
            }),
            Settled::GivenUp { why, .. } => Err(CallError::GivenUp(why.clone())),
        })
    }

    pub(super) fn text_of(&self, payload: &Payload) -> Result<Arc<str>, Stopped> {
        crate::payload::text(self.shared.log.as_ref(), payload)
            .map(Into::into)
            .map_err(|why| Stopped::Halt(Halt::Broken(why)))
    }

    pub(super) fn keep_text(&self, text: &str) -> Result<Payload, Stopped> {
        crate::payload::keep_text(self.shared.log.as_ref(), text).map_err(Stopped::Journal)
    }

    pub(super) fn keep_bytes(&self, bytes: &[u8]) -> Payload {
        crate::payload::keep_bytes(self.shared.log.as_ref(), bytes)
    }
}
