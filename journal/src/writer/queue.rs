//! What callers and the writer thread share: the batches that wait, and what is known.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::space::Change;
use crate::checkpoints::Head;
use crate::error::AppendError;
use crate::face::{Appended, Stats};
use crate::format::batch::Draft;
use crate::format::entry::{Entry, Sequence};

/// How long the writer looks out for the next batch before it sleeps: waking it costs a caller
/// about as much as this.
const LOOK_OUT: Duration = Duration::from_micros(30);

/// A batch that waits for its place.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) draft: Draft,
    pub(super) entries: Vec<Entry>,
    pub(super) changes: Vec<Change>,
    pub(super) starts_effects: bool,
    pub(super) reply: oneshot::Sender<Result<Appended, AppendError>>,
}

impl Job {
    pub(super) fn refuse(self, error: AppendError) {
        // The caller may have dropped its future: then nobody wants to know.
        let _ = self.reply.send(Err(error));
    }
}

#[derive(Debug, Default)]
struct Waiting {
    jobs: Vec<Job>,
    /// The writer sleeps and must be woken.
    asleep: bool,
    /// No more is taken.
    closed: bool,
}

#[derive(Debug, Default)]
struct Fed {
    up_to: u64,
    /// The end of what is durable, once it is hashed; behind `up_to` for as long as that takes.
    head: Option<Head>,
    waiters: usize,
    ended: bool,
}

#[derive(Debug, Default)]
pub(super) struct Shared {
    waiting: Mutex<Waiting>,
    some: AtomicBool,
    wake: Condvar,
    durable: AtomicU64,
    fed: Mutex<Fed>,
    fed_more: Condvar,
    disabled: OnceLock<String>,
    entries: AtomicU64,
    batches: AtomicU64,
    syncs: AtomicU64,
    log_bytes: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn new(head: Head) -> Self {
        let shared = Self::default();
        shared.durable.store(head.sequence.0, Ordering::Release);
        let mut fed = lock(&shared.fed);
        fed.up_to = head.sequence.0;
        fed.head = Some(head);
        drop(fed);
        shared
    }

    /// Takes a batch into the order of the log, or says why not.
    pub(super) fn push(&self, job: Job) -> Result<(), AppendError> {
        let mut waiting = lock(&self.waiting);
        if let Some(why) = self.disabled.get() {
            return Err(AppendError::Disabled { why: why.clone() });
        }
        if waiting.closed {
            let why = "the journal is closed".to_owned();
            return Err(AppendError::Refused { why });
        }
        waiting.jobs.push(job);
        self.some.store(true, Ordering::Release);
        let asleep = std::mem::take(&mut waiting.asleep);
        drop(waiting);
        if asleep {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Whatever has gathered; waits for something. Nothing, once closed and empty.
    pub(super) fn take(&self) -> Vec<Job> {
        let until = Instant::now() + LOOK_OUT;
        while !self.some.load(Ordering::Acquire) && Instant::now() < until {
            std::hint::spin_loop();
        }
        let mut waiting = lock(&self.waiting);
        while waiting.jobs.is_empty() && !waiting.closed {
            waiting.asleep = true;
            waiting = self
                .wake
                .wait(waiting)
                .unwrap_or_else(PoisonError::into_inner);
        }
        waiting.asleep = false;
        self.some.store(false, Ordering::Release);
        std::mem::take(&mut waiting.jobs)
    }

    /// Whatever has gathered, without waiting.
    pub(super) fn gathered(&self) -> Vec<Job> {
        let mut waiting = lock(&self.waiting);
        self.some.store(false, Ordering::Release);
        std::mem::take(&mut waiting.jobs)
    }

    /// Takes no more batches; those taken are still written.
    pub(super) fn close(&self) {
        lock(&self.waiting).closed = true;
        self.wake.notify_one();
    }

    pub(super) fn durable(&self) -> Sequence {
        Sequence(self.durable.load(Ordering::Acquire))
    }

    pub(super) fn disabled(&self) -> Option<String> {
        self.disabled.get().cloned()
    }

    /// Set once: a second reason is not recorded.
    pub(super) fn disable(&self, why: &str) {
        if self.disabled.set(why.to_owned()).is_ok() {
            tracing::error!(why, "the journal is disabled; a restart is safe");
        }
    }

    /// A group became durable.
    pub(super) fn became_durable(&self, last: Sequence, entries: u64, batches: u64, bytes: u64) {
        self.entries.fetch_add(entries, Ordering::Relaxed);
        self.batches.fetch_add(batches, Ordering::Relaxed);
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.log_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.durable.store(last.0, Ordering::Release);
    }

    /// The follower has been handed everything up to here.
    pub(super) fn has_fed(&self, up_to: Sequence) {
        let mut fed = lock(&self.fed);
        fed.up_to = up_to.0;
        if fed.waiters > 0 {
            self.fed_more.notify_all();
        }
    }

    /// Everything up to here is durable and hashed.
    pub(super) fn has_hashed(&self, head: Head) {
        let mut fed = lock(&self.fed);
        fed.head = Some(head);
        if fed.waiters > 0 {
            self.fed_more.notify_all();
        }
    }

    /// Waits until everything is hashed that is durable now; `None` if the writer ends before.
    pub(super) fn wait_hashed(&self) -> Option<Head> {
        let durable = self.durable();
        let mut fed = lock(&self.fed);
        fed.waiters += 1;
        let hashed = loop {
            let hashed = fed.head.filter(|head| head.sequence >= durable);
            if hashed.is_some() || fed.ended {
                break hashed;
            }
            fed = self
                .fed_more
                .wait(fed)
                .unwrap_or_else(PoisonError::into_inner);
        };
        fed.waiters -= 1;
        hashed
    }

    /// Waits until the follower has been handed everything that is durable now.
    pub(super) fn wait_fed(&self) {
        let durable = self.durable().0;
        let mut fed = lock(&self.fed);
        fed.waiters += 1;
        while fed.up_to < durable && !fed.ended {
            fed = self
                .fed_more
                .wait(fed)
                .unwrap_or_else(PoisonError::into_inner);
        }
        fed.waiters -= 1;
    }

    /// The writer ends: nothing waits for it any more.
    pub(super) fn end(&self) {
        let left = {
            let mut waiting = lock(&self.waiting);
            waiting.closed = true;
            std::mem::take(&mut waiting.jobs)
        };
        for job in left {
            let why = self.disabled().unwrap_or_else(|| "it was closed".into());
            job.refuse(AppendError::Disabled { why });
        }
        lock(&self.fed).ended = true;
        self.fed_more.notify_all();
    }

    pub(super) fn stats(&self) -> Stats {
        Stats {
            entries: self.entries.load(Ordering::Relaxed),
            batches: self.batches.load(Ordering::Relaxed),
            syncs: self.syncs.load(Ordering::Relaxed),
            log_bytes: self.log_bytes.load(Ordering::Relaxed),
        }
    }
}
