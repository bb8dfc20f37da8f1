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

use std::collections::{HashMap, HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use intendant_journal::error::AppendError;
use intendant_journal::format::entry::{
    ActionEntry, ActionRef, AnsweredEntry, ApprovalEntry, AttemptRef, Body, Decision, End, Entry,
    NotedEntry, OperatorNote, Outcome, OutcomeEntry, PassEnded, PassStarted, Payload, Proposal,
    Recorded, ScopePath, SignalAwaited, TimerSet, Verdict,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::board::{Board, CallResult, IssuedWhat, Known};
use super::error::CallError;
use super::{RunFuture, Scope, question};
use crate::action::doubt::{AskRule, Surroundings};
use crate::action::id::action_id;
use crate::action::life::{Event, Life, Next, Settled, State};
use crate::engine::Shared;
use crate::engine::status::{Halt, RunEnd, RunStatus};
use crate::kernel::{Acting, Armed, Commit, Exit, ExitEnd, Permit, Unusable, panic_text};
use crate::operator::command::{Done, Refusal, Request};
use crate::operator::plan::{self, Plan};
use crate::run::state::RunState;
use crate::run::trace::{Command, Trace};
use crate::tool::error::ToolError;
use crate::tool::json::AttemptContext;
use crate::tool::reconciler::JsonAnswer;

/// The deadline that a wait for a dead sender is told; the wait itself has none.
const SENDER_GONE_MAX: Duration = Duration::from_secs(3_600);

/// What comes to a driver from outside.
pub(crate) enum Mail {
    /// A tool's call ended.
    Replied(AttemptRef, Exit),
    /// Another attempt is due.
    Due(AttemptRef),
    /// Nothing of the attempt in doubt can act any more: its reconciler can be asked.
    AskDue(AttemptRef),
    /// The reconciler answered.
    Answered(AttemptRef, JsonAnswer),
    /// A timer came due.
    TimerDue(ScopePath),
    /// Somebody asks for a change.
    Change(Request, oneshot::Sender<Result<Done, Refusal>>),
    /// An operator wants the reconciler asked now.
    AskNow(AttemptRef, oneshot::Sender<Result<String, Refusal>>),
    /// Somebody wants to look, at a durable moment.
    Look(oneshot::Sender<Box<RunState>>),
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
    /// Who waits for the answer to a change, the place of its fact in the batch, and the answer.
    answers: Vec<(Reply, usize, Done)>,
    /// Attempts for which a task of ours is at work: calling, waiting, asking.
    active: HashSet<AttemptRef>,
    tasks: JoinSet<()>,
    timers: HashSet<ScopePath>,
    cautious: bool,
    stopping: bool,
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
        let begun = Self::begin(&shared, &run, begin).await;
        let (state, resumed) = match begun {
            Ok(begun) => begun,
            Err(stopped) => return stopped.status(),
        };
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
            commit: Commit::default(),
            staged: HashMap::new(),
            deliveries: VecDeque::new(),
            todo: Vec::new(),
            answers: Vec::new(),
            active: HashSet::new(),
            tasks: JoinSet::new(),
            timers: HashSet::new(),
            cautious: resumed,
            stopping: false,
        };
        match driver.live().await {
            Ok(status) => status,
            Err(stopped) => stopped.status(),
        }
    }

    /// Makes the start of a pass durable, or takes over what an earlier opening left.
    async fn begin(
        shared: &Arc<Shared>,
        run: &Arc<str>,
        begin: Begin,
    ) -> Result<(RunState, bool), Stopped> {
        let (known, pass) = match begin {
            Begin::Resume(state) => return Ok((*state, true)),
            Begin::Pass { known, pass } => (known, pass),
        };
        let at = shared.clock.now();
        let entry = Entry {
            at,
            run: Some(run.to_string()),
            body: Body::PassStarted(*pass),
        };
        let mut commit = Commit::default();
        commit.fact(entry.clone());
        let (appended, _) = shared
            .kernel
            .commit(commit)
            .await
            .map_err(Stopped::Journal)?;
        let recorded = Recorded {
            sequence: appended.first,
            epoch: shared.log.epoch(),
            entry,
        };
        let state = match known {
            None => RunState::begin(run, &recorded)
                .map_err(|misfit| Stopped::Halt(Halt::Broken(misfit.to_string())))?,
            Some(mut state) => {
                state
                    .apply(&recorded)
                    .map_err(|misfit| Stopped::Halt(Halt::Broken(misfit.to_string())))?;
                *state
            }
        };
        Ok((state, false))
    }

    async fn live(&mut self) -> Result<RunStatus, Stopped> {
        self.set_up()?;
        self.replay()?;
        self.take_up()?;
        self.shared.publish(&self.run, RunStatus::Running);
        loop {
            self.pump()?;
            self.flush().await?;
            if !self.deliveries.is_empty() || !self.commit.is_empty() {
                continue;
            }
            if let Some(end) = self.ended() {
                self.stage(Body::PassEnded(PassEnded {
                    pass: self.state.pass.pass,
                    end: end.clone(),
                }))?;
                self.flush().await?;
                return Ok(RunStatus::Ended(RunEnd::of(&end)));
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

    /// Prepares the board with what is known, and makes the workflow's future.
    fn set_up(&mut self) -> Result<(), Stopped> {
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
    fn replay(&mut self) -> Result<(), Stopped> {
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
    fn take_up(&mut self) -> Result<(), Stopped> {
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
        self.run_todo();
        Ok(())
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
                Delivery::Timer(path) => self.board.deliver(&path, Ok("null".into())),
                Delivery::Signal(name, payload) => self.board.signal_arrived(&name, payload),
                Delivery::Cancel(why) => self.board.cancel(&why),
            }
            self.poll()?;
        }
    }

    fn carry_out(&mut self, command: Command, what: IssuedWhat) -> Result<(), Stopped> {
        match (command, what) {
            (Command::Call { path, .. }, IssuedWhat::Call(frozen)) => {
                let of = self.state.fresh_ref(&path);
                let arguments = self.keep_text(frozen.arguments())?;
                let proposal = frozen.record(arguments);
                self.staged.insert(
                    path,
                    Staged {
                        of: of.clone(),
                        proposal: proposal.clone(),
                        life: Life::new(),
                    },
                );
                self.decide(&of, 1, Some(proposal), &frozen)
            }
            (Command::Timer { path }, IssuedWhat::Timer { due_wall_ms }) => {
                self.stage(Body::TimerSet(TimerSet {
                    path: path.clone(),
                    due_wall_ms,
                }))?;
                self.arm_timer(path, due_wall_ms);
                Ok(())
            }
            (Command::Signal { path, name }, IssuedWhat::Signal) => {
                self.stage(Body::SignalAwaited(SignalAwaited { path, name }))
            }
            (Command::Note { path, what }, IssuedWhat::Note { value }) => {
                self.stage(Body::Noted(NotedEntry { path, what, value }))
            }
            (command, _) => Err(Stopped::Halt(Halt::Diverged {
                position: usize::MAX,
                recorded: "nothing more".to_owned(),
                issued: command.to_string(),
            })),
        }
    }

    /// Asks the kernel about an attempt and stages what it says.
    fn decide(
        &mut self,
        of: &ActionRef,
        attempt: u32,
        proposal: Option<Proposal>,
        frozen: &crate::kernel::Frozen,
    ) -> Result<(), Stopped> {
        let approved = self.life(of).is_some_and(Life::is_approved);
        let (decision, permit) = match &self.state.cancelled {
            // The run was asked to end: nothing new starts, whatever policy says.
            Some(note) => (self.denial(cancel_words(Some(note))), None),
            None => {
                let acting = Acting {
                    run: self.run.to_string(),
                    action: of.clone(),
                    attempt,
                    approved,
                };
                let authorized = self.shared.kernel.authorize(frozen, acting);
                (authorized.decision, authorized.permit)
            }
        };
        self.stage_decision(of, attempt, proposal, decision, permit)
    }

    fn stage_decision(
        &mut self,
        of: &ActionRef,
        attempt: u32,
        proposal: Option<Proposal>,
        decision: Decision,
        permit: Option<Permit>,
    ) -> Result<(), Stopped> {
        let entry = ActionEntry {
            attempt: AttemptRef {
                action: of.clone(),
                attempt,
            },
            proposal,
            decision,
            intent: permit.as_ref().map(|permit| permit.intent().clone()),
        };
        let life = self
            .life(of)
            .expect("a decision is about a known action")
            .clone();
        let around = self.around_action(of);
        let step = life
            .step(Event::Decided(entry), self.shared.log.epoch(), &around)
            .map_err(broken)?;
        let mut permit = permit;
        for fact in step.facts {
            self.stage_with(fact, permit.take())?;
        }
        if !matches!(step.next, Next::Run { .. } | Next::Nothing | Next::Person) {
            self.todo.push((of.clone(), step.next));
        }
        Ok(())
    }

    fn denial(&self, why: String) -> Decision {
        Decision {
            verdict: Verdict::Deny,
            reasons: vec![why],
            policy_version: "engine/1".to_owned(),
        }
    }

    /// Steps an action's life by an event and stages its facts.
    fn step(&mut self, of: &ActionRef, event: Event) -> Result<(), Stopped> {
        let life = self
            .life(of)
            .expect("events are about known actions")
            .clone();
        let around = self.around_action(of);
        let step = life
            .step(event, self.shared.log.epoch(), &around)
            .map_err(broken)?;
        for fact in step.facts {
            self.stage(fact)?;
        }
        self.todo.push((of.clone(), step.next));
        Ok(())
    }

    fn stage(&mut self, fact: Body) -> Result<(), Stopped> {
        self.stage_with(fact, None)
    }

    /// Stages a fact for the next flush, and queues what it delivers.
    fn stage_with(&mut self, fact: Body, permit: Option<Permit>) -> Result<(), Stopped> {
        let at = self.shared.clock.now();
        if let Some(attempt) = crate::action::life::attempt_of(&fact) {
            let of = attempt.action.clone();
            let epoch = self.shared.log.epoch();
            let staged = self.staged_mut(&of);
            let was_settled = staged.life.settled().is_some();
            staged.life = staged.life.apply(&fact, at, epoch).map_err(broken)?;
            if !was_settled && staged.life.settled().is_some() {
                self.deliveries.push_back(Delivery::Call(of.path));
            }
        }
        match &fact {
            Body::TimerFired(path) => self.deliveries.push_back(Delivery::Timer(path.clone())),
            Body::SignalReceived(signal) => {
                let payload = self.text_of(&signal.payload)?;
                self.deliveries
                    .push_back(Delivery::Signal(signal.name.clone(), payload));
            }
            Body::CancelRequested(note) if self.state.cancelled.is_none() => {
                self.deliveries
                    .push_back(Delivery::Cancel(cancel_words(Some(note))));
            }
            _ => {}
        }
        let entry = Entry {
            at,
            run: Some(self.run.to_string()),
            body: fact,
        };
        match permit {
            Some(permit) => self.commit.intent(permit, entry),
            None => self.commit.fact(entry),
        }
        Ok(())
    }

    /// Makes what is staged durable, starts what became armed, and does what was waiting for it.
    async fn flush(&mut self) -> Result<(), Stopped> {
        if !self.commit.is_empty() {
            let commit = std::mem::take(&mut self.commit);
            let entries = commit.entries().to_vec();
            let (appended, armed) = self
                .shared
                .kernel
                .commit(commit)
                .await
                .map_err(Stopped::Journal)?;
            let epoch = self.shared.log.epoch();
            let advanced = entries.iter().any(|entry| {
                matches!(
                    entry.body,
                    Body::Action(_) | Body::TimerSet(_) | Body::SignalAwaited(_)
                )
            });
            for (index, entry) in entries.into_iter().enumerate() {
                let sequence =
                    intendant_journal::format::entry::Sequence(appended.first.0 + index as u64);
                let recorded = Recorded {
                    sequence,
                    epoch,
                    entry,
                };
                self.state
                    .apply(&recorded)
                    .map_err(|misfit| Stopped::Halt(Halt::Broken(misfit.to_string())))?;
            }
            self.staged.clear();
            if advanced && self.deliveries.is_empty() {
                self.cautious = false;
            }
            for armed in armed {
                self.call_tool(armed);
            }
            for (reply, index, mut done) in std::mem::take(&mut self.answers) {
                done.sequence = appended.first.0 + index as u64;
                // The asker may be gone; what it asked for is recorded all the same.
                let _ = reply.send(Ok(done));
            }
        }
        self.run_todo();
        Ok(())
    }

    fn run_todo(&mut self) {
        if !self.commit.is_empty() {
            return;
        }
        for (of, next) in std::mem::take(&mut self.todo) {
            if self.stopping {
                continue;
            }
            match next {
                Next::Decide {
                    attempt,
                    at_wall_ms,
                } => self.wait_for_attempt(&of, attempt, at_wall_ms),
                Next::Ask {
                    attempt,
                    at_wall_ms,
                } => self.wait_to_ask(&of, attempt, at_wall_ms),
                Next::Park { attempt, why } => {
                    // Found by a new opening: the declaration or the clock changed since.
                    let attempt = AttemptRef {
                        action: of.clone(),
                        attempt,
                    };
                    let parked = intendant_journal::format::entry::ParkedEntry { attempt, why };
                    if self.stage(Body::Parked(parked)).is_err() {
                        tracing::error!(action = %of.path, "an attempt in doubt could not be parked");
                    }
                }
                Next::Run { .. } | Next::Person | Next::Nothing => {}
            }
        }
    }

    /// Calls a tool in a task of its own.
    fn call_tool(&mut self, armed: Armed) {
        let attempt = armed.attempt().clone();
        self.active.insert(attempt.clone());
        let (kernel, post) = (self.shared.kernel.clone(), self.post.clone());
        self.tasks.spawn(async move {
            if let Some(exit) = kernel.open(armed).await {
                let _ = post.send(Mail::Replied(attempt, exit));
            }
        });
    }

    /// Waits until an attempt is due and nothing of the one before can act.
    fn wait_for_attempt(&mut self, of: &ActionRef, attempt: u32, at_wall_ms: i64) {
        let due = AttemptRef {
            action: of.clone(),
            attempt,
        };
        if !self.active.insert(due.clone()) {
            return;
        }
        let pause = self.pause_until(at_wall_ms);
        let before = (attempt > 1).then(|| self.context(of, attempt - 1, SENDER_GONE_MAX));
        let tool = self.shared.kernel.declared(&self.tool_of(of)).cloned();
        let post = self.post.clone();
        self.tasks.spawn(async move {
            tokio::time::sleep(pause).await;
            if let (Some(tool), Some(before)) = (tool, before) {
                tool.sender_gone(&before).await;
            }
            let _ = post.send(Mail::Due(due));
        });
    }

    /// Waits until a question is due and nothing of the attempt can act.
    fn wait_to_ask(&mut self, of: &ActionRef, attempt: u32, at_wall_ms: i64) {
        let asked = AttemptRef {
            action: of.clone(),
            attempt,
        };
        if !self.active.insert(asked.clone()) {
            return;
        }
        let pause = self.pause_until(at_wall_ms);
        let cx = self.context(of, attempt, SENDER_GONE_MAX);
        let tool = self.shared.kernel.declared(&self.tool_of(of)).cloned();
        let post = self.post.clone();
        self.tasks.spawn(async move {
            tokio::time::sleep(pause).await;
            if let Some(tool) = tool {
                tool.sender_gone(&cx).await;
            }
            let _ = post.send(Mail::AskDue(asked));
        });
    }

    fn ask(&mut self, attempt: AttemptRef) {
        let of = attempt.action.clone();
        let tool = self.tool_of(&of);
        let Some(registered) = self.shared.kernel.declared(&tool).cloned() else {
            return;
        };
        let Some(reconciler) = registered.reconciler.clone() else {
            return;
        };
        let timeout = registered.contract.reconcile_timeout;
        let cx = self.context(&of, attempt.attempt, timeout);
        let arguments = self
            .state
            .action_of(&of)
            .and_then(|action| self.text_of(&action.proposal.arguments).ok())
            .and_then(|text| serde_json::from_str(&text).ok());
        let Some(arguments): Option<serde_json::Value> = arguments else {
            return;
        };
        self.active.insert(attempt.clone());
        let post = self.post.clone();
        self.tasks.spawn(async move {
            let answer = question::put(reconciler, timeout, &cx, &arguments).await;
            let _ = post.send(Mail::Answered(attempt, answer));
        });
    }

    fn arm_timer(&mut self, path: ScopePath, due_wall_ms: i64) {
        if !self.timers.insert(path.clone()) {
            return;
        }
        let (post, clock) = (self.post.clone(), self.shared.clock.clone());
        self.tasks.spawn(async move {
            // In short hops, so that a stepped clock or a suspended machine is noticed.
            loop {
                let left = due_wall_ms.saturating_sub(clock.now().wall_ms);
                let Ok(left) = u64::try_from(left) else { break };
                if left == 0 {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(left.min(30_000))).await;
            }
            let _ = post.send(Mail::TimerDue(path));
        });
    }

    /// Takes one mail. Returns the last status if the driver is to end.
    async fn receive(&mut self, mail: Mail) -> Result<Option<RunStatus>, Stopped> {
        while self.tasks.try_join_next().is_some() {}
        match mail {
            Mail::Replied(attempt, exit) => {
                self.active.remove(&attempt);
                let entry = self.record_exit(attempt.clone(), exit);
                self.step(&attempt.action, Event::Replied(entry))?;
            }
            Mail::Due(due) => {
                self.active.remove(&due);
                self.attempt_again(due)?;
            }
            Mail::AskDue(attempt) => {
                self.active.remove(&attempt);
                let in_doubt = matches!(self.life(&attempt.action).map(Life::state),
                    Some(State::InDoubt(doubt)) if doubt.attempt == attempt.attempt);
                if in_doubt && !self.stopping {
                    // The question is durable before it is asked.
                    self.stage(Body::Asking(attempt.clone()))?;
                    self.flush().await?;
                    self.ask(attempt);
                }
            }
            Mail::Answered(attempt, answer) => {
                self.active.remove(&attempt);
                let entry = self.record_answer(attempt.clone(), answer);
                self.step(&attempt.action, Event::Answered(entry))?;
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
                if waits && !self.stopping && self.state.cancelled.is_none() {
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
            Mail::Look(reply) => {
                self.flush().await?;
                let _ = reply.send(Box::new(self.state.clone()));
            }
            Mail::Stop => {
                self.stopping = true;
                self.active.retain(|attempt| {
                    matches!(self.state.action_of(&attempt.action).map(|action| action.life.state()),
                        Some(State::Running { attempt: running }) if *running == attempt.attempt)
                });
            }
            Mail::Cut => {
                self.stopping = true;
                return self.cut().await.map(Some);
            }
        }
        Ok(None)
    }

    /// Records what still runs as interrupted. Its tasks, and what they started, are dropped.
    async fn cut(&mut self) -> Result<RunStatus, Stopped> {
        self.tasks.shutdown().await;
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
            Next::Decide {
                attempt,
                at_wall_ms,
            } if attempt == due.attempt => {
                if at_wall_ms > around.now.wall_ms {
                    self.wait_for_attempt(&of, attempt, at_wall_ms);
                    return Ok(());
                }
            }
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

    fn change(
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
            Ok(Plan::Record(planned)) => *planned,
            Ok(Plan::Replayed(sequence)) => {
                let message = "this request was answered before; nothing changed".to_owned();
                let done = Done {
                    message,
                    sequence: sequence.0,
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
            // A question that is out or due is no longer needed; its task ends in the void.
            let attempt = self.life(&of).map_or(1, Life::attempt);
            self.active
                .retain(|active| active.action != of || active.attempt >= attempt);
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
    fn refuse_what_waits(&mut self, note: &OperatorNote) -> Result<(), Stopped> {
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
    fn ask_now(&mut self, attempt: &AttemptRef) -> Result<String, Refusal> {
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
        let _ = self.post.send(Mail::AskDue(attempt.clone()));
        Ok(format!("{name} is being asked about"))
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

    /// How the pass ends, once the workflow returned and every action has settled.
    fn ended(&self) -> Option<End> {
        let returned = self.returned.as_ref()?;
        if self.stopping || self.state.unsettled().next().is_some() || !self.active.is_empty() {
            return None;
        }
        if let Some(note) = &self.state.cancelled {
            return Some(End::Cancelled(cancel_words(Some(note))));
        }
        Some(match returned {
            Ok(text) => match self.keep_text(text) {
                Ok(payload) => End::Completed(payload),
                Err(_) => End::Failed("the result could not be stored".to_owned()),
            },
            Err(error) => End::Failed(error.clone()),
        })
    }

    /// True if nothing goes on by itself: only people can move this run.
    fn waits_for_person(&self) -> bool {
        let waits_for_signal = self.state.waits.values().any(|wait| wait.took.is_none());
        self.active.is_empty()
            && self.timers.is_empty()
            && !waits_for_signal
            && self.state.unsettled().next().is_some()
    }

    fn record_exit(&self, attempt: AttemptRef, exit: Exit) -> OutcomeEntry {
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
                Outcome::Unusable { raw, why }
            }
            ExitEnd::Error(ToolError::NotExecuted(why)) => Outcome::NotExecuted {
                why,
                retry_at: None,
            },
            ExitEnd::Error(ToolError::Failed(why)) => Outcome::Failed { why },
            ExitEnd::Error(ToolError::Unknown(why)) => Outcome::Unknown { why },
        };
        let log = (!exit.log.is_empty())
            .then(|| crate::payload::keep_log(self.shared.log.as_ref(), &exit.log));
        OutcomeEntry {
            attempt,
            outcome,
            log,
        }
    }

    fn record_answer(&self, attempt: AttemptRef, answer: JsonAnswer) -> AnsweredEntry {
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

    fn settled_result(&self, path: &ScopePath) -> Result<CallResult, Stopped> {
        let settled = match self.staged.get(path) {
            Some(staged) => staged.life.settled(),
            None => self
                .state
                .action(path)
                .and_then(|action| action.life.settled()),
        };
        self.result_of(settled.expect("only settled actions are delivered"))
    }

    fn result_of(&self, settled: &Settled) -> Result<CallResult, Stopped> {
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

    fn text_of(&self, payload: &Payload) -> Result<Arc<str>, Stopped> {
        crate::payload::text(self.shared.log.as_ref(), payload)
            .map(Into::into)
            .map_err(|why| Stopped::Halt(Halt::Broken(why)))
    }

    fn keep_text(&self, text: &str) -> Result<Payload, Stopped> {
        crate::payload::keep_text(self.shared.log.as_ref(), text).map_err(Stopped::Journal)
    }

    fn keep_bytes(&self, bytes: &[u8]) -> Payload {
        crate::payload::keep_bytes(self.shared.log.as_ref(), bytes)
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

    fn pause_until(&self, at_wall_ms: i64) -> Duration {
        let left = at_wall_ms.saturating_sub(self.shared.clock.now().wall_ms);
        Duration::from_millis(u64::try_from(left).unwrap_or(0))
    }

    fn context(&self, of: &ActionRef, attempt: u32, timeout: Duration) -> AttemptContext {
        let key = self.life(of).and_then(|life| life.intent()).map_or_else(
            || crate::action::key::key(self.shared.log.id(), &self.run, of),
            |intent| intent.key,
        );
        AttemptContext {
            run: self.run.to_string(),
            action: action_id(&self.run, of),
            attempt,
            epoch: self.shared.log.epoch().0,
            key,
            deadline: std::time::SystemTime::now() + timeout,
        }
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

fn lost(bytes: &[u8]) -> Payload {
    use sha2::Digest as _;
    let sha256 = intendant_journal::format::entry::Digest(sha2::Sha256::digest(bytes).into());
    Payload::Lost(intendant_journal::format::entry::BlobRef {
        sha256,
        bytes: bytes.len() as u64,
    })
}
