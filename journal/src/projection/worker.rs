//! The projection's own thread and the queue that feeds it.
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

    /// Waits for the next thing to do; `None` once projecting has failed.
    fn next(&self, pace: &Pace) -> Option<Work> {
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
                (pace.since_checkpoint > 0).then(|| pace.checkpoint + CHECKPOINT_TIME)
            } else {
                let urgent = state.closing
                    || state.wanted > state.applied
                    || state.entries.len() >= COMMIT_ENTRIES;
                let ready = pace.commit + PAUSE;
                if urgent || ready <= now {
                    let count = state.entries.len().min(COMMIT_ENTRIES);
                    return Some(Work::Apply(state.entries.drain(..count).collect()));
                }
                Some(ready)
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
struct Pace {
    commit: Instant,
    checkpoint: Instant,
    /// Entries applied since the last checkpoint.
    since_checkpoint: u64,
}

/// The thread.
pub(super) struct Worker {
    pub(super) queue: Arc<Queue>,
    pub(super) store: Arc<Store>,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) path: PathBuf,
}

impl Worker {
    pub(super) fn run(self) {
        let start = Instant::now();
        let mut pace = Pace {
            commit: start,
            checkpoint: start,
            since_checkpoint: 0,
        };
        while let Some(work) = self.queue.next(&pace) {
            let close = matches!(work, Work::Close);
            if let Err(error) = contained(|| self.work(work, &mut pace)) {
                if matches!(error, StoreError::Damaged(_)) && self.queue.mark_damaged() {
                    abandon(&*self.disk, &self.path, &error.to_string());
                }
                self.queue.fail(&mut self.queue.state(), error.to_string());
                return;
            }
            if close {
                return;
            }
        }
    }

    fn work(&self, work: Work, pace: &mut Pace) -> Result<(), StoreError> {
        let entries = match work {
            Work::Apply(entries) => entries,
            Work::Checkpoint | Work::Close => Vec::new(),
        };
        let since = pace.since_checkpoint + entries.len() as u64;
        let checkpoint = entries.is_empty()
            || since >= CHECKPOINT_ENTRIES
            || pace.checkpoint.elapsed() >= CHECKPOINT_TIME;
        if checkpoint && since == 0 {
            return Ok(());
        }
        let commit = if checkpoint {
            Commit::Checkpoint
        } else {
            Commit::InMemory
        };
        self.store.apply(&entries, commit)?;
        pace.commit = Instant::now();
        pace.since_checkpoint = if checkpoint { 0 } else { since };
        if checkpoint {
            pace.checkpoint = pace.commit;
        }
        if let Some(last) = entries.last() {
            self.queue.applied(last.sequence);
        }
        Ok(())
    }
}
