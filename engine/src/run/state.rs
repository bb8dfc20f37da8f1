//! The state of one run, folded from its entries.
//!
//! Invariants:
//! - The fold is pure: the same entries give the same state, in the live engine, in a stopped
//!   journal's scan and after a restart.
//! - Identity is by place: a path names at most one action, the latest generation of it.
//! - A request id that was answered once is known for ever (resends are harmless).

use std::collections::{BTreeMap, HashMap};

use intendant_journal::format::entry::{
    ActionRef, AttemptRef, Body, Digest, End, Moment, OperatorNote, PassStarted, Payload, Proposal,
    Recorded, Resolution, ScopePath, Sequence,
};

use super::trace::{Command, Trace};
use crate::action::life::{Life, attempt_of};

/// One run.
#[derive(Clone, Debug)]
pub struct RunState {
    /// Its id.
    pub run: String,
    /// The start of the current pass.
    pub pass: PassStarted,
    /// How the current pass ended, if it did.
    pub end: Option<End>,
    /// All actions, in the order they were first proposed.
    pub actions: Vec<Action>,
    /// Timers of the current pass by place.
    pub timers: BTreeMap<ScopePath, Timer>,
    /// All signals, in the order they arrived.
    pub signals: Vec<Signal>,
    /// Waits of the current pass for signals by place.
    pub waits: BTreeMap<ScopePath, Wait>,
    /// Local values of the current pass by place.
    pub notes: HashMap<ScopePath, String>,
    /// Who asked the current pass to end.
    pub cancelled: Option<OperatorNote>,
    /// Incidents nobody has acknowledged.
    pub incidents: BTreeMap<Sequence, Incident>,
    /// Requests of people and programs that were answered: request id to the entry recording it.
    pub requests: HashMap<String, Answered>,
    /// What the current pass's workflow commanded and was given.
    pub trace: Vec<Trace>,
    /// When the first and the last entry were written.
    pub first_at: Moment,
    /// When the last entry was written.
    pub last_at: Moment,
    /// Sequence of the last entry.
    pub last: Sequence,
    index: HashMap<ScopePath, usize>,
    /// Generation at which the next action at a place begins, where a retry raised it.
    renewed: HashMap<ScopePath, u32>,
    /// A retry was asked for since the current pass began.
    retry_asked: bool,
    keep_trace: bool,
}

/// An action in a run.
#[derive(Clone, Debug)]
pub struct Action {
    /// Its place and generation.
    pub of: ActionRef,
    /// The frozen proposal.
    pub proposal: Proposal,
    /// Where it stands.
    pub life: Life,
    /// When it was proposed.
    pub proposed_at: Moment,
    /// When its state last changed.
    pub since: Moment,
    /// The epoch of its latest intent's entry.
    pub intended_in: intendant_journal::format::entry::Epoch,
    /// The pass that proposed it.
    pub pass: u32,
    /// True if it had settled before the current pass began.
    pub known_at_start: bool,
    /// True if only a person could move it when the current pass began.
    pub(crate) rested_at_start: bool,
    /// Sequence at which it settled, once it has.
    pub settled_at: Option<Sequence>,
    /// True while it is the current action at its place (a retry may have made a newer one).
    pub current: bool,
}

/// A request that was answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answered {
    /// The entry that records it.
    pub sequence: Sequence,
    /// What was asked for, in words that are the same for the same request.
    pub what: String,
}

/// A timer.
#[derive(Clone, Debug)]
pub struct Timer {
    /// When it is due.
    pub due_wall_ms: i64,
    /// When it was set.
    pub set_at: Moment,
    /// True once it has woken its workflow.
    pub fired: bool,
}

/// A signal that arrived.
#[derive(Clone, Debug)]
pub struct Signal {
    /// Its name.
    pub name: String,
    /// What it carries.
    pub payload: Payload,
    /// The wait that took it.
    pub taken_by: Option<ScopePath>,
}

/// A wait for a signal.
#[derive(Clone, Debug)]
pub struct Wait {
    /// The name waited for.
    pub name: String,
    /// Since when.
    pub since: Moment,
    /// Its entry: waits are served in this order.
    pub sequence: Sequence,
    /// Index of the signal it took.
    pub took: Option<usize>,
}

/// Something that should not have happened.
#[derive(Clone, Debug)]
pub struct Incident {
    /// What.
    pub what: String,
    /// When it was recorded.
    pub at: Moment,
    /// The attempt concerned.
    pub attempt: Option<intendant_journal::format::entry::AttemptRef>,
}

/// An entry that cannot follow the ones before it: written by other rules, or not of this run.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "run {run}: entry {sequence} cannot follow what was recorded before it: {why}; the journal was written by another program, or this one is wrong: keep the folder and report it"
)]
pub struct Misfit {
    /// The run.
    pub run: String,
    /// The entry.
    pub sequence: Sequence,
    /// Why it does not fit.
    pub why: String,
}

impl RunState {
    /// Folds a whole history. `None` for an empty one.
    ///
    /// # Errors
    /// [`Misfit`] at the first entry that does not fit.
    pub fn fold(run: &str, history: &[Recorded]) -> Result<Option<Self>, Misfit> {
        let Some((first, rest)) = history.split_first() else {
            return Ok(None);
        };
        let mut state = Self::begin(run, first)?;
        for recorded in rest {
            state.apply(recorded)?;
        }
        Ok(Some(state))
    }

    /// The state after a run's first entry, which starts its first pass.
    ///
    /// # Errors
    /// [`Misfit`] if it does not.
    pub fn begin(run: &str, first: &Recorded) -> Result<Self, Misfit> {
        let Body::PassStarted(pass) = &first.entry.body else {
            let why = "a run begins with the start of a pass".to_owned();
            return Err(Misfit {
                run: run.to_owned(),
                sequence: first.sequence,
                why,
            });
        };
        Ok(Self {
            run: run.to_owned(),
            pass: pass.clone(),
            end: None,
            actions: Vec::new(),
            timers: BTreeMap::new(),
            signals: Vec::new(),
            waits: BTreeMap::new(),
            notes: HashMap::new(),
            cancelled: None,
            incidents: BTreeMap::new(),
            requests: HashMap::new(),
            trace: Vec::new(),
            first_at: first.entry.at,
            last_at: first.entry.at,
            last: first.sequence,
            index: HashMap::new(),
            renewed: HashMap::new(),
            retry_asked: false,
            keep_trace: true,
        })
    }

    /// Takes the trace for replay and stops keeping one: a live run has been past it.
    pub(crate) fn take_trace(&mut self) -> Vec<Trace> {
        self.keep_trace = false;
        std::mem::take(&mut self.trace)
    }

    /// The current action at a place.
    pub fn action(&self, path: &ScopePath) -> Option<&Action> {
        self.index.get(path).map(|at| &self.actions[*at])
    }

    /// The action that a reference names, whether current or renewed since.
    pub fn action_of(&self, of: &ActionRef) -> Option<&Action> {
        match self.action(&of.path) {
            Some(action) if action.of == *of => Some(action),
            _ => self.actions.iter().find(|action| action.of == *of),
        }
    }

    /// What names the action that a call at this place would be, if none is there.
    pub fn fresh_ref(&self, path: &ScopePath) -> ActionRef {
        ActionRef {
            path: path.clone(),
            generation: self.renewed.get(path).copied().unwrap_or(1),
        }
    }

    /// True if a retry was asked for that no pass has taken up yet: a new pass makes new actions.
    pub fn has_renewed(&self) -> bool {
        self.retry_asked
    }

    /// Actions that have not settled.
    pub fn unsettled(&self) -> impl Iterator<Item = &Action> {
        self.actions
            .iter()
            .filter(|action| action.life.settled().is_none())
    }

    /// Folds one more entry.
    ///
    /// # Errors
    /// [`Misfit`] if it cannot follow; the state is then not to be used any further.
    pub fn apply(&mut self, recorded: &Recorded) -> Result<(), Misfit> {
        let sequence = recorded.sequence;
        let at = recorded.entry.at;
        self.last = sequence;
        self.last_at = at;
        let run = self.run.clone();
        let misfit = move |why: String| Misfit {
            run: run.clone(),
            sequence,
            why,
        };
        match &recorded.entry.body {
            Body::PassStarted(pass) => {
                if self.end.is_none() && pass.version <= self.pass.version {
                    return Err(misfit(
                        "a pass started before the one before it ended".into(),
                    ));
                }
                if pass.pass != self.pass.pass + 1 {
                    return Err(misfit(format!(
                        "pass {} after pass {}",
                        pass.pass, self.pass.pass
                    )));
                }
                self.begin_pass(pass);
            }
            Body::PassEnded(ended) => {
                if ended.pass != self.pass.pass || self.end.is_some() {
                    return Err(misfit(format!(
                        "pass {} ended twice or is another",
                        ended.pass
                    )));
                }
                self.end = Some(ended.end.clone());
            }
            Body::TimerSet(timer) => {
                let set = Timer {
                    due_wall_ms: timer.due_wall_ms,
                    set_at: at,
                    fired: false,
                };
                if self.timers.insert(timer.path.clone(), set).is_some() {
                    return Err(misfit(format!("a second timer at {}", timer.path)));
                }
                self.push_trace(Trace::Command(Command::Timer {
                    path: timer.path.clone(),
                }));
            }
            Body::TimerFired(path) => {
                match self.timers.get_mut(path) {
                    Some(timer) if !timer.fired => timer.fired = true,
                    _ => return Err(misfit(format!("no timer waits at {path}"))),
                }
                self.push_trace(Trace::TimerFired(path.clone()));
            }
            Body::SignalAwaited(wait) => {
                let name = wait.name.clone();
                self.push_trace(Trace::Command(Command::Signal {
                    path: wait.path.clone(),
                    name,
                }));
                let took = self
                    .signals
                    .iter()
                    .position(|s| s.name == wait.name && s.taken_by.is_none());
                if let Some(index) = took {
                    self.signals[index].taken_by = Some(wait.path.clone());
                }
                let waiting = Wait {
                    name: wait.name.clone(),
                    since: at,
                    sequence,
                    took,
                };
                if self.waits.insert(wait.path.clone(), waiting).is_some() {
                    return Err(misfit(format!("a second wait at {}", wait.path)));
                }
            }
            Body::SignalReceived(signal) => {
                let what = format!("signal {}", signal.name);
                self.answered(&signal.note, sequence, what);
                let index = self.signals.len();
                let taker = self.earliest_wait(&signal.name);
                if let Some(path) = &taker {
                    let wait = self.waits.get_mut(path).expect("the wait was just found");
                    wait.took = Some(index);
                }
                let (name, payload) = (signal.name.clone(), signal.payload.clone());
                self.signals.push(Signal {
                    name,
                    payload,
                    taken_by: taker,
                });
                self.push_trace(Trace::SignalArrived { index });
            }
            Body::Noted(note) => {
                self.notes.insert(note.path.clone(), note.value.clone());
                let (path, what) = (note.path.clone(), note.what.clone());
                self.push_trace(Trace::Command(Command::Note { path, what }));
            }
            Body::CancelRequested(note) => {
                self.answered(note, sequence, "cancel".to_owned());
                if self.cancelled.is_none() {
                    self.cancelled = Some(note.clone());
                    self.push_trace(Trace::Cancelled);
                }
            }
            Body::RetryRequested(retry) => {
                self.retry_asked = true;
                self.answered(&retry.note, sequence, "retry".to_owned());
                for of in &retry.actions {
                    let at = self
                        .index
                        .get(&of.path)
                        .copied()
                        .filter(|at| self.actions[*at].of == *of);
                    let Some(at) = at else {
                        return Err(misfit(format!(
                            "{} is not the current action there",
                            of.path
                        )));
                    };
                    self.actions[at].current = false;
                    self.index.remove(&of.path);
                    self.renewed.insert(of.path.clone(), of.generation + 1);
                }
            }
            Body::IncidentAcknowledged(seen) => {
                let what = format!("acknowledge {}", seen.sequence);
                self.answered(&seen.note, sequence, what);
                self.incidents.remove(&seen.sequence);
            }
            body => self.apply_to_action(body, recorded)?,
        }
        Ok(())
    }

    fn begin_pass(&mut self, pass: &PassStarted) {
        self.pass = pass.clone();
        self.end = None;
        self.timers.clear();
        self.waits.clear();
        self.notes.clear();
        self.cancelled = None;
        self.retry_asked = false;
        self.trace.clear();
        for action in &mut self.actions {
            action.known_at_start = action.life.settled().is_some();
            action.rested_at_start = action.life.rests();
        }
    }

    /// The wait that has waited longest for a signal of this name.
    fn earliest_wait(&self, name: &str) -> Option<ScopePath> {
        if self.cancelled.is_some() {
            // Its waits have ended; the signal is for the next pass.
            return None;
        }
        self.waits
            .iter()
            .filter(|(_, wait)| wait.name == name && wait.took.is_none())
            .min_by_key(|(_, wait)| wait.sequence)
            .map(|(path, _)| path.clone())
    }

    fn apply_to_action(&mut self, body: &Body, recorded: &Recorded) -> Result<(), Misfit> {
        let sequence = recorded.sequence;
        let at = recorded.entry.at;
        let misfit = |why: String| Misfit {
            run: self.run.clone(),
            sequence,
            why,
        };
        let Some(attempt) = attempt_of(body) else {
            return match body {
                Body::Incident(incident) => {
                    let what = incident.what.clone();
                    self.incidents.insert(
                        sequence,
                        Incident {
                            what,
                            at,
                            attempt: None,
                        },
                    );
                    Ok(())
                }
                _ => Err(misfit("an entry about the journal, not about a run".into())),
            };
        };
        let of = &attempt.action;
        if let Body::Action(entry) = body
            && let Some(proposal) = &entry.proposal
        {
            if self.index.contains_key(&of.path) || *of != self.fresh_ref(&of.path) {
                return Err(misfit(format!("a second action at {}", of.path)));
            }
            self.index.insert(of.path.clone(), self.actions.len());
            self.actions.push(Action {
                of: of.clone(),
                proposal: proposal.clone(),
                life: Life::new(),
                proposed_at: at,
                since: at,
                intended_in: recorded.epoch,
                pass: self.pass.pass,
                known_at_start: false,
                rested_at_start: false,
                settled_at: None,
                current: true,
            });
            let command = Command::Call {
                path: of.path.clone(),
                tool: proposal.tool.clone(),
                digest: proposal.digest,
            };
            self.push_trace(Trace::Command(command));
        }
        match body {
            Body::Approval(entry) => {
                let word = if entry.approved { "approve" } else { "deny" };
                let what = format!("{word} {}", words_of(&entry.attempt));
                self.answered(&entry.note, sequence, what);
            }
            Body::Resolved(entry) => {
                let word = match entry.resolution {
                    Resolution::Executed(_) => "executed",
                    Resolution::NeverRan => "never-ran",
                    Resolution::GaveUp => "give-up",
                };
                let what = format!("resolve {word} {}", words_of(&entry.attempt));
                self.answered(&entry.note, sequence, what);
            }
            Body::Incident(entry) => {
                let (what, attempt) = (entry.what.clone(), entry.attempt.clone());
                self.incidents
                    .insert(sequence, Incident { what, at, attempt });
            }
            _ => {}
        }
        let run = &self.run;
        let position = match self.index.get(&of.path) {
            Some(position) if self.actions[*position].of == *of => Some(*position),
            _ => self.actions.iter().position(|action| action.of == *of),
        };
        let Some(position) = position else {
            let why = format!(
                "no action is known at {} (generation {})",
                of.path, of.generation
            );
            return Err(Misfit {
                run: run.clone(),
                sequence,
                why,
            });
        };
        let action = &mut self.actions[position];
        let was_settled = action.life.settled().is_some();
        let rested = action.life.rests();
        let before = action.life.state_name();
        action.life = action
            .life
            .apply(body, at, recorded.epoch)
            .map_err(|illegal| Misfit {
                run: run.clone(),
                sequence,
                why: illegal.to_string(),
            })?;
        if action.life.state_name() != before {
            action.since = at;
        }
        if matches!(body, Body::Action(entry) if entry.intent.is_some()) {
            action.intended_in = recorded.epoch;
        }
        if !was_settled && action.life.settled().is_some() {
            action.settled_at = Some(sequence);
            self.push_trace(Trace::CallSettled(of.path.clone()));
        } else if action.life.rests() != rested {
            let rests = !rested;
            let path = of.path.clone();
            self.push_trace(Trace::CallRests { path, rests });
        }
        Ok(())
    }

    fn answered(&mut self, note: &OperatorNote, sequence: Sequence, what: String) {
        self.requests
            .insert(note.request.clone(), Answered { sequence, what });
    }

    fn push_trace(&mut self, trace: Trace) {
        if self.keep_trace {
            self.trace.push(trace);
        }
    }

    /// Digest of the current pass's input.
    pub fn input_digest(&self) -> Digest {
        self.pass.input_digest
    }
}

/// An attempt within its run, in words.
pub(crate) fn words_of(attempt: &AttemptRef) -> String {
    format!(
        "{}~{}#{}",
        attempt.action.path, attempt.action.generation, attempt.attempt
    )
}
