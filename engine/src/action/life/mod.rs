//! The pure state machine of one action (DESIGN section 5).
//!
//! [`Life::apply`] folds durable facts; [`Life::step`] answers an event with the facts to write and
//! what to do next. A state is never anything but the fold of its facts, so what recovery sees
//! after a crash is what the live engine saw.
//!
//! Invariants:
//! - Settled stays settled: no event changes a settled state (only a failed verification turns a
//!   success into a failure, once).
//! - Nothing but `NotExecuted`, an accepted `NeverWill`, a person's word, or a class that declares
//!   it safe leads to another attempt. `NotSeen` and `Unknown` never do.
//! - An interruption never becomes a success or a failure by itself.
//! - A refusal settles nothing about an earlier attempt: with one unclosed, the action is parked.

mod facts;
mod fold;
mod state;
mod words;

use intendant_journal::format::entry::{
    ActionEntry, AnsweredEntry, ApprovalEntry, AttemptRef, Body, Epoch, Intent, OutcomeEntry,
    ParkedEntry, RecoveryClass, ResolvedEntry, VerifiedEntry,
};

use crate::action::doubt::{FirstIntent, Surroundings, backoff_ms, inside_window};

pub use state::{Doubt, Settled, SettledBy, State};
pub use words::{answer_name, answer_words, closure_name};

/// One action from proposal to settlement.
#[derive(Clone, PartialEq, Debug)]
pub struct Life {
    state: State,
    intent: Option<Intent>,
    first: Option<FirstIntent>,
    /// Attempts that count against the retry rule.
    counted: u32,
    /// A person's yes covers this and later attempts.
    approved: bool,
    /// The latest attempt may still act.
    unclosed: bool,
    /// So may an attempt before the latest one.
    earlier_unclosed: bool,
}

/// What happens to an action.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// The kernel decided on an attempt.
    Decided(ActionEntry),
    /// A person spoke on an approval.
    Approval(ApprovalEntry),
    /// The tool's process answered, was cut, or was found cut by a later opening.
    Replied(OutcomeEntry),
    /// The reconciler is to be asked now.
    Ask(AttemptRef),
    /// The reconciler answered.
    Answered(AnsweredEntry),
    /// A person settled it.
    Resolved(ResolvedEntry),
    /// The effect was looked at.
    Verified(VerifiedEntry),
}

/// What to do next with an action.
#[derive(Clone, PartialEq, Debug)]
pub enum Next {
    /// Ask the kernel to decide on this attempt, once the wall clock reaches the time.
    Decide {
        /// The attempt.
        attempt: u32,
        /// Milliseconds since the Unix epoch.
        at_wall_ms: i64,
    },
    /// The attempt runs, or ran when its process ended.
    Run {
        /// The attempt.
        attempt: u32,
    },
    /// Ask the reconciler, once the wall clock reaches the time.
    Ask {
        /// The attempt in doubt.
        attempt: u32,
        /// Milliseconds since the Unix epoch.
        at_wall_ms: i64,
    },
    /// Only a person can settle it; to be recorded as parked.
    Park {
        /// The attempt in doubt.
        attempt: u32,
        /// Why.
        why: String,
    },
    /// A person is waited for.
    Person,
    /// Nothing: it is settled.
    Nothing,
}

/// The answer to an event.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    /// The life after the facts.
    pub life: Life,
    /// The facts to make durable, in order, before anything of it is acted on.
    pub facts: Vec<Body>,
    /// What to do once they are durable.
    pub next: Next,
}

/// An event that does not fit the state. Nothing changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("an action that is {state} cannot be {event}: {why}")]
pub struct Illegal {
    /// The state, in words.
    pub state: &'static str,
    /// The event, in words.
    pub event: &'static str,
    /// Why.
    pub why: String,
}

impl Default for Life {
    fn default() -> Self {
        Self::new()
    }
}

impl Life {
    /// A proposed action.
    pub fn new() -> Self {
        Self {
            state: State::Proposed,
            intent: None,
            first: None,
            counted: 0,
            approved: false,
            unclosed: false,
            earlier_unclosed: false,
        }
    }

    /// Where it stands.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The latest intent, with the declaration in force.
    pub fn intent(&self) -> Option<&Intent> {
        self.intent.as_ref()
    }

    /// True if a person's yes covers the next attempt.
    pub fn is_approved(&self) -> bool {
        self.approved
    }

    /// True if only a person can move it; nothing beside it waits for that.
    pub(crate) fn rests(&self) -> bool {
        matches!(
            self.state,
            State::Parked { .. } | State::AwaitingApproval { .. }
        )
    }

    /// How it ended, if it did.
    pub fn settled(&self) -> Option<&Settled> {
        match &self.state {
            State::Settled(settled) => Some(settled),
            _ => None,
        }
    }

    /// The attempt that the state speaks of; 1 before the first.
    pub fn attempt(&self) -> u32 {
        match &self.state {
            State::Proposed => 1,
            State::AwaitingApproval { attempt }
            | State::Approved { attempt }
            | State::Running { attempt }
            | State::Waiting { attempt, .. }
            | State::Parked { attempt, .. } => *attempt,
            State::InDoubt(doubt) => doubt.attempt,
            State::Settled(settled) => match settled {
                Settled::Succeeded { attempt, .. }
                | Settled::Unusable { attempt, .. }
                | Settled::Failed { attempt, .. }
                | Settled::GivenUp { attempt, .. } => *attempt,
                Settled::Denied { .. } => 1,
            },
        }
    }

    /// The state's name in DESIGN's words.
    pub fn state_name(&self) -> &'static str {
        match &self.state {
            State::Proposed => "proposed",
            State::AwaitingApproval { .. } => "awaiting approval",
            State::Approved { .. } => "approved",
            State::Running { .. } => "running",
            State::Waiting { .. } => "waiting for its next attempt",
            State::InDoubt(doubt) if doubt.asking => "reconciling",
            State::InDoubt(_) => "in doubt",
            State::Parked { .. } => "parked",
            State::Settled(Settled::Succeeded { .. }) => "succeeded",
            State::Settled(Settled::Unusable { .. }) => "succeeded, output unusable",
            State::Settled(Settled::Failed { voided: true, .. }) => "failed (voided)",
            State::Settled(Settled::Failed { .. }) => "failed",
            State::Settled(Settled::Denied { .. }) => "denied",
            State::Settled(Settled::GivenUp { .. }) => "given up",
        }
    }

    /// Answers an event with the facts to write and what to do next.
    ///
    /// # Errors
    /// [`Illegal`] if the event does not fit the state; nothing is to be written.
    pub fn step(&self, event: Event, epoch: Epoch, around: &Surroundings) -> Result<Step, Illegal> {
        let mut facts = self.facts_of(event, around)?;
        let mut life = self.clone();
        for fact in &facts {
            life = life.apply(fact, around.now, epoch)?;
        }
        let mut next = life.next(around);
        if let Next::Park { attempt, why } = next {
            // Parking is a fact of its own, so that people see since when and why.
            let action = match facts.last() {
                Some(fact) => attempt_of(fact).map(|of| of.action.clone()),
                None => None,
            };
            let action = action.expect("an event that leads to parking wrote a fact of its action");
            let parked = Body::Parked(ParkedEntry {
                attempt: AttemptRef { action, attempt },
                why,
            });
            life = life.apply(&parked, around.now, epoch)?;
            facts.push(parked);
            next = Next::Person;
        }
        Ok(Step { life, facts, next })
    }

    /// What is to be done with an action in this state: by a live engine after a step, and by a
    /// new opening after it folded the facts. `Run` for an attempt of an earlier opening means
    /// that it was interrupted.
    pub fn next(&self, around: &Surroundings) -> Next {
        if let Some(attempt) = self.unbegun()
            && self.key_may_be_forgotten(around)
        {
            let why =
                "an earlier attempt is in doubt, and its key may be forgotten by now".to_owned();
            return Next::Park {
                attempt: attempt - 1,
                why,
            };
        }
        match &self.state {
            State::Proposed => Next::Decide {
                attempt: 1,
                at_wall_ms: around.now.wall_ms,
            },
            State::Approved { attempt } => Next::Decide {
                attempt: *attempt,
                at_wall_ms: around.now.wall_ms,
            },
            State::Waiting { attempt, due } => Next::Decide {
                attempt: *attempt,
                at_wall_ms: due.wall_ms,
            },
            State::Running { attempt } => Next::Run { attempt: *attempt },
            State::AwaitingApproval { .. } | State::Parked { .. } => Next::Person,
            State::Settled(_) => Next::Nothing,
            State::InDoubt(doubt) => self.next_of_doubt(doubt, around),
        }
    }

    /// True if an attempt that may still act went out under a key whose window has passed.
    fn key_may_be_forgotten(&self, around: &Surroundings) -> bool {
        let (Some(intent), Some(first), true) = (&self.intent, self.first, self.unclosed) else {
            return false;
        };
        match intent.class {
            RecoveryClass::Idempotent { window_ms } => {
                !inside_window(first, window_ms, intent.timeout_ms, around)
            }
            _ => false,
        }
    }

    fn next_of_doubt(&self, doubt: &Doubt, around: &Surroundings) -> Next {
        let intent = self
            .intent
            .as_ref()
            .expect("an attempt in doubt had an intent");
        let again = Next::Decide {
            attempt: doubt.attempt + 1,
            at_wall_ms: doubt
                .since
                .wall_ms
                .saturating_add(self.pause_ms(intent) as i64),
        };
        let why = match intent.class {
            RecoveryClass::ReadOnly => return again,
            RecoveryClass::Idempotent { window_ms } => {
                let first = self.first.expect("an intent was the first once");
                let inside = inside_window(first, window_ms, intent.timeout_ms, around);
                if inside && self.counted < intent.attempts_max {
                    return again;
                }
                if inside {
                    "its attempts are used up"
                } else {
                    "its key may be forgotten by now"
                }
            }
            RecoveryClass::Reconcilable => "its tool has no reconciler here",
            RecoveryClass::Opaque => "its tool declares no way to find out",
        };
        let attempt = doubt.attempt;
        match around.reconciler {
            Some(rule) if doubt.asks < rule.asks_max => Next::Ask {
                attempt,
                at_wall_ms: doubt.ask_at_wall_ms(rule),
            },
            Some(_) => {
                let last = doubt.last_answer.as_deref().unwrap_or("no answer");
                let why = format!("{}; asked {} times, last: {last}", doubt.why, doubt.asks);
                Next::Park { attempt, why }
            }
            None => Next::Park {
                attempt,
                why: format!("{}; {why}", doubt.why),
            },
        }
    }

    /// The pause before the next attempt: none after an interruption that does not count.
    fn pause_ms(&self, intent: &Intent) -> u64 {
        match self.counted {
            0 => 0,
            n => backoff_ms(intent.backoff_first_ms, intent.backoff_max_ms, n),
        }
    }

    fn illegal(&self, event: &'static str, why: impl Into<String>) -> Illegal {
        Illegal {
            state: self.state_name(),
            event,
            why: why.into(),
        }
    }
}

/// The attempt a fact speaks of, if it is a fact of an action.
pub fn attempt_of(fact: &Body) -> Option<&AttemptRef> {
    match fact {
        Body::Action(entry) => Some(&entry.attempt),
        Body::Outcome(entry) | Body::LateReply(entry) => Some(&entry.attempt),
        Body::Asking(attempt) => Some(attempt),
        Body::Answered(entry) => Some(&entry.attempt),
        Body::Approval(entry) => Some(&entry.attempt),
        Body::Parked(entry) => Some(&entry.attempt),
        Body::Resolved(entry) => Some(&entry.attempt),
        Body::Verified(entry) => Some(&entry.attempt),
        Body::Incident(entry) => entry.attempt.as_ref(),
        _ => None,
    }
}
