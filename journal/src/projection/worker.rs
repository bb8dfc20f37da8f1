//! Who applies entries to the projection, mostly on a thread of its own, and the queue that feeds it.
//!
//! Entries that gather while one commit runs, or within [`PAUSE`] of it, go into the next one; a
//! question that waits, or a long queue, cuts the pause short. Commits stay in memory; a checkpoint
//! every [`CHECKPOINT_TIME`] or [`CHECKPOINT_ENTRIES`] bounds what a crash makes the next opening
//! apply again.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::disk::Disk;
use crate::format::entry::{Recorded, Sequence};

use super::store::{Commit, Store, StoreError};
use super::{abandon, contained};

/// Shortest time between two commits that nobody waits for.
const PAUSE: Duration = Duration::from_millis(20);
/// Longest time between two checkpoints while there is something to make durable.
const CHECKPOINT_TIME: Duration = Duration::from_secs(10);
/// Most entries between two checkpoints.
const CHECKPOINT_ENTRIES: u64 = 50_000;
/// Most entries in one commit.
const COMMIT_ENTRIES: usize = 10_000;

/// What was fed and not yet applied.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// Told when the worker may have something to do.
    work: Condvar,
    /// Told when the applied sequence has grown, or projecting has failed.
    progress: Condvar,
}

#[derive(Debug)]
struct State {
    entries: VecDeque<Recorded>,
    /// Last sequence fed.
    fed: Sequence,
    /// Last sequence applied.
    applied: Sequence,
    /// Questions wait for this one.
    wanted: Sequence,
    closing: bool,
    /// Why projecting has stopped.
    failed: Option<String>,
    /// The file has been set aside.
    damaged: bool,
}

impl State {
    /// The entries of the next commit.
    fn take(&mut self) -> Work {
        let count = self.entries.len().min(COMMIT_ENTRIES);
        Work::Apply(self.entries.drain(..count).collect())
    }
}

/// When things come due; `None` is never for a checkpoint, and at once for a commit.
struct Times {
    commit: Option<Instant>,
    checkpoint: Option<Instant>,
}

/// What the worker is to do next.
enum Work {
    Apply(Vec<Recorded>),
    Checkpoint,
    Close,
}

impl Queue {
    pub(super) fn new(applied: Sequence) -> Self {
        Self {
            state: Mutex::new(State {
                entries: VecDeque::new(),
                fed: applied,
                applied,
                wanted: applied,
                closing: false,
                failed: None,
                damaged: false,
            }),
            work: Condvar::new(),
            progress: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change under the lock is one step; a panic elsewhere leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn feed(&self, entries: Vec<Recorded>) {
        let mut state = self.state();
        if state.failed.is_some() {
            return;
        }
        let was_empty = state.entries.is_empty();
        for recorded in entries {
            if recorded.sequence <= state.fed {
                continue;
            }
            if recorded.sequence.0 != state.fed.0 + 1 {
                let why = format!(
                    "entry {} was handed over behind entry {}; a restart feeds the gap from the log",
                    recorded.sequence, state.fed
                );
                self.fail(&mut state, why);
                return;
            }
            state.fed = recorded.sequence;
            state.entries.push_back(recorded);
        }
        if was_empty || state.entries.len() >= COMMIT_ENTRIES {
            self.work.notify_one();
        }
    }

    pub(super) fn wait_for_backlog(&self, at_most: u64) {
        let mut state = self.state();
        while state.failed.is_none() && state.fed.0 - state.applied.0 > at_most {
            state = self
                .progress
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until what was fed before the call is applied, or gives why it never will be.
    pub(super) fn wait_until_applied(&self) -> Result<(), String> {
        let mut state = self.state();
        let target = state.fed;
        if state.applied < target {
            state.wanted = state.wanted.max(target);
            self.work.notify_one();
        }
        loop {
            if let Some(why) = &state.failed {
                return Err(why.clone());
            }
            if state.applied >= target {
                return Ok(());
            }
            state = self
                .progress
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Notes that the file was found damaged; true for the first to say so.
    pub(super) fn mark_damaged(&self) -> bool {
        !std::mem::replace(&mut self.state().damaged, true)
    }

    pub(super) fn close(&self) {
        self.state().closing = true;
        self.work.notify_one();
    }

    fn fail(&self, state: &mut State, why: String) {
        tracing::error!(why, "projecting has stopped; recording goes on");
        state.failed.get_or_insert(why);
        state.entries = VecDeque::new();
        self.progress.notify_all();
        self.work.notify_one();
    }

    /// The next thing to do, without waiting and whatever the time; `None` if there is none.
    fn next_now(&self) -> Option<Work> {
        let mut state = self.state();
        if state.failed.is_some() {
            return None;
        }
        if state.entries.is_empty() {
            return state.closing.then_some(Work::Close);
        }
        Some(state.take())
    }

    /// Why projecting has stopped, if it has.
    #[cfg(any(test, feature = "simulated"))]
    fn failed(&self) -> Option<String> {
        self.state().failed.clone()
    }

    /// Waits for the next thing to do; `None` once projecting has failed.
    fn next(&self, times: &Times) -> Option<Work> {
        let mut state = self.state();
        loop {
            if state.failed.is_some() {
                return None;
            }
            let now = Instant::now();
            let wake = if state.entries.is_empty() {
                if state.closing {
                    return Some(Work::Close);
                }
                times.checkpoint
            } else {
                let urgent = state.closing
                    || state.wanted > state.applied
                    || state.entries.len() >= COMMIT_ENTRIES;
                match times.commit {
                    Some(ready) if !urgent && ready > now => Some(ready),
                    _ => return Some(state.take()),
                }
            };
            state = match wake.map(|wake| wake.saturating_duration_since(now)) {
                // Only a checkpoint comes due with nothing in the queue.
                Some(Duration::ZERO) => return Some(Work::Checkpoint),
                Some(pause) => {
                    self.work
                        .wait_timeout(state, pause)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
                None => self
                    .work
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn applied(&self, sequence: Sequence) {
        let mut state = self.state();
        debug_assert!(state.applied < sequence, "applied never goes back");
        state.applied = sequence;
        self.progress.notify_all();
    }
}

/// When the worker last did what.
#[derive(Debug)]
struct Pace {
    commit: Instant,
    checkpoint: Instant,
}

/// What a worker works on.
#[derive(Debug)]
pub(super) struct WorkerStart {
    pub(super) queue: Arc<Queue>,
    pub(super) store: Arc<Store>,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) path: PathBuf,
}

/// Applies what the queue holds.
#[derive(Debug)]
pub(super) struct Worker {
    start: WorkerStart,
    /// `None` if no clock is to decide anything.
    pace: Option<Pace>,
    /// Entries applied since the last checkpoint.
    since_checkpoint: u64,
}

impl Worker {
    /// One that has a thread of its own, and takes its time.
    pub(super) fn paced(start: WorkerStart) -> Self {
        let now = Instant::now();
        Self {
            start,
            pace: Some(Pace {
                commit: now,
                checkpoint: now,
            }),
            since_checkpoint: 0,
        }
    }

    /// One that works when it is asked to.
    pub(super) fn unpaced(start: WorkerStart) -> Self {
        Self {
            start,
            pace: None,
            since_checkpoint: 0,
        }
    }

    /// The thread.
    pub(super) fn run(mut self) {
        let mut work = self.start.queue.next(&self.due());
        while let Some(todo) = work
            && self.turn(todo)
        {
            work = self.start.queue.next(&self.due());
        }
    }

    /// Applies all that was fed, and closes if that is due.
    pub(super) fn turn_now(&mut self) {
        while let Some(work) = self.start.queue.next_now()
            && self.turn(work)
        {}
    }

    /// Makes durable what was applied.
    #[cfg(any(test, feature = "simulated"))]
    pub(super) fn checkpoint_now(&mut self) {
        self.turn_now();
        if self.start.queue.failed().is_none() {
            self.turn(Work::Checkpoint);
        }
    }

    fn due(&self) -> Times {
        Times {
            commit: self.pace.as_ref().map(|pace| pace.commit + PAUSE),
            checkpoint: match &self.pace {
                Some(pace) if self.since_checkpoint > 0 => Some(pace.checkpoint + CHECKPOINT_TIME),
                _ => None,
            },
        }
    }

    /// Does one thing; false if it was the last.
    fn turn(&mut self, work: Work) -> bool {
        let close = matches!(work, Work::Close);
        if let Err(error) = contained(|| self.work(work)) {
            let start = &self.start;
            if matches!(error, StoreError::Damaged(_)) && start.queue.mark_damaged() {
                abandon(&*start.disk, &start.path, &error.to_string());
            }
            let queue = &start.queue;
            queue.fail(&mut queue.state(), error.to_string());
            return false;
        }
        !close
    }

    fn work(&mut self, work: Work) -> Result<(), StoreError> {
        let entries = match work {
            Work::Apply(entries) => entries,
            Work::Checkpoint | Work::Close => Vec::new(),
        };
        let since = self.since_checkpoint + entries.len() as u64;
        let checkpoint = entries.is_empty()
            || since >= CHECKPOINT_ENTRIES
            || self
                .pace
                .as_ref()
                .is_some_and(|pace| pace.checkpoint.elapsed() >= CHECKPOINT_TIME);
        if checkpoint && since == 0 {
            return Ok(());
        }
        let commit = if checkpoint {
            Commit::Checkpoint
        } else {
            Commit::InMemory
        };
        self.start.store.apply(&entries, commit)?;
        self.since_checkpoint = if checkpoint { 0 } else { since };
        if let Some(pace) = &mut self.pace {
            pace.commit = Instant::now();
            if checkpoint {
                pace.checkpoint = pace.commit;
            }
        }
        if let Some(last) = entries.last() {
            self.start.queue.applied(last.sequence);
        }
        Ok(())
    }
}
