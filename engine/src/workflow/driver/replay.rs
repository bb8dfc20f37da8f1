//! Beginning a run: what is known goes on the board, the recorded trace is walked, and what an
//! earlier opening left unfinished is taken up.
//!
//! Invariant: replay writes nothing, and the first difference halts the run before any effect.

use super::Scope;
use crate::action::doubt::Surroundings;
use crate::action::life::{Event, Next};
use crate::engine::Shared;
use crate::engine::status::Halt;
use crate::kernel::{Commit, panic_text};
use crate::run::state::RunState;
use crate::run::trace::Trace;
use crate::workflow::board::Known;
use intendant_journal::format::entry::{
    AttemptRef, Body, Entry, Outcome, OutcomeEntry, Recorded, Sequence,
};
use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::{Begin, Driver, Stopped, cancel_words};

impl Driver {
    /// The state to begin with. A new pass's start is staged, and rides in the first batch.
    pub(super) fn begin(
        shared: &Arc<Shared>,
        run: &Arc<str>,
        begin: Begin,
    ) -> Result<(RunState, Commit), Stopped> {
        let (known, pass) = match begin {
            Begin::Resume(state) => return Ok((*state, Commit::default())),
            Begin::Pass { known, pass } => (known, pass),
        };
        let at = shared.clock.now();
        let body = Body::PassStarted(*pass);
        let entry = Entry {
            at,
            run: Some(run.to_string()),
            body,
        };
        let mut commit = Commit::default();
        commit.fact(entry.clone());
        // Its sequence is known once it is durable.
        let recorded = Recorded {
            sequence: Sequence(0),
            epoch: shared.log.epoch(),
            entry,
        };
        let begun = match known {
            None => RunState::begin(run, &recorded),
            Some(mut state) => state.apply(&recorded).map(|()| *state),
        };
        let state = begun.map_err(|misfit| Stopped::Halt(Halt::Broken(misfit.to_string())))?;
        Ok((state, commit))
    }

    /// Prepares the board with what is known, and makes the workflow's future.
    pub(super) fn set_up(&mut self) -> Result<(), Stopped> {
        let registered = self
            .shared
            .workflows
            .get(&self.state.pass.workflow)
            .cloned();
        let Some(registered) = registered else {
            return Err(Stopped::Halt(Halt::NoWorkflow(
                self.state.pass.workflow.clone(),
            )));
        };
        let input = self.text_of(&self.state.pass.input)?;
        let mut known = HashMap::new();
        for action in self.state.actions.iter().filter(|action| action.current) {
            if action.pass < self.state.pass.pass {
                let result = match action.life.settled() {
                    Some(settled) if action.known_at_start => Some(self.result_of(settled)?),
                    _ => None,
                };
                let (tool, digest) = (action.proposal.tool.clone(), action.proposal.digest);
                known.insert(
                    action.of.path.clone(),
                    Known {
                        tool,
                        digest,
                        result,
                    },
                );
            }
        }
        let arrived: HashSet<usize> = self
            .state
            .trace
            .iter()
            .filter_map(|trace| match trace {
                Trace::SignalArrived { index } => Some(*index),
                _ => None,
            })
            .collect();
        let mut kept = Vec::new();
        for (index, signal) in self.state.signals.iter().enumerate() {
            let taken_now = self
                .state
                .waits
                .values()
                .any(|wait| wait.took == Some(index));
            if !arrived.contains(&index) && (signal.taken_by.is_none() || taken_now) {
                kept.push((signal.name.clone(), self.text_of(&signal.payload)?));
            }
        }
        let mut inner = self.board.lock();
        inner.known = known;
        inner.resting = self
            .state
            .actions
            .iter()
            .filter(|action| action.current && action.rested_at_start)
            .map(|action| action.of.path.clone())
            .collect();
        inner.notes = self.state.notes.clone();
        inner.recorded = self
            .state
            .actions
            .iter()
            .filter(|action| action.current && action.pass == self.state.pass.pass)
            .map(|action| action.of.path.clone())
            .collect();
        for (name, payload) in kept {
            inner.keep_signal(&name, payload);
        }
        drop(inner);
        let root = Scope::root(self.board.clone(), self.run.clone());
        match catch_unwind(AssertUnwindSafe(|| (registered.start)(root, &input))) {
            Ok(Ok(future)) => self.future = Some(future),
            Ok(Err(error)) => self.returned = Some(Err(error)),
            Err(panic) => return Err(Stopped::Halt(Halt::Panicked(panic_text(panic)))),
        }
        Ok(())
    }

    /// Walks the recorded trace: the workflow must command what it commanded, in that order.
    pub(super) fn replay(&mut self) -> Result<(), Stopped> {
        let trace = self.state.take_trace();
        self.poll()?;
        for (position, step) in trace.into_iter().enumerate() {
            match step {
                Trace::Command(recorded) => {
                    let issued = self
                        .board
                        .lock()
                        .issued
                        .pop_front()
                        .map(|issued| issued.command);
                    if issued.as_ref() != Some(&recorded) {
                        let issued =
                            issued.map_or("nothing".to_owned(), |issued| issued.to_string());
                        let halt = Halt::Diverged {
                            position,
                            recorded: recorded.to_string(),
                            issued,
                        };
                        return Err(Stopped::Halt(halt));
                    }
                }
                Trace::CallSettled(path) => {
                    let result = self.settled_result(&path)?;
                    self.board.deliver(&path, result);
                    self.poll()?;
                }
                Trace::CallRests { path, rests } => {
                    self.board.rest(&path, rests);
                    self.poll()?;
                }
                Trace::TimerFired(path) => {
                    self.board.deliver(&path, Ok("null".into()));
                    self.poll()?;
                }
                Trace::SignalArrived { index } => {
                    let signal = self.state.signals[index].clone();
                    let payload = self.text_of(&signal.payload)?;
                    self.board.signal_arrived(&signal.name, payload);
                    self.poll()?;
                }
                Trace::Cancelled => {
                    let note = self.state.cancelled.clone();
                    self.board.cancel(&cancel_words(note.as_ref()));
                    self.poll()?;
                }
            }
        }
        Ok(())
    }

    /// Takes up what an earlier opening left unfinished. Nothing of it starts before the first
    /// flush after this.
    pub(super) fn take_up(&mut self) -> Result<(), Stopped> {
        let around = self.around(None);
        let unsettled: Vec<_> = self
            .state
            .unsettled()
            .map(|action| {
                (
                    action.of.clone(),
                    action.proposal.tool.clone(),
                    action.life.clone(),
                )
            })
            .collect();
        for (of, tool, life) in unsettled {
            let around = Surroundings {
                reconciler: self.ask_rule(&tool),
                ..around
            };
            let next = life.next(&around);
            if let Next::Run { attempt } = next {
                let attempt = AttemptRef {
                    action: of.clone(),
                    attempt,
                };
                let why = "the engine stopped while the attempt ran".to_owned();
                let outcome = Outcome::Interrupted { why };
                let entry = OutcomeEntry {
                    attempt,
                    outcome,
                    log: None,
                };
                self.step(&of, Event::Replied(entry))?;
            } else {
                self.todo.push((of, next));
            }
        }
        let timers: Vec<_> = self
            .state
            .timers
            .iter()
            .filter(|(_, timer)| !timer.fired)
            .map(|(path, timer)| (path.clone(), timer.due_wall_ms))
            .collect();
        for (path, due) in timers {
            self.arm_timer(path, due);
        }
        if let Some(note) = self.cancelled.clone() {
            self.refuse_what_waits(&note)?;
        }
        self.run_todo();
        Ok(())
    }
}
