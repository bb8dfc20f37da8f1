//! The driver of one run: it alone writes the run's entries, polls its workflow, and delivers.
//!
//! Invariants:
//! - One driver a run; everything from outside comes through its mailbox, so the order in memory is
//!   the order in the log.
//! - An effect starts only from an [`Armed`] that a durable commit gave back.
//! - Outcomes ride in the same batch as the next intent of their run; an outcome after which the
//!   workflow commands nothing is written at once, alone. A run that was interrupted writes its
//!   outcomes before it is polled again, until it has got past that point.
//! - Replay writes nothing, and the first difference halts the run before any effect.

mod change;
mod record;
mod replay;
mod stage;
mod work;

use std::collections::{HashMap, HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use intendant_journal::error::AppendError;
use intendant_journal::format::entry::{
    ActionRef, AttemptRef, Body, End, OperatorNote, Outcome, OutcomeEntry, PassEnded, PassStarted,
    Proposal, ScopePath,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::board::Board;
use super::{RunFuture, Scope, question};
use crate::action::doubt::{AskRule, Surroundings};
use crate::action::life::{Event, Life, Next, State};
use crate::engine::Shared;
use crate::engine::status::{Halt, RunEnd, RunStatus};
use crate::kernel::{Commit, Exit, panic_text};
use crate::operator::command::{Done, Refusal, Request};
use crate::run::state::RunState;
use crate::tool::reconciler::JsonAnswer;

/// The deadline that a wait for a dead sender is told; the wait itself has none.
const SENDER_GONE_MAX: Duration = Duration::from_secs(3_600);

/// A batch holds at most this many payloads of the inline limit, so that it fits in a segment.
const BATCH_INLINE_PAYLOADS: usize = 4;

/// What comes to a driver from outside.
pub(crate) enum Mail {
    /// A tool's call ended.
    Replied(AttemptRef, Exit),
    /// Another attempt is due.
    Due(AttemptRef),
    /// Nothing of the attempt in doubt can act any more: its reconciler can be asked. The number is
    /// that of the wait; an older one is void.
    AskDue(AttemptRef, u64),
    /// The reconciler answered.
    Answered(AttemptRef, JsonAnswer),
    /// A timer came due.
    TimerDue(ScopePath),
    /// Somebody asks for a change.
    Change(Request, oneshot::Sender<Result<Done, Refusal>>),
    /// An operator wants the reconciler asked now.
    AskNow(AttemptRef, oneshot::Sender<Result<String, Refusal>>),
    /// Somebody wants to look at the durable state.
    Look(Box<dyn FnOnce(&RunState) + Send>),
    /// The journal is disabled: nothing more can be recorded, so nothing more is begun.
    JournalGone,
    /// Start nothing new; end when nothing runs any more.
    Stop,
    /// Record what still runs as interrupted and end.
    Cut,
}

/// Where the answer to a change goes.
type Reply = oneshot::Sender<Result<Done, Refusal>>;

/// How a driver begins.
pub(crate) enum Begin {
    /// A new run, or a new pass of a known one.
    Pass {
        known: Option<Box<RunState>>,
        pass: Box<PassStarted>,
    },
    /// A run that an earlier opening left open.
    Resume(Box<RunState>),
}

/// Why a driver ends early.
enum Stopped {
    /// The run cannot go on in this process; nothing of that is recorded.
    Halt(Halt),
    /// The journal takes nothing more.
    Journal(AppendError),
}

/// Something to be delivered to the workflow, in the order of the entries that caused it.
enum Delivery {
    Call(ScopePath),
    Rests { path: ScopePath, rests: bool },
    Timer(ScopePath),
    Signal(String, Arc<str>),
    Cancel(String),
}

/// An action as it will be once the staged entries are durable.
struct Staged {
    of: ActionRef,
    proposal: Proposal,
    life: Life,
}

pub(crate) struct Driver {
    shared: Arc<Shared>,
    run: Arc<str>,
    state: RunState,
    board: Arc<Board>,
    future: Option<RunFuture>,
    returned: Option<Result<String, String>>,
    mailbox: mpsc::UnboundedReceiver<Mail>,
    post: mpsc::UnboundedSender<Mail>,
    commit: Commit,
    staged: HashMap<ScopePath, Staged>,
    deliveries: VecDeque<Delivery>,
    /// What is to be done once the staged entries are durable.
    todo: Vec<(ActionRef, Next)>,
    /// Who waits for the answer to a change, the place of its fact in the flush, and the answer.
    answers: Vec<(Reply, usize, Done)>,
    /// Attempts for which a task of ours is at work: calling, waiting, asking.
    active: HashSet<AttemptRef>,
    /// Attempts about which a question is out.
    asking: HashSet<AttemptRef>,
    /// Waits for questions, numbered; of each attempt only the latest counts.
    questions: u64,
    due_questions: HashMap<AttemptRef, u64>,
    /// Who asked the run to end, as soon as that is staged.
    cancelled: Option<OperatorNote>,
    tasks: JoinSet<()>,
    timers: HashSet<ScopePath>,
    cautious: bool,
    stopping: bool,
    /// The start of the pass is in the state and still has to be made durable: it rides in the
    /// first batch.
    starting: bool,
}

impl Driver {
    /// Drives a run to its end, its halt, or the engine's stop.
    pub(crate) async fn drive(
        shared: Arc<Shared>,
        run: Arc<str>,
        begin: Begin,
        mailbox: mpsc::UnboundedReceiver<Mail>,
        post: mpsc::UnboundedSender<Mail>,
    ) -> RunStatus {
        let (state, commit) = match Self::begin(&shared, &run, begin) {
            Ok(begun) => begun,
            Err(stopped) => return stopped.status(),
        };
        let cancelled = state.cancelled.clone();
        let board = Board::new(shared.kernel.clone(), shared.clock.clone());
        let mut driver = Self {
            shared,
            run,
            state,
            board,
            future: None,
            returned: None,
            mailbox,
            post,
            cautious: commit.is_empty(),
            starting: !commit.is_empty(),
            commit,
            staged: HashMap::new(),
            deliveries: VecDeque::new(),
            todo: Vec::new(),
            answers: Vec::new(),
            active: HashSet::new(),
            asking: HashSet::new(),
            questions: 0,
            due_questions: HashMap::new(),
            cancelled,
            tasks: JoinSet::new(),
            timers: HashSet::new(),
            stopping: false,
        };
        match driver.live().await {
            Ok(status) => status,
            Err(stopped) => {
                driver.wind_down().await;
                stopped.status()
            }
        }
    }

    /// After a halt: the workflow is not polled any more, but what is known of its actions is still
    /// recorded, and calls that are on their way get to answer. Without a journal there is nothing
    /// to record to.
    async fn wind_down(&mut self) {
        self.stopping = true;
        self.future = None;
        self.deliveries.clear();
        while self.shared.log.disabled().is_none() {
            if self.flush().await.is_err() {
                return;
            }
            self.keep_running_only();
            if self.active.is_empty() {
                return;
            }
            let Some(mail) = self.mailbox.recv().await else {
                return;
            };
            if !matches!(self.receive(mail).await, Ok(None)) {
                return;
            }
        }
    }

    /// Forgets attempts that merely wait for their time.
    fn keep_running_only(&mut self) {
        let state = &self.state;
        self.active.retain(|attempt| {
            matches!(state.action_of(&attempt.action).map(|action| action.life.state()),
                Some(State::Running { attempt: running }) if *running == attempt.attempt)
        });
    }

    async fn live(&mut self) -> Result<RunStatus, Stopped> {
        self.set_up()?;
        self.replay()?;
        self.take_up()?;
        loop {
            self.pump()?;
            // The end rides in the same batch as the last outcome.
            let end = self.ended()?;
            if let Some(end) = &end {
                let (pass, end) = (self.state.pass.pass, end.clone());
                self.stage(Body::PassEnded(PassEnded { pass, end }))?;
            }
            self.flush().await?;
            if let Some(end) = end {
                return Ok(RunStatus::Ended(RunEnd::of(&end)));
            }
            if !self.deliveries.is_empty() || !self.commit.is_empty() {
                continue;
            }
            if self.stopping && self.active.is_empty() {
                return Ok(RunStatus::Stopped);
            }
            let waits_for_person = self.waits_for_person();
            self.shared.publish(
                &self.run,
                if waits_for_person {
                    RunStatus::NeedsPerson
                } else {
                    RunStatus::Running
                },
            );
            let Some(mail) = self.mailbox.recv().await else {
                return Ok(RunStatus::Stopped);
            };
            if let Some(status) = self.receive(mail).await? {
                return Ok(status);
            }
            while let Ok(mail) = self.mailbox.try_recv() {
                if let Some(status) = self.receive(mail).await? {
                    return Ok(status);
                }
            }
            if self.cautious {
                // A poll that kills the process must not take the outcome with it.
                self.flush().await?;
            }
        }
    }

    /// Processes what the workflow issued and what is to be delivered, until both are quiet.
    fn pump(&mut self) -> Result<(), Stopped> {
        loop {
            let issued = if self.stopping {
                None
            } else {
                self.board.lock().issued.pop_front()
            };
            if let Some(issued) = issued {
                self.carry_out(issued.command, issued.what)?;
                continue;
            }
            let Some(delivery) = self.deliveries.pop_front() else {
                return Ok(());
            };
            if self.stopping {
                // Recorded already; replay will deliver it.
                continue;
            }
            match delivery {
                Delivery::Call(path) => {
                    let result = self.settled_result(&path)?;
                    self.board.deliver(&path, result);
                }
                Delivery::Rests { path, rests } => self.board.rest(&path, rests),
                Delivery::Timer(path) => self.board.deliver(&path, Ok("null".into())),
                Delivery::Signal(name, payload) => self.board.signal_arrived(&name, payload),
                Delivery::Cancel(why) => self.board.cancel(&why),
            }
            self.poll()?;
        }
    }

    /// Takes one mail. Returns the last status if the driver is to end.
    async fn receive(&mut self, mail: Mail) -> Result<Option<RunStatus>, Stopped> {
        while self.tasks.try_join_next().is_some() {}
        match mail {
            Mail::Replied(attempt, exit) => {
                self.take_reply(attempt, exit)?;
            }
            Mail::Due(due) => {
                self.active.remove(&due);
                self.attempt_again(due)?;
            }
            Mail::AskDue(attempt, question) => {
                if self.due_questions.get(&attempt) != Some(&question) {
                    return Ok(None);
                }
                self.due_questions.remove(&attempt);
                self.active.remove(&attempt);
                let in_doubt = matches!(self.life(&attempt.action).map(Life::state),
                    Some(State::InDoubt(doubt)) if doubt.attempt == attempt.attempt);
                if in_doubt && !self.stopping && !self.asking.contains(&attempt) {
                    // The question is durable before it is asked.
                    self.stage(Body::Asking(attempt.clone()))?;
                    self.flush().await?;
                    self.ask(attempt);
                }
            }
            Mail::Answered(attempt, answer) => {
                self.take_answer(attempt, answer)?;
                // Recorded before it is acted on, whatever else is staged.
                self.flush().await?;
            }
            Mail::TimerDue(path) => {
                self.timers.remove(&path);
                let waits = self
                    .state
                    .timers
                    .get(&path)
                    .is_some_and(|timer| !timer.fired);
                if waits && !self.stopping && self.cancelled.is_none() {
                    self.stage(Body::TimerFired(path))?;
                }
            }
            Mail::Change(request, reply) => {
                self.flush().await?;
                self.change(&request, reply)?;
            }
            Mail::AskNow(attempt, reply) => {
                self.flush().await?;
                let _ = reply.send(self.ask_now(&attempt));
            }
            Mail::Look(look) => look(&self.state),
            Mail::JournalGone => {
                let why = self.shared.log.disabled().unwrap_or_default();
                return Err(Stopped::Journal(AppendError::Disabled { why }));
            }
            Mail::Stop => {
                self.stopping = true;
                self.keep_running_only();
            }
            Mail::Cut => {
                self.stopping = true;
                return self.cut().await.map(Some);
            }
        }
        Ok(None)
    }

    fn take_reply(&mut self, attempt: AttemptRef, exit: Exit) -> Result<(), Stopped> {
        self.active.remove(&attempt);
        let entry = self.record_exit(attempt.clone(), exit);
        self.step(&attempt.action, Event::Replied(entry))
    }

    fn take_answer(&mut self, attempt: AttemptRef, answer: JsonAnswer) -> Result<(), Stopped> {
        self.asking.remove(&attempt);
        if !self.due_questions.contains_key(&attempt) {
            self.active.remove(&attempt);
        }
        let entry = self.record_answer(attempt.clone(), answer);
        self.step(&attempt.action, Event::Answered(entry))
    }

    /// Records what still runs as interrupted. Its tasks, and what they started, are dropped.
    async fn cut(&mut self) -> Result<RunStatus, Stopped> {
        self.tasks.shutdown().await;
        // What had answered by then is known.
        while let Ok(mail) = self.mailbox.try_recv() {
            match mail {
                Mail::Replied(attempt, exit) => self.take_reply(attempt, exit)?,
                Mail::Answered(attempt, answer) => self.take_answer(attempt, answer)?,
                _ => {}
            }
        }
        self.flush().await?;
        let running: Vec<_> = self
            .state
            .actions
            .iter()
            .filter(|action| matches!(action.life.state(), State::Running { .. }))
            .map(|action| AttemptRef {
                action: action.of.clone(),
                attempt: action.life.attempt(),
            })
            .collect();
        for attempt in running {
            if self
                .life(&attempt.action)
                .is_some_and(|life| matches!(life.state(), State::Running { .. }))
            {
                let why = "the engine was stopped while the attempt ran".to_owned();
                let outcome = Outcome::Interrupted { why };
                let of = attempt.action.clone();
                self.step(
                    &of,
                    Event::Replied(OutcomeEntry {
                        attempt,
                        outcome,
                        log: None,
                    }),
                )?;
            }
        }
        self.flush().await?;
        Ok(RunStatus::Stopped)
    }

    fn attempt_again(&mut self, due: AttemptRef) -> Result<(), Stopped> {
        if self.stopping {
            return Ok(());
        }
        let of = due.action.clone();
        let around = self.around_action(&of);
        let Some(life) = self.life(&of) else {
            return Ok(());
        };
        // Time has passed: a window may have closed, a person may have spoken.
        let next = life.next(&around);
        match next {
            // One question at a time: its answer may make the attempt needless.
            Next::Decide { attempt, .. } if self.asks_about(&of) => {
                self.wait_for_attempt(&of, attempt, i64::MAX);
                return Ok(());
            }
            Next::Decide { attempt, .. } if attempt == due.attempt => {}
            Next::Ask { .. } | Next::Park { .. } => {
                self.todo.push((of, next));
                return Ok(());
            }
            _ => return Ok(()),
        }
        let action = self
            .state
            .action_of(&of)
            .expect("an attempt is of a known action");
        let proposal = action.proposal.clone();
        let arguments = self.text_of(&proposal.arguments)?;
        match self.shared.kernel.refreeze(&proposal, &arguments) {
            Ok(frozen) => self.decide(&of, due.attempt, None, &frozen),
            Err(refused) => {
                let decision = self.denial(refused.0);
                self.stage_decision(&of, due.attempt, None, decision, None)
            }
        }
    }

    fn asks_about(&self, of: &ActionRef) -> bool {
        self.asking.iter().any(|attempt| attempt.action == *of)
    }

    /// Polls the workflow once.
    fn poll(&mut self) -> Result<(), Stopped> {
        let Some(future) = self.future.as_mut() else {
            return Ok(());
        };
        let mut cx = Context::from_waker(Waker::noop());
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut cx))) {
            Ok(Poll::Pending) => {
                if !self.board.is_waiting() && self.board.lock().issued.is_empty() {
                    return Err(Stopped::Halt(Halt::NotDurable));
                }
                Ok(())
            }
            Ok(Poll::Ready(result)) => {
                self.future = None;
                self.returned = Some(result);
                Ok(())
            }
            Err(panic) => Err(Stopped::Halt(Halt::Panicked(panic_text(panic)))),
        }
    }

    /// How the pass ends, once the workflow returned and every action has settled, with what is
    /// staged.
    fn ended(&self) -> Result<Option<End>, Stopped> {
        let Some(returned) = &self.returned else {
            return Ok(None);
        };
        let busy =
            !self.active.is_empty() || !self.asking.is_empty() || !self.deliveries.is_empty();
        if self.stopping || busy {
            return Ok(None);
        }
        let staged = |of: &ActionRef| self.staged.get(&of.path).filter(|staged| staged.of == *of);
        let open = self
            .state
            .unsettled()
            .any(|action| staged(&action.of).is_none())
            || self
                .staged
                .values()
                .any(|staged| staged.life.settled().is_none());
        if open {
            return Ok(None);
        }
        if let Some(note) = &self.cancelled {
            return Ok(Some(End::Cancelled(cancel_words(Some(note)))));
        }
        Ok(Some(match returned {
            Ok(text) => End::Completed(self.keep_text(text)?),
            Err(error) => End::Failed(error.clone()),
        }))
    }

    /// True if nothing goes on by itself: only people can move this run.
    fn waits_for_person(&self) -> bool {
        let waits =
            || !self.timers.is_empty() || self.state.waits.values().any(|wait| wait.took.is_none());
        // A cancelled run's timers and waits wake nobody any more.
        self.active.is_empty()
            && self.asking.is_empty()
            && (self.cancelled.is_some() || !waits())
            && self.state.unsettled().next().is_some()
    }

    fn life(&self, of: &ActionRef) -> Option<&Life> {
        match self.staged.get(&of.path) {
            Some(staged) if staged.of == *of => Some(&staged.life),
            _ => self.state.action_of(of).map(|action| &action.life),
        }
    }

    fn staged_mut(&mut self, of: &ActionRef) -> &mut Staged {
        let state = &self.state;
        self.staged.entry(of.path.clone()).or_insert_with(|| {
            let action = state
                .action_of(of)
                .expect("facts are staged of known actions");
            Staged {
                of: of.clone(),
                proposal: action.proposal.clone(),
                life: action.life.clone(),
            }
        })
    }

    fn tool_of(&self, of: &ActionRef) -> String {
        match self.staged.get(&of.path) {
            Some(staged) if staged.of == *of => staged.proposal.tool.clone(),
            _ => self
                .state
                .action_of(of)
                .map_or(String::new(), |action| action.proposal.tool.clone()),
        }
    }

    fn ask_rule(&self, tool: &str) -> Option<AskRule> {
        self.shared.ask_rule(tool)
    }

    fn around(&self, reconciler: Option<AskRule>) -> Surroundings {
        self.shared.surroundings(reconciler)
    }

    fn around_action(&self, of: &ActionRef) -> Surroundings {
        self.around(self.ask_rule(&self.tool_of(of)))
    }
}

impl Stopped {
    fn status(self) -> RunStatus {
        match self {
            Self::Halt(halt) => RunStatus::Halted(halt),
            Self::Journal(error) => RunStatus::JournalFailed(error),
        }
    }
}

fn broken(illegal: crate::action::life::Illegal) -> Stopped {
    Stopped::Halt(Halt::Broken(illegal.to_string()))
}

fn cancel_words(note: Option<&OperatorNote>) -> String {
    match note {
        Some(note) if note.reason.is_empty() => format!("the run was asked to end by {}", note.who),
        Some(note) => format!("the run was asked to end by {}: {}", note.who, note.reason),
        None => "the run was asked to end".to_owned(),
    }
}
