//! The fold: what each durable fact makes of a life.
//!
//! Invariant: this is the only code that changes a state.

use intendant_journal::format::entry::{
    ActionEntry, Answer, AnsweredEntry, ApprovalEntry, AttemptRef, Body, Epoch, Moment, Outcome,
    OutcomeEntry, ParkedEntry, Payload, RecoveryClass, Resolution, ResolvedEntry, Verdict,
    Verification, VerifiedEntry,
};

use crate::action::doubt::FirstIntent;

use super::{Doubt, Illegal, Life, Settled, SettledBy, State, answer_words};

impl Life {
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

    pub(super) fn apply_decision(
        &mut self,
        entry: &ActionEntry,
        at: Moment,
        epoch: Epoch,
    ) -> Result<(), Illegal> {
        let attempt = entry.attempt.attempt;
        let expected = match &self.state {
            State::Proposed => 1,
            State::Approved { attempt } | State::Waiting { attempt, .. } => *attempt,
            // A question that is out is no obstacle: its answer will be evidence.
            State::InDoubt(doubt) if self.may_run_again() => doubt.attempt + 1,
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
                self.earlier_unclosed = self.unclosed;
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

    pub(super) fn apply_approval(&mut self, entry: &ApprovalEntry) -> Result<(), Illegal> {
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
    pub(super) fn refuse(&mut self, attempt: u32, reasons: Vec<String>) {
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

    pub(super) fn apply_outcome(
        &mut self,
        entry: &OutcomeEntry,
        at: Moment,
    ) -> Result<(), Illegal> {
        let attempt = entry.attempt.attempt;
        if self.state != (State::Running { attempt }) {
            return Err(self.illegal(
                "answered by its tool",
                format!("attempt {attempt} does not run"),
            ));
        }
        let harmless = self
            .intent
            .as_ref()
            .is_some_and(|intent| intent.class == RecoveryClass::ReadOnly);
        let earlier_may_act = self.earlier_unclosed && !harmless;
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
            Outcome::NotExecuted { why, .. } if earlier_may_act => {
                let why = format!(
                    "this attempt was not executed ({why}), but an earlier one may have been"
                );
                State::InDoubt(Doubt::new(attempt, &why, at))
            }
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

    pub(super) fn apply_asking(&mut self, asked: &AttemptRef) -> Result<(), Illegal> {
        match &mut self.state {
            // Asking again after a crash between question and answer is the same question.
            State::InDoubt(doubt) if doubt.attempt == asked.attempt => {
                doubt.asking = true;
                Ok(())
            }
            _ => Err(self.illegal("asked about", "that attempt is not in doubt")),
        }
    }

    pub(super) fn apply_answer(
        &mut self,
        entry: &AnsweredEntry,
        at: Moment,
    ) -> Result<(), Illegal> {
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
                output: raw @ (Payload::Bytes(_) | Payload::BytesBlob(_)),
                ..
            } => State::Settled(Settled::Unusable {
                attempt,
                raw: raw.clone(),
                why: "the reconciler's output does not fit the declared output".into(),
            }),
            Answer::Executed {
                output: raw @ Payload::Lost(_),
                ..
            } => State::Settled(Settled::Unusable {
                attempt,
                raw: raw.clone(),
                why: "the reconciler's output could not be stored; only its hash is kept".into(),
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

    pub(super) fn apply_parked(&mut self, entry: &ParkedEntry) -> Result<(), Illegal> {
        match &self.state {
            State::InDoubt(doubt) if doubt.attempt == entry.attempt.attempt => {
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

    pub(super) fn apply_resolution(
        &mut self,
        entry: &ResolvedEntry,
        at: Moment,
    ) -> Result<(), Illegal> {
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

    pub(super) fn apply_verification(&mut self, entry: &VerifiedEntry) -> Result<(), Illegal> {
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
    pub(super) fn may_run_again(&self) -> bool {
        self.intent.as_ref().is_some_and(|intent| {
            matches!(
                intent.class,
                RecoveryClass::ReadOnly | RecoveryClass::Idempotent { .. }
            )
        })
    }
}
