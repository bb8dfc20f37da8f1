//! From an event to the facts that record it.
//!
//! What comes too late to be an outcome is evidence: it is kept, and it never changes what is settled.

use intendant_journal::format::entry::{
    Answer, AnsweredEntry, AttemptRef, Body, IncidentEntry, Moment, Outcome, OutcomeEntry,
    ParkedEntry, RecoveryClass,
};

use crate::action::doubt::Surroundings;

use super::{Event, Illegal, Life, Settled, State};

impl Life {
    pub(super) fn facts_of(
        &self,
        event: Event,
        around: &Surroundings,
    ) -> Result<Vec<Body>, Illegal> {
        match event {
            Event::Decided(entry) => Ok(vec![Body::Action(entry)]),
            Event::Approval(entry) => Ok(vec![Body::Approval(entry)]),
            Event::Ask(attempt) => Ok(vec![Body::Asking(attempt)]),
            Event::Verified(entry) => Ok(vec![Body::Verified(entry)]),
            Event::Resolved(entry) => Ok(vec![Body::Resolved(entry)]),
            Event::Replied(_) | Event::Answered(_) if self.intent.is_none() => {
                Err(self.illegal("answered", "no attempt of it was ever made"))
            }
            Event::Replied(entry) => Ok(self.facts_of_reply(entry, around)),
            Event::Answered(entry) => Ok(self.facts_of_answer(entry)),
        }
    }

    pub(super) fn facts_of_reply(
        &self,
        mut entry: OutcomeEntry,
        around: &Surroundings,
    ) -> Vec<Body> {
        let current =
            matches!(&self.state, State::Running { attempt } if *attempt == entry.attempt.attempt);
        if !current {
            let happened = match &entry.outcome {
                Outcome::Succeeded(_) | Outcome::Unusable { .. } => Some(true),
                Outcome::Failed { .. } | Outcome::NotExecuted { .. } => Some(false),
                Outcome::Unknown { .. } | Outcome::Interrupted { .. } => None,
            };
            let attempt = entry.attempt.clone();
            return self.evidence(Body::LateReply(entry), attempt, happened);
        }
        let intent = self
            .intent
            .as_ref()
            .expect("a running attempt has an intent");
        let last = self.counted >= intent.attempts_max;
        let earlier_may_act = self.earlier_unclosed && intent.class != RecoveryClass::ReadOnly;
        match &mut entry.outcome {
            // It says nothing of an earlier attempt that may still act: that stays in doubt.
            Outcome::NotExecuted { .. } if earlier_may_act => {}
            Outcome::NotExecuted { why, .. } if last => {
                entry.outcome = Outcome::Failed {
                    why: format!("not executed after {} attempts: {why}", self.counted),
                };
            }
            Outcome::NotExecuted { retry_at, .. } => {
                let pause = self.pause_ms(intent);
                *retry_at = Some(Moment {
                    wall_ms: around.now.wall_ms.saturating_add(pause as i64),
                    boot_ms: around.now.boot_ms.saturating_add(pause),
                });
            }
            // Without an effect there is nothing to be in doubt about.
            Outcome::Unknown { why } if last && intent.class == RecoveryClass::ReadOnly => {
                entry.outcome = Outcome::Failed {
                    why: format!("no answer after {} attempts: {why}", self.counted),
                };
            }
            _ => {}
        }
        vec![Body::Outcome(entry)]
    }

    /// The facts for something that comes too late to be an outcome: it is kept as evidence. If it
    /// contradicts what was settled or closed, that is an incident, and an action whose next attempt
    /// has not begun is parked: it must not run on the strength of a closure that did not hold.
    pub(super) fn evidence(
        &self,
        fact: Body,
        attempt: AttemptRef,
        happened: Option<bool>,
    ) -> Vec<Body> {
        let done = matches!(
            self.state,
            State::Settled(Settled::Succeeded { .. } | Settled::Unusable { .. })
        );
        let doubtful = matches!(self.state, State::InDoubt(_) | State::Parked { .. });
        let contradicts = match happened {
            Some(true) => !done && !doubtful,
            Some(false) => done,
            None => false,
        };
        let mut facts = vec![fact];
        if contradicts {
            let what = format!(
                "attempt {} {}, but the action is {}",
                attempt.attempt,
                if done {
                    "is said not to have happened"
                } else {
                    "is said to have happened"
                },
                self.state_name()
            );
            let action = attempt.action.clone();
            let why = what.clone();
            facts.push(Body::Incident(IncidentEntry {
                attempt: Some(attempt),
                what,
            }));
            if let Some(unbegun) = self.unbegun() {
                let attempt = AttemptRef {
                    action,
                    attempt: unbegun - 1,
                };
                facts.push(Body::Parked(ParkedEntry { attempt, why }));
            }
        }
        facts
    }

    /// The attempt that is due or awaits a word and has not begun, if it is not the first.
    pub(super) fn unbegun(&self) -> Option<u32> {
        match self.state {
            State::Waiting { attempt, .. }
            | State::AwaitingApproval { attempt }
            | State::Approved { attempt }
                if attempt > 1 =>
            {
                Some(attempt)
            }
            _ => None,
        }
    }

    pub(super) fn facts_of_answer(&self, mut entry: AnsweredEntry) -> Vec<Body> {
        if let Answer::NeverWill { closure, .. } = &entry.answer {
            let declared = self.intent.as_ref().and_then(|intent| intent.closure);
            if declared != Some(*closure) {
                // Having found nothing is no proof that nothing is on its way.
                entry.answer = Answer::Unknown {
                    why: "answered never_will, but the tool's declaration in force names no closure that guarantees it"
                        .into(),
                };
            }
        }
        let asked = matches!(&self.state, State::InDoubt(doubt)
            if doubt.attempt == entry.attempt.attempt && doubt.asking);
        if asked {
            return vec![Body::Answered(entry)];
        }
        // A person was faster, or two asked.
        let happened = match &entry.answer {
            Answer::Executed { .. } => Some(true),
            Answer::NeverWill { .. } => Some(false),
            _ => None,
        };
        let attempt = entry.attempt.clone();
        self.evidence(Body::Answered(entry), attempt, happened)
    }
}
