//! A journal in memory, for tests of what is built on the face: it passes `conformance`, keeps
//! nothing after its last handle is gone, and can be told to fail or to hold appends back.
//!
//! Invariants:
//! - Batches become durable in the order of the calls to `append`, whether they are held back or not.
//! - Of a batch that is refused nothing is seen, then or after a reopening. Of one that is
//!   unsettled nothing is seen until a reopening, which shows all of it or nothing.
//! - Once another handle has reopened the log, an older one is fenced: it appends nothing more.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};
use tokio::sync::oneshot;

use crate::error::{AppendError, Damage, ReadError};
use crate::face::{Append, Appended, Batch, IntentLog, RunFilter, RunRow, Stats};
use crate::format::entry::{
    BlobRef, Body, Digest, Entry, Epoch, JournalId, Moment, Opened, Recorded, Sequence,
};
use crate::projection::apply;

/// Longest inline payload, as in the embedded journal.
const INLINE_MAX_BYTES: usize = 64 * 1024;

/// One opening of a journal in memory. Clones are handles of the same opening.
#[derive(Clone)]
pub struct MemoryLog {
    id: JournalId,
    epoch: Epoch,
    state: Arc<Mutex<State>>,
}

/// How an append is made to fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// [`AppendError::Refused`]: nothing is recorded, the log goes on.
    Refused,
    /// [`AppendError::NoSpace`]: nothing is recorded, the log goes on.
    NoSpace,
    /// [`AppendError::Unsettled`], and the log is disabled: what was handed over later is refused.
    Unsettled {
        /// Whether the batch is there after [`MemoryLog::reopen`].
        kept: bool,
    },
    /// The log is disabled before the batch reaches it: [`AppendError::Disabled`].
    Disabled,
}

/// What all openings share.
#[derive(Default)]
struct State {
    /// The newest opening; older handles are fenced.
    epoch: Epoch,
    entries: Vec<Recorded>,
    blobs: HashMap<Digest, Vec<u8>>,
    /// Batches handed over and not yet durable, oldest first.
    waiting: VecDeque<Waiting>,
    held: bool,
    /// Failures still to come: how many appends from now (1 is the next), and which.
    failures: Vec<(usize, Failure)>,
    blobs_refused: bool,
    disabled: Option<String>,
    /// Unsettled batches that a reopening finds.
    kept: Vec<Recorded>,
    stats: Stats,
}

struct Waiting {
    entries: Vec<Entry>,
    failure: Option<Failure>,
    done: oneshot::Sender<Result<Appended, AppendError>>,
}

impl MemoryLog {
    /// An empty journal and its first opening.
    #[must_use]
    pub fn new(id: JournalId) -> Self {
        let log = Self {
            id,
            epoch: Epoch(1),
            state: Arc::default(),
        };
        log.state().open();
        log
    }

    /// Opens the journal anew, as after a crash at this moment: durable entries are there, the
    /// epoch is one higher, nothing is held back, disabled or about to fail. Batches not yet
    /// durable are gone (their callers learn that they are unsettled), except an unsettled one that
    /// was to be kept. Older handles are fenced.
    #[must_use]
    pub fn reopen(&self) -> Self {
        let mut state = self.state();
        state.reopen();
        Self {
            id: self.id,
            epoch: state.epoch,
            state: Arc::clone(&self.state),
        }
    }

    /// Makes the `n`-th append from now fail; 1 is the next one.
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn fail_append(&self, n: usize, failure: Failure) {
        assert!(n > 0, "the next append is number 1");
        self.state().failures.push((n, failure));
    }

    /// From now on, appends are taken into the order of the log but become durable only by
    /// [`MemoryLog::release`] or [`MemoryLog::release_all`].
    pub fn hold(&self) {
        self.state().held = true;
    }

    /// Makes the `batches` oldest of those held back durable, and goes on holding back.
    pub fn release(&self, batches: usize) {
        let mut state = self.state();
        for _ in 0..batches {
            state.settle_oldest();
        }
    }

    /// Makes everything held back durable, and holds nothing back from now on.
    pub fn release_all(&self) {
        let mut state = self.state();
        state.held = false;
        state.settle();
    }

    /// The entries of each batch held back, oldest first.
    #[must_use]
    pub fn held(&self) -> Vec<Vec<Entry>> {
        let state = self.state();
        state
            .waiting
            .iter()
            .map(|waiting| waiting.entries.clone())
            .collect()
    }

    /// Every durable entry, those of the openings included.
    #[must_use]
    pub fn entries(&self) -> Vec<Recorded> {
        self.state().entries.clone()
    }

    /// Whether storing a blob is refused, as on a full disk.
    pub fn refuse_blobs(&self, refused: bool) {
        self.state().blobs_refused = refused;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic in another test thread leaves nothing half done here: each change is one step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fenced(&self, state: &State) -> Option<String> {
        (state.epoch > self.epoch).then(|| format!("opening {} took the log over", state.epoch))
    }
}

impl State {
    /// Raises the epoch and records the opening.
    fn open(&mut self) {
        self.epoch.0 += 1;
        let sequence = self.next();
        self.entries.push(Recorded {
            sequence,
            epoch: self.epoch,
            entry: Entry {
                at: Moment::default(),
                run: None,
                body: Body::Opened(Opened {
                    pid: std::process::id(),
                    boot_id: "memory".to_owned(),
                    program: "memory".to_owned(),
                }),
            },
        });
        self.stats = Stats {
            entries: 1,
            batches: 1,
            syncs: 1,
            log_bytes: 0,
        };
    }

    fn reopen(&mut self) {
        for waiting in self.waiting.drain(..) {
            // A caller that is gone needs no answer.
            let _ = waiting.done.send(Err(AppendError::Unsettled {
                why: "the log was reopened".to_owned(),
            }));
        }
        let kept = std::mem::take(&mut self.kept);
        self.entries.extend(kept);
        self.held = false;
        self.failures.clear();
        self.blobs_refused = false;
        self.disabled = None;
        self.open();
    }

    fn next(&self) -> Sequence {
        Sequence(self.entries.len() as u64 + 1)
    }

    fn hand_over(&mut self, entries: Vec<Entry>) -> oneshot::Receiver<Settled> {
        let (done, settled) = oneshot::channel();
        let mut failure = None;
        self.failures.retain_mut(|(left, kind)| {
            *left -= 1;
            if *left == 0 {
                failure = Some(*kind);
            }
            *left > 0
        });
        self.waiting.push_back(Waiting {
            entries,
            failure,
            done,
        });
        if !self.held {
            self.settle();
        }
        settled
    }

    fn settle(&mut self) {
        while !self.waiting.is_empty() {
            self.settle_oldest();
        }
    }

    fn settle_oldest(&mut self) {
        let Some(waiting) = self.waiting.pop_front() else {
            return;
        };
        let settled = self.record(waiting.entries, waiting.failure);
        // A caller that is gone needs no answer; its batch stays.
        let _ = waiting.done.send(settled);
    }

    fn record(&mut self, entries: Vec<Entry>, failure: Option<Failure>) -> Settled {
        if let Some(why) = self.disabled.clone() {
            return Err(AppendError::Disabled { why });
        }
        let why = "made to fail by a test".to_owned();
        let first = self.next();
        let epoch = self.epoch;
        let batch: Vec<Recorded> = (first.0..)
            .zip(entries)
            .map(|(sequence, entry)| Recorded {
                sequence: Sequence(sequence),
                epoch,
                entry,
            })
            .collect();
        match failure {
            Some(Failure::Refused) => return Err(AppendError::Refused { why }),
            Some(Failure::NoSpace) => return Err(AppendError::NoSpace { why }),
            Some(Failure::Disabled) => {
                self.disabled = Some(why.clone());
                return Err(AppendError::Disabled { why });
            }
            Some(Failure::Unsettled { kept }) => {
                self.disabled = Some(why.clone());
                if kept {
                    self.kept = batch;
                }
                return Err(AppendError::Unsettled { why });
            }
            None => {}
        }
        self.stats.entries += batch.len() as u64;
        self.stats.batches += 1;
        self.stats.syncs += 1;
        self.entries.extend(batch);
        Ok(Appended {
            first,
            last: Sequence(self.entries.len() as u64),
        })
    }

    fn rows(&self, filter: RunFilter) -> Vec<RunRow> {
        let mut rows: HashMap<&str, RunRow> = HashMap::new();
        for recorded in &self.entries {
            if let Some(run) = recorded.entry.run.as_deref()
                && let Some(row) = apply::apply(rows.remove(run), recorded)
            {
                rows.insert(run, row);
            }
        }
        let mut rows: Vec<RunRow> = rows
            .into_values()
            .filter(|row| apply::matches(filter, row))
            .collect();
        rows.sort_unstable_by_key(|row| row.first);
        rows
    }
}

type Settled = Result<Appended, AppendError>;

impl IntentLog for MemoryLog {
    fn id(&self) -> JournalId {
        self.id
    }

    fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// All openings of a journal in memory are within one boot.
    fn boot_since(&self) -> Epoch {
        Epoch(1)
    }

    fn append(&self, batch: Batch) -> Append {
        let mut state = self.state();
        if let Some(why) = self.fenced(&state) {
            return Append::new(async { Err(AppendError::Disabled { why }) });
        }
        if batch.entries.is_empty() {
            let why = "the batch holds no entry; append at least one".to_owned();
            return Append::new(async { Err(AppendError::Refused { why }) });
        }
        let settled = state.hand_over(batch.entries);
        Append::new(async {
            settled.await.unwrap_or_else(|_| {
                Err(AppendError::Unsettled {
                    why: "the log was closed".to_owned(),
                })
            })
        })
    }

    fn durable(&self) -> Sequence {
        Sequence(self.state().entries.len() as u64)
    }

    fn disabled(&self) -> Option<String> {
        let state = self.state();
        self.fenced(&state).or_else(|| state.disabled.clone())
    }

    fn history(&self, run: &str) -> Result<Vec<Recorded>, ReadError> {
        let state = self.state();
        Ok(state
            .entries
            .iter()
            .filter(|recorded| recorded.entry.run.as_deref() == Some(run))
            .cloned()
            .collect())
    }

    fn runs(&self, filter: RunFilter) -> Result<Vec<RunRow>, ReadError> {
        Ok(self.state().rows(filter))
    }

    fn claim(&self) -> Result<Vec<String>, ReadError> {
        let open = self.state().rows(RunFilter::Open);
        Ok(open.into_iter().map(|row| row.run).collect())
    }

    fn put_blob(&self, content: &[u8]) -> Result<BlobRef, AppendError> {
        let mut state = self.state();
        if let Some(why) = self.fenced(&state).or_else(|| state.disabled.clone()) {
            return Err(AppendError::Disabled { why });
        }
        if state.blobs_refused {
            return Err(AppendError::Refused {
                why: "made to fail by a test".to_owned(),
            });
        }
        let sha256 = Digest(Sha256::digest(content).into());
        state.blobs.insert(sha256, content.to_vec());
        Ok(BlobRef {
            sha256,
            bytes: content.len() as u64,
        })
    }

    fn get_blob(&self, blob: &BlobRef) -> Result<Vec<u8>, ReadError> {
        let state = self.state();
        match state.blobs.get(&blob.sha256) {
            Some(content) if content.len() as u64 == blob.bytes => Ok(content.clone()),
            _ => Err(ReadError::Damaged(Damage {
                path: format!("memory/{}", blob.sha256).into(),
                segment: None,
                offset: 0,
                what: "no such content".to_owned(),
                lost: format!("the {} bytes it held", blob.bytes),
                remedy: "store the content before the entry that names it".to_owned(),
            })),
        }
    }

    fn inline_max_bytes(&self) -> usize {
        INLINE_MAX_BYTES
    }

    fn stats(&self) -> Stats {
        self.state().stats
    }
}

#[cfg(test)]
mod tests;
