//! The right to perform one attempt of one exact action, once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use intendant_journal::format::entry::{AttemptRef, Decision, Intent, Key, Verdict};

use super::Kernel;
use super::policy::{Question, Ruling};
use super::proposal::{Acting, Frozen};
use crate::action::key::key;

/// The right to perform one attempt of one exact action, once. The durable append consumes it.
///
/// It cannot be made outside the kernel, copied, or used twice:
/// `tests/compile_fail` shows that none of these compile.
#[must_use = "a permit that is dropped authorizes nothing"]
pub struct Permit {
    pub(super) run: String,
    pub(super) attempt: AttemptRef,
    pub(super) proposal: Frozen,
    pub(super) intent: Intent,
}

/// A permit whose intent is durable. It alone opens the door.
#[must_use = "an armed permit that is dropped leaves its attempt in doubt"]
pub struct Armed {
    pub(super) run: String,
    pub(super) attempt: AttemptRef,
    pub(super) proposal: Frozen,
    pub(super) key: Key,
    pub(super) timeout: Duration,
}

impl Armed {
    /// The attempt it is for.
    pub fn attempt(&self) -> &AttemptRef {
        &self.attempt
    }
}

/// What the kernel decided: a permit exists exactly where the verdict is `Allow`.
pub(crate) struct Authorized {
    pub(crate) decision: Decision,
    pub(crate) permit: Option<Permit>,
}

impl Permit {
    /// The intent that its consumption makes durable.
    pub(crate) fn intent(&self) -> &Intent {
        &self.intent
    }
}

impl Kernel {
    /// Asks policy about a frozen proposal; the permit comes last.
    pub(crate) fn authorize(&self, proposal: &Frozen, acting: Acting) -> Authorized {
        let question = Question {
            run: &acting.run,
            path: &acting.action.path.0,
            attempt: acting.attempt,
            proposal,
            approved: acting.approved,
        };
        let ruled = catch_unwind(AssertUnwindSafe(|| self.policy.decide(&question)));
        let ruling = match ruled {
            Ok(Ok(ruling)) => ruling,
            Ok(Err(error)) => Ruling::Deny {
                reasons: vec![error.to_string()],
            },
            Err(_) => Ruling::Deny {
                reasons: vec!["policy panicked".to_owned()],
            },
        };
        let (verdict, reasons) = match ruling {
            Ruling::Allow { reasons } => (Verdict::Allow, reasons),
            Ruling::RequireApproval { mut reasons } if acting.approved => {
                reasons.push("a person's approval covers it".to_owned());
                (Verdict::Allow, reasons)
            }
            Ruling::RequireApproval { reasons } => (Verdict::RequireApproval, reasons),
            Ruling::Deny { reasons } => (Verdict::Deny, reasons),
            Ruling::Repair { reasons, change } => (Verdict::Repair(change), reasons),
        };
        let permit = (verdict == Verdict::Allow).then(|| self.mint(proposal, acting));
        let decision = Decision {
            verdict,
            reasons,
            policy_version: self.policy.version(),
        };
        Authorized { decision, permit }
    }

    fn first_intent(&self, proposal: &Frozen, acting: &Acting) -> Intent {
        let contract = &proposal.tool.contract;
        Intent {
            key: key(self.log.id(), &acting.run, &acting.action),
            class: contract.recovery,
            timeout_ms: millis(contract.timeout),
            closure: contract.closure,
            attempts_max: contract.retry.attempts_max,
            backoff_first_ms: millis(contract.retry.backoff_first),
            backoff_max_ms: millis(contract.retry.backoff_max),
        }
    }

    fn mint(&self, proposal: &Frozen, acting: Acting) -> Permit {
        let intent = match acting.earlier {
            Some(earlier) => earlier,
            None => self.first_intent(proposal, &acting),
        };
        let attempt = AttemptRef {
            action: acting.action,
            attempt: acting.attempt,
        };
        Permit {
            run: acting.run,
            attempt,
            proposal: proposal.clone(),
            intent,
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
