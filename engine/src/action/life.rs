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

use intendant_journal::format::entry::{
    ActionEntry, Answer, AnsweredEntry, ApprovalEntry, AttemptRef, Body, Closure, Epoch,
    IncidentEntry, Intent, Moment, Outcome, OutcomeEntry, ParkedEntry, Payload, RecoveryClass,
    Resolution, ResolvedEntry, Verdict, Verification, VerifiedEntry,
};

use super::doubt::{AskRule, FirstIntent, Surroundings, backoff_ms, inside_window};

/// Where an action stands.
#[derive(Clone, PartialEq, Debug)]
pub enum State {
    /// Proposed; nothing was decided yet.
    Proposed,
    /// A person must say yes before the attempt.
    AwaitingApproval {
        /// The attempt that waits.
        attempt: u32,
    },
    /// A person said yes; the attempt has no intent yet.
    Approved {
        /// The attempt that may be decided again.
        attempt: u32,
    },
    /// The intent is durable and nothing is known of how it ended.
    Running {
        /// The attempt.
        attempt: u32,
    },
    /// The attempt before is closed; another is due.
    Waiting {
        /// The attempt that is due.
        attempt: u32,
        /// From when on.
        due: Moment,
    },
    /// The attempt was cut and nobody knows how it ended.
    InDoubt(Doubt),
    /// In doubt, and only a person can settle it.
    Parked {
        /// The attempt in doubt.
        attempt: u32,
        /// Why.
        why: String,
    },
    /// It ended.
    Settled(Settled),
}

/// An attempt in doubt.
#[derive(Clone, PartialEq, Debug)]
pub struct Doubt {
    /// The attempt.
    pub attempt: u32,
    /// What was seen.
    pub why: String,
    /// When.
    pub since: Moment,
    /// Questions asked that count.
    pub asks: u32,
    /// When it was last answered, or came into doubt.
    pub answered: Moment,
    /// The pause that a `running` answer asked for.
    pub running_pause_ms: Option<u64>,
    /// True while a question is out.
    pub asking: bool,
    /// The last answer, in words.
    pub last_answer: Option<String>,
}

/// How an action ended.
#[derive(Clone, PartialEq, Debug)]
pub enum Settled {
    /// The effect happened.
    Succeeded {
        /// The attempt that did it.
        attempt: u32,
        /// Its output.
        output: Payload,
        /// Who said so.
        by: SettledBy,
        /// Whether the effect was seen to hold.
        verification: Verification,
    },
    /// The effect happened; its output cannot be used. Never run again.
    Unusable {
        /// The attempt.
        attempt: u32,
        /// What came.
        raw: Payload,
        /// Why it cannot be used.
        why: String,
    },
    /// The effect did not happen and will not.
    Failed {
        /// The last attempt.
        attempt: u32,
        /// Why.
        why: String,
        /// True if the key was voided at the target.
        voided: bool,
    },
    /// Policy or an approver said no.
    Denied {
        /// Every reason.
        reasons: Vec<String>,
    },
    /// A person gave up finding out.
    GivenUp {
        /// The attempt in doubt.
        attempt: u32,
        /// The person's reason.
        why: String,
    },
}

/// Who said how an action ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SettledBy {
    /// The tool itself.
    Tool,
    /// Its reconciler.
    Reconciler,
    /// A person.
    Person,
}

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

    fn facts_of(&self, event: Event, around: &Surroundings) -> Result<Vec<Body>, Illegal> {
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

    fn facts_of_reply(&self, mut entry: OutcomeEntry, around: &Surroundings) -> Vec<Body> {
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
        match &mut entry.outcome {
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
    fn evidence(&self, fact: Body, attempt: AttemptRef, happened: Option<bool>) -> Vec<Body> {
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
    fn unbegun(&self) -> Option<u32> {
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

    fn facts_of_answer(&self, mut entry: AnsweredEntry) -> Vec<Body> {
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

    /// Folds one durable fact.
    ///
    /// # Errors
    /// [`Illegal`] if the fact cannot follow this state: the caller made it up, or the journal was
    /// written by other rules.
    pub fn apply(&self, fact: &Body, at: Moment, epoch: Epoch) -> Result<Self, Illegal> {
        let mut life = self.clone();
        match fact {
            Body::Action(entry) => life.apply_decision(entry, at, epoch)?,
            Body::Approval(entry) => life.apply_approval(entry)?,
            Body::Outcome(entry) => life.apply_outcome(entry, at)?,
            Body::Asking(attempt) => life.apply_asking(attempt)?,
            Body::Answered(entry) => life.apply_answer(entry, at)?,
            Body::Parked(entry) => life.apply_parked(entry)?,
            Body::Resolved(entry) => life.apply_resolution(entry, at)?,
            Body::Verified(entry) => life.apply_verification(entry)?,
            Body::LateReply(_) | Body::Incident(_) => {}
            _ => {
                return Err(
                    self.illegal("given a fact of something else", "not a fact of an action")
                );
            }
        }
        Ok(life)
    }

    fn apply_decision(
        &mut self,
        entry: &ActionEntry,
        at: Moment,
        epoch: Epoch,
    ) -> Result<(), Illegal> {
        let attempt = entry.attempt.attempt;
        let expected = match &self.state {
            State::Proposed => 1,
            State::Approved { attempt } | State::Waiting { attempt, .. } => *attempt,
            State::InDoubt(doubt) if !doubt.asking && self.may_run_again() => doubt.attempt + 1,
            _ => return Err(self.illegal("decided on", "no attempt is due")),
        };
        if attempt != expected {
            return Err(self.illegal(
                "decided on",
                format!("attempt {attempt}, but {expected} is due"),
            ));
        }
        match (&entry.decision.verdict, &entry.intent) {
            (Verdict::Allow, Some(intent)) => {
                if let Some(earlier) = &self.intent {
                    if earlier.key != intent.key {
                        return Err(
                            self.illegal("intended", "under another key than its earlier attempts")
                        );
                    }
                    // What counted before still does.
                } else {
                    self.first = Some(FirstIntent { at, epoch });
                }
                self.intent = Some(intent.clone());
                self.counted += 1;
                self.unclosed = true;
                self.state = State::Running { attempt };
            }
            (Verdict::RequireApproval, None) => self.state = State::AwaitingApproval { attempt },
            (Verdict::Deny | Verdict::Repair(_), None) => {
                let mut reasons = entry.decision.reasons.clone();
                if let Verdict::Repair(change) = &entry.decision.verdict {
                    reasons.push(format!("acceptable with this change: {change}"));
                }
                self.refuse(attempt, reasons);
            }
            _ => {
                return Err(self.illegal(
                    "decided on",
                    "an intent needs an allowing decision, and the reverse",
                ));
            }
        }
        Ok(())
    }

    fn apply_approval(&mut self, entry: &ApprovalEntry) -> Result<(), Illegal> {
        let State::AwaitingApproval { attempt } = self.state else {
            return Err(self.illegal("approved or denied", "it does not await approval"));
        };
        if attempt != entry.attempt.attempt {
            return Err(self.illegal(
                "approved or denied",
                format!("attempt {attempt} is the one that waits"),
            ));
        }
        if entry.approved {
            self.approved = true;
            self.state = State::Approved { attempt };
        } else {
            self.refuse(
                attempt,
                vec![format!(
                    "refused by {}: {}",
                    entry.note.who, entry.note.reason
                )],
            );
        }
        Ok(())
    }

    /// A no to attempt `attempt`. It settles nothing about an earlier one that may still act.
    fn refuse(&mut self, attempt: u32, reasons: Vec<String>) {
        let harmless = self
            .intent
            .as_ref()
            .is_none_or(|intent| intent.class == RecoveryClass::ReadOnly);
        self.state = if self.unclosed && !harmless {
            let why = format!(
                "attempt {attempt} was refused ({}), and attempt {} is in doubt",
                reasons.join("; "),
                attempt - 1
            );
            State::Parked {
                attempt: attempt - 1,
                why,
            }
        } else {
            State::Settled(Settled::Denied { reasons })
        };
    }

    fn apply_outcome(&mut self, entry: &OutcomeEntry, at: Moment) -> Result<(), Illegal> {
        let attempt = entry.attempt.attempt;
        if self.state != (State::Running { attempt }) {
            return Err(self.illegal(
                "answered by its tool",
                format!("attempt {attempt} does not run"),
            ));
        }
        self.state = match &entry.outcome {
            Outcome::Succeeded(output) => State::Settled(Settled::Succeeded {
                attempt,
                output: output.clone(),
                by: SettledBy::Tool,
                verification: Verification::Inconclusive,
            }),
            Outcome::Unusable { raw, why } => State::Settled(Settled::Unusable {
                attempt,
                raw: raw.clone(),
                why: why.clone(),
            }),
            Outcome::Failed { why } => State::Settled(Settled::Failed {
                attempt,
                why: why.clone(),
                voided: false,
            }),
            Outcome::NotExecuted { why, retry_at } => match retry_at {
                Some(due) => State::Waiting {
                    attempt: attempt + 1,
                    due: *due,
                },
                None => State::Settled(Settled::Failed {
                    attempt,
                    why: why.clone(),
                    voided: false,
                }),
            },
            Outcome::Unknown { why } => State::InDoubt(Doubt::new(attempt, why, at)),
            Outcome::Interrupted { why } => {
                self.counted = self.counted.saturating_sub(1);
                State::InDoubt(Doubt::new(attempt, why, at))
            }
        };
        self.unclosed = matches!(self.state, State::InDoubt(_));
        Ok(())
    }

    fn apply_asking(&mut self, asked: &AttemptRef) -> Result<(), Illegal> {
        match &mut self.state {
            // Asking again after a crash between question and answer is the same question.
            State::InDoubt(doubt) if doubt.attempt == asked.attempt => {
                doubt.asking = true;
                Ok(())
            }
            _ => Err(self.illegal("asked about", "that attempt is not in doubt")),
        }
    }

    fn apply_answer(&mut self, entry: &AnsweredEntry, at: Moment) -> Result<(), Illegal> {
        let attempt = entry.attempt.attempt;
        let State::InDoubt(doubt) = &self.state else {
            return Ok(()); // evidence that came after a settlement
        };
        if doubt.attempt != attempt || !doubt.asking {
            return Ok(());
        }
        let mut doubt = doubt.clone();
        doubt.asking = false;
        doubt.answered = at;
        doubt.last_answer = Some(answer_words(&entry.answer));
        self.state = match &entry.answer {
            Answer::Executed {
                output: raw @ Payload::Bytes(_),
                ..
            } => State::Settled(Settled::Unusable {
                attempt,
                raw: raw.clone(),
                why: "the reconciler's output does not fit the declared output".into(),
            }),
            Answer::Executed { output, .. } => State::Settled(Settled::Succeeded {
                attempt,
                output: output.clone(),
                by: SettledBy::Reconciler,
                verification: Verification::Inconclusive,
            }),
            Answer::NeverWill { burned: true, .. } => State::Settled(Settled::Failed {
                attempt,
                why: "voided: the target will never execute this key".into(),
                voided: true,
            }),
            Answer::NeverWill {
                burned: false,
                closure,
                ..
            } => {
                let intent = self
                    .intent
                    .as_ref()
                    .expect("an attempt in doubt had an intent");
                if intent.closure != Some(*closure) {
                    return Err(
                        self.illegal("re-armed", "its declaration in force names no such closure")
                    );
                }
                self.unclosed = false;
                if self.counted < intent.attempts_max {
                    State::Waiting {
                        attempt: attempt + 1,
                        due: at,
                    }
                } else {
                    let why = format!(
                        "never executed in {} attempts; last: {}",
                        self.counted, doubt.why
                    );
                    State::Settled(Settled::Failed {
                        attempt,
                        why,
                        voided: true,
                    })
                }
            }
            Answer::Running { retry_after_ms } => {
                doubt.running_pause_ms = Some(*retry_after_ms);
                State::InDoubt(doubt)
            }
            Answer::NotSeen { .. } | Answer::Unknown { .. } => {
                doubt.asks += 1;
                doubt.running_pause_ms = None;
                State::InDoubt(doubt)
            }
        };
        Ok(())
    }

    fn apply_parked(&mut self, entry: &ParkedEntry) -> Result<(), Illegal> {
        match &self.state {
            State::InDoubt(doubt) if doubt.attempt == entry.attempt.attempt && !doubt.asking => {
                self.state = State::Parked {
                    attempt: doubt.attempt,
                    why: entry.why.clone(),
                };
                Ok(())
            }
            _ if self.unbegun() == Some(entry.attempt.attempt + 1) => {
                let attempt = entry.attempt.attempt;
                self.state = State::Parked {
                    attempt,
                    why: entry.why.clone(),
                };
                self.unclosed = true;
                Ok(())
            }
            _ => Err(self.illegal("parked", "that attempt is not in doubt")),
        }
    }

    fn apply_resolution(&mut self, entry: &ResolvedEntry, at: Moment) -> Result<(), Illegal> {
        let attempt = match &self.state {
            State::InDoubt(doubt) => doubt.attempt,
            State::Parked { attempt, .. } => *attempt,
            _ => return Err(self.illegal("resolved by a person", "it is not in doubt")),
        };
        if attempt != entry.attempt.attempt {
            return Err(self.illegal(
                "resolved by a person",
                format!("attempt {attempt} is the one in doubt"),
            ));
        }
        self.unclosed = false;
        self.state = match &entry.resolution {
            Resolution::Executed(output) => State::Settled(Settled::Succeeded {
                attempt,
                output: output.clone(),
                by: SettledBy::Person,
                verification: Verification::Inconclusive,
            }),
            Resolution::NeverRan => {
                // A person who says so wants it to run, whatever the retry rule counted.
                self.counted = 0;
                State::Waiting {
                    attempt: attempt + 1,
                    due: at,
                }
            }
            Resolution::GaveUp => State::Settled(Settled::GivenUp {
                attempt,
                why: entry.note.reason.clone(),
            }),
        };
        Ok(())
    }

    fn apply_verification(&mut self, entry: &VerifiedEntry) -> Result<(), Illegal> {
        match &mut self.state {
            State::Settled(Settled::Succeeded {
                attempt,
                verification,
                ..
            }) if *attempt == entry.attempt.attempt
                && *verification == Verification::Inconclusive =>
            {
                if entry.verification == Verification::Failed {
                    let why = format!(
                        "the tool said success, but verification failed: {}",
                        entry.why
                    );
                    self.state = State::Settled(Settled::Failed {
                        attempt: *attempt,
                        why,
                        voided: false,
                    });
                } else {
                    *verification = entry.verification;
                }
                Ok(())
            }
            _ => Err(self.illegal("verified", "that attempt has no unverified success")),
        }
    }

    /// True if another attempt may start while the latest one is in doubt: only a class that
    /// declares it safe. Whether it is *time* (the window) is for [`Life::next`].
    fn may_run_again(&self) -> bool {
        self.intent.as_ref().is_some_and(|intent| {
            matches!(
                intent.class,
                RecoveryClass::ReadOnly | RecoveryClass::Idempotent { .. }
            )
        })
    }

    fn illegal(&self, event: &'static str, why: impl Into<String>) -> Illegal {
        Illegal {
            state: self.state_name(),
            event,
            why: why.into(),
        }
    }
}

impl Doubt {
    fn new(attempt: u32, why: &str, at: Moment) -> Self {
        Self {
            attempt,
            why: why.to_owned(),
            since: at,
            asks: 0,
            answered: at,
            running_pause_ms: None,
            asking: false,
            last_answer: None,
        }
    }

    /// When the next question is due, wall clock.
    pub fn ask_at_wall_ms(&self, rule: AskRule) -> i64 {
        let pause = match (self.running_pause_ms, self.asks) {
            (Some(pause), _) => pause,
            (None, 0) => 0,
            (None, asks) => backoff_ms(rule.backoff_first_ms, rule.backoff_max_ms, asks),
        };
        self.answered.wall_ms.saturating_add_unsigned(pause)
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

/// The name of an answer, as reconcilers print it.
pub fn answer_name(answer: &Answer) -> &'static str {
    match answer {
        Answer::Executed { .. } => "executed",
        Answer::NeverWill { .. } => "never_will",
        Answer::Running { .. } => "running",
        Answer::NotSeen { .. } => "not_seen",
        Answer::Unknown { .. } => "unknown",
    }
}

/// An answer in one line.
pub fn answer_words(answer: &Answer) -> String {
    let name = answer_name(answer);
    match answer {
        Answer::Executed { .. } => name.to_owned(),
        Answer::NeverWill {
            closure, burned, ..
        } => {
            format!(
                "{name} (by {}{})",
                closure_name(*closure),
                if *burned { ", key burned" } else { "" }
            )
        }
        Answer::Running { retry_after_ms } => format!("{name} (ask again in {retry_after_ms} ms)"),
        Answer::NotSeen { as_of } => format!("{name} (as of {as_of})"),
        Answer::Unknown { why } => format!("{name} ({why})"),
    }
}

/// The closure's name, as job files write it.
pub fn closure_name(closure: Closure) -> &'static str {
    match closure {
        Closure::AbortClaim => "abort_claim",
        Closure::Fence => "fence",
        Closure::Deadline => "deadline",
    }
}
