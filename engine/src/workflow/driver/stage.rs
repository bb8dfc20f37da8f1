//! Staging facts and making them durable.
//!
//! Invariants: a fact is applied to its action's life when it is staged, and to the run's state once
//! it is durable; effects start only from what a durable commit gave back.

use crate::action::life::{Event, Life, Next, attempt_of};
use crate::engine::status::Halt;
use crate::kernel::{Acting, Commit, Permit};
use crate::run::trace::Command;
use crate::workflow::board::IssuedWhat;
use intendant_journal::error::AppendError;
use intendant_journal::format::entry::{
    ActionEntry, ActionRef, AttemptRef, Body, Decision, Entry, Moment, NotedEntry, Proposal,
    Recorded, Sequence, SignalAwaited, TimerSet, Verdict,
};

use super::{BATCH_INLINE_PAYLOADS, Delivery, Driver, Staged, Stopped, broken, cancel_words};

impl Driver {
    pub(super) fn carry_out(&mut self, command: Command, what: IssuedWhat) -> Result<(), Stopped> {
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
    pub(super) fn decide(
        &mut self,
        of: &ActionRef,
        attempt: u32,
        proposal: Option<Proposal>,
        frozen: &crate::kernel::Frozen,
    ) -> Result<(), Stopped> {
        let earlier = self.life(of).and_then(|life| life.intent().cloned());
        // A yes covers later attempts of the very tool it was said to.
        let same_tool = proposal.is_some()
            || self
                .state
                .action_of(of)
                .is_some_and(|action| action.proposal.tool_version == frozen.contract().version);
        let approved = same_tool && self.life(of).is_some_and(Life::is_approved);
        let (decision, permit) = match &self.cancelled {
            // The run was asked to end: nothing new starts, whatever policy says.
            Some(note) => (self.denial(cancel_words(Some(note))), None),
            None => {
                let acting = Acting {
                    run: self.run.to_string(),
                    action: of.clone(),
                    attempt,
                    approved,
                    earlier,
                };
                let authorized = self.shared.kernel.authorize(frozen, acting);
                (authorized.decision, authorized.permit)
            }
        };
        self.stage_decision(of, attempt, proposal, decision, permit)
    }

    pub(super) fn stage_decision(
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
            self.stage_with(fact, permit.take(), around.now)?;
        }
        if !matches!(step.next, Next::Run { .. } | Next::Nothing | Next::Person) {
            self.todo.push((of.clone(), step.next));
        }
        Ok(())
    }

    pub(super) fn denial(&self, why: String) -> Decision {
        Decision {
            verdict: Verdict::Deny,
            reasons: vec![why],
            policy_version: "engine/1".to_owned(),
        }
    }

    /// Steps an action's life by an event and stages its facts.
    pub(super) fn step(&mut self, of: &ActionRef, event: Event) -> Result<(), Stopped> {
        let life = self
            .life(of)
            .expect("events are about known actions")
            .clone();
        let around = self.around_action(of);
        let step = life
            .step(event, self.shared.log.epoch(), &around)
            .map_err(broken)?;
        for fact in step.facts {
            self.stage_with(fact, None, around.now)?;
        }
        self.todo.push((of.clone(), step.next));
        Ok(())
    }

    pub(super) fn stage(&mut self, fact: Body) -> Result<(), Stopped> {
        let at = self.shared.clock.now();
        self.stage_with(fact, None, at)
    }

    /// Stages a fact for the next flush, as of the moment it was decided at, and queues what it
    /// delivers.
    pub(super) fn stage_with(
        &mut self,
        fact: Body,
        permit: Option<Permit>,
        at: Moment,
    ) -> Result<(), Stopped> {
        if let Some(attempt) = crate::action::life::attempt_of(&fact) {
            let of = attempt.action.clone();
            let epoch = self.shared.log.epoch();
            let staged = self.staged_mut(&of);
            let was_settled = staged.life.settled().is_some();
            let rested = staged.life.rests();
            staged.life = staged.life.apply(&fact, at, epoch).map_err(broken)?;
            let rests = staged.life.rests();
            if !was_settled && staged.life.settled().is_some() {
                self.deliveries.push_back(Delivery::Call(of.path));
            } else if rests != rested {
                let path = of.path;
                self.deliveries.push_back(Delivery::Rests { path, rests });
            }
        }
        match &fact {
            Body::TimerFired(path) => self.deliveries.push_back(Delivery::Timer(path.clone())),
            Body::SignalReceived(signal) => {
                let payload = self.text_of(&signal.payload)?;
                self.deliveries
                    .push_back(Delivery::Signal(signal.name.clone(), payload));
            }
            Body::CancelRequested(note) if self.cancelled.is_none() => {
                self.cancelled = Some(note.clone());
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
    pub(super) async fn flush(&mut self) -> Result<(), Stopped> {
        let bytes_max = self.shared.log.inline_max_bytes() * BATCH_INLINE_PAYLOADS;
        let mut answered = 0;
        let mut parts = std::mem::take(&mut self.commit)
            .split(bytes_max)
            .into_iter();
        while let Some(part) = parts.next() {
            let entries = part.entries().to_vec();
            let facts = entries.len();
            if let Err(error) = self.make_durable(part, answered).await {
                if matches!(error, Stopped::Journal(AppendError::NoSpace { .. })) {
                    let later = parts.flat_map(|part| part.entries().to_vec());
                    self.save_what_fits(entries.into_iter().chain(later).collect())
                        .await?;
                }
                return Err(error);
            }
            answered += facts;
        }
        if answered > 0 {
            self.staged.clear();
        }
        self.run_todo();
        Ok(())
    }

    /// Makes one commit durable. `before` entries of the same flush already are.
    pub(super) async fn make_durable(
        &mut self,
        commit: Commit,
        before: usize,
    ) -> Result<(), Stopped> {
        let entries = commit.entries().to_vec();
        let committed = self.shared.kernel.commit(commit).await;
        let (appended, armed) = committed.map_err(Stopped::Journal)?;
        let advanced = entries.iter().any(|entry| {
            matches!(
                entry.body,
                Body::Action(_) | Body::TimerSet(_) | Body::SignalAwaited(_)
            )
        });
        let count = entries.len();
        self.apply(entries, appended.first)?;
        if advanced && self.deliveries.is_empty() {
            self.cautious = false;
        }
        for armed in armed {
            self.call_tool(armed);
        }
        let (here, later) = std::mem::take(&mut self.answers)
            .into_iter()
            .partition(|(_, index, _)| *index < before + count);
        self.answers = later;
        let here: Vec<_> = here;
        for (reply, index, mut done) in here {
            done.sequence = appended.first.0 + (index - before) as u64;
            // The asker may be gone; what it asked for is recorded all the same.
            let _ = reply.send(Ok(done));
        }
        Ok(())
    }

    /// On a full disk a batch that starts effects is refused whole. What happened to actions that had
    /// begun before (outcomes, answers, a person's word) has room kept for it and is recorded all the
    /// same; what the workflow commanded is commanded again by replay.
    async fn save_what_fits(&mut self, entries: Vec<Entry>) -> Result<(), Stopped> {
        let mut facts = Commit::default();
        for entry in entries {
            let keeps = match &entry.body {
                Body::Outcome(_)
                | Body::Answered(_)
                | Body::LateReply(_)
                | Body::Parked(_)
                | Body::Resolved(_)
                | Body::Approval(_)
                | Body::Incident(_) => attempt_of(&entry.body)
                    .is_some_and(|attempt| self.state.action_of(&attempt.action).is_some()),
                Body::CancelRequested(_) | Body::SignalReceived(_) => true,
                _ => false,
            };
            if keeps && !self.starting {
                facts.fact(entry);
            }
        }
        if facts.is_empty() {
            return Ok(());
        }
        let entries = facts.entries().to_vec();
        let (appended, _) = self
            .shared
            .kernel
            .commit(facts)
            .await
            .map_err(Stopped::Journal)?;
        self.apply(entries, appended.first)
    }

    pub(super) fn apply(&mut self, entries: Vec<Entry>, first: Sequence) -> Result<(), Stopped> {
        let epoch = self.shared.log.epoch();
        let begun = usize::from(std::mem::take(&mut self.starting));
        if begun > 0 {
            self.state.last = first;
        }
        for (index, entry) in entries.into_iter().enumerate().skip(begun) {
            let sequence = Sequence(first.0 + index as u64);
            self.state
                .apply(&Recorded {
                    sequence,
                    epoch,
                    entry,
                })
                .map_err(|misfit| Stopped::Halt(Halt::Broken(misfit.to_string())))?;
        }
        Ok(())
    }

    pub(super) fn run_todo(&mut self) {
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
}
