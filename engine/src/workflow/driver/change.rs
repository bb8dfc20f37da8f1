//! What operators ask of a live run.

use crate::action::id::action_id;
use crate::action::life::{Event, State};
use crate::operator::command::{Done, Refusal, Request};
use crate::operator::plan::{self, Plan};
use intendant_journal::format::entry::{ApprovalEntry, AttemptRef, Body, OperatorNote};
use tokio::sync::oneshot;

use super::{Driver, Stopped, cancel_words};

impl Driver {
    pub(super) fn change(
        &mut self,
        request: &Request,
        reply: oneshot::Sender<Result<Done, Refusal>>,
    ) -> Result<(), Stopped> {
        let kernel = self.shared.kernel.clone();
        let check = |tool: &str, output: &serde_json::Value| match kernel.declared(tool) {
            Some(registered) => registered.check_output(output),
            None => Ok(()),
        };
        let planned = match plan::plan(&self.state, request, &check) {
            Ok(Plan::Record(planned)) => {
                match crate::payload::keep_large(self.shared.log.as_ref(), planned.fact.clone()) {
                    Ok(fact) => plan::Planned { fact, ..*planned },
                    Err(why) => {
                        let remedy = "send the same request again once there is space".to_owned();
                        let (code, message) = ("storage".to_owned(), why.to_string());
                        let _ = reply.send(Err(Refusal {
                            code,
                            message,
                            remedy,
                        }));
                        return Ok(());
                    }
                }
            }
            Ok(Plan::Replayed(answered)) => {
                let message = format!("answered before ({}); nothing changed", answered.what);
                let done = Done {
                    message,
                    sequence: answered.sequence.0,
                    replayed: true,
                    warnings: Vec::new(),
                };
                let _ = reply.send(Ok(done));
                return Ok(());
            }
            Err(refusal) => {
                let _ = reply.send(Err(refusal));
                return Ok(());
            }
        };
        let index = self.commit.entries().len();
        let of =
            crate::action::life::attempt_of(&planned.fact).map(|attempt| attempt.action.clone());
        match planned.fact {
            Body::Approval(entry) => {
                self.step(&entry.attempt.action.clone(), Event::Approval(entry))?
            }
            Body::Resolved(entry) => {
                self.step(&entry.attempt.action.clone(), Event::Resolved(entry))?
            }
            Body::CancelRequested(note) => {
                self.stage(Body::CancelRequested(note.clone()))?;
                self.refuse_what_waits(&note)?;
            }
            fact => self.stage(fact)?,
        }
        if let Some(of) = of {
            // A question that is out or due is no longer needed; its answer is evidence at most.
            self.active.retain(|active| active.action != of);
            self.due_questions.retain(|due, _| due.action != of);
        }
        let done = Done {
            message: planned.message,
            sequence: 0,
            replayed: false,
            warnings: planned.warnings,
        };
        self.answers.push((reply, index, done));
        Ok(())
    }

    /// A run that is asked to end needs no approvals any more.
    pub(super) fn refuse_what_waits(&mut self, note: &OperatorNote) -> Result<(), Stopped> {
        let waiting: Vec<_> = self
            .state
            .actions
            .iter()
            .filter(|action| matches!(action.life.state(), State::AwaitingApproval { .. }))
            .map(|action| AttemptRef {
                action: action.of.clone(),
                attempt: action.life.attempt(),
            })
            .collect();
        for (index, attempt) in waiting.into_iter().enumerate() {
            let of = attempt.action.clone();
            let note = OperatorNote {
                who: note.who.clone(),
                reason: cancel_words(Some(note)),
                request: format!("{}/{index}", note.request),
            };
            self.step(
                &of,
                Event::Approval(ApprovalEntry {
                    attempt,
                    approved: false,
                    note,
                }),
            )?;
        }
        Ok(())
    }

    /// Brings the next question forward to now.
    pub(super) fn ask_now(&mut self, attempt: &AttemptRef) -> Result<String, Refusal> {
        let refuse = |code: &str, message: String, remedy: &str| {
            Err(Refusal {
                code: code.into(),
                message,
                remedy: remedy.into(),
            })
        };
        let name = format!(
            "{}#{}",
            action_id(&self.run, &attempt.action),
            attempt.attempt
        );
        let Some(action) = self.state.action_of(&attempt.action) else {
            return refuse(
                "not_found",
                format!("no action is called {name}"),
                "see `intendant pending`",
            );
        };
        let state = action.life.state();
        let current = matches!(state, State::InDoubt(doubt) if doubt.attempt == attempt.attempt)
            || matches!(state, State::Parked { attempt: parked, .. } if *parked == attempt.attempt);
        if !current {
            let message = format!("{name} is not in doubt: it is {}", action.life.state_name());
            return refuse(
                "not_in_doubt",
                message,
                "only an attempt in doubt can be reconciled",
            );
        }
        if matches!(state, State::Parked { .. }) {
            let message =
                format!("{name} is parked: its reconciler has been asked as often as it may");
            return refuse("parked", message, "settle it with `intendant resolve`");
        }
        if self.ask_rule(&action.proposal.tool).is_none() {
            let message = format!("{:?} has no reconciler", action.proposal.tool);
            return refuse(
                "no_reconciler",
                message,
                "settle it with `intendant resolve`",
            );
        }
        if self.asking.contains(attempt) {
            let message = format!("{name} is being asked about already");
            return refuse(
                "already_asking",
                message,
                "wait for the answer; see `intendant show`",
            );
        }
        // In place of the question that is due later.
        self.wait_to_ask(&attempt.action, attempt.attempt, i64::MIN);
        Ok(format!("{name} is being asked about"))
    }
}
