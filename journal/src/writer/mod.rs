//! The one writer: a thread that takes whatever has gathered, writes it in one piece, syncs once,
//! and then tells everyone.
//!
//! Invariants:
//! - Nobody is told that a batch is recorded before the sync that covers it has succeeded.
//! - A failed write or sync is never tried again. It disables the writer for good: everybody under
//!   it gets an error, everybody later is refused.
//! - No timers: a group is what gathered while the group before was on its way to the disk.

mod mark;
mod pen;
mod queue;
pub(crate) mod space;

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

pub(crate) use mark::{MARK, Mark, read_mark};
use pen::Pen;
pub(crate) use pen::{Active, WriterStart};
use queue::{Job, Shared};
use space::Change;

use crate::checkpoints::Head;
use crate::drive::Drive;
use crate::error::AppendError;
use crate::face::{Append, Batch, Stats};
use crate::format::batch::Draft;
use crate::format::codec;
use crate::format::entry::{Epoch, Recorded, Sequence};
use crate::format::segment::{HEAD_BYTES, PAGE_BYTES};

/// Learns what became durable, in order and without gaps.
pub trait Follower: Send + Sync + 'static {
    /// These entries are durable now. Called on the writer thread after the callers were told:
    /// it should hand the work on.
    fn durable(&self, entries: Vec<Recorded>);
}

/// The writer, as callers see it.
#[derive(Debug)]
pub(crate) struct Writer {
    shared: Arc<Shared>,
    epoch: Epoch,
    /// Largest batch that fits in a segment.
    max_bytes: usize,
    hand: Hand,
}

/// Who writes.
#[derive(Debug)]
enum Hand {
    /// A thread, until it is joined.
    Thread(Option<JoinHandle<()>>),
    /// Whoever waits for a batch.
    Caller(Arc<Mutex<Pen>>),
}

fn lock(pen: &Mutex<Pen>) -> std::sync::MutexGuard<'_, Pen> {
    pen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Writer {
    pub(crate) fn start(start: WriterStart) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::new(Head {
            sequence: start.durable,
            chain: start.chain,
        }));
        let epoch = start.epoch;
        let segment = usize::try_from(start.segment_bytes).unwrap_or(usize::MAX);
        let drive = start.drive;
        let pen = Pen::new(Arc::clone(&shared), start);
        let hand = match drive {
            Drive::Threads => Hand::Thread(Some(
                std::thread::Builder::new()
                    .name("intendant-writer".into())
                    .spawn(move || pen.run())?,
            )),
            Drive::Caller => Hand::Caller(Arc::new(Mutex::new(pen))),
        };
        Ok(Self {
            shared,
            epoch,
            max_bytes: segment - PAGE_BYTES - HEAD_BYTES,
            hand,
        })
    }

    /// Hands over a batch; see [`crate::face::IntentLog::append`]. Encodes on the caller's thread.
    pub(crate) fn append(&self, batch: Batch) -> Append {
        let pen = match &self.hand {
            Hand::Thread(_) => None,
            Hand::Caller(pen) => Some(Arc::clone(pen)),
        };
        match self.hand_over(batch) {
            Ok(done) => Append::new(async move {
                if let Some(pen) = pen {
                    lock(&pen).turn_now();
                }
                done.await.unwrap_or_else(|_| {
                    Err(AppendError::Unsettled {
                        why: "the writer died".into(),
                    })
                })
            }),
            Err(error) => Append::new(std::future::ready(Err(error))),
        }
    }

    fn hand_over(
        &self,
        batch: Batch,
    ) -> Result<oneshot::Receiver<Result<crate::face::Appended, AppendError>>, AppendError> {
        if batch.entries.is_empty() {
            return Err(AppendError::Refused {
                why: "the batch has no entries".into(),
            });
        }
        let mut draft = Draft::new(self.epoch);
        for entry in &batch.entries {
            draft
                .add(|out| codec::encode(entry, out))
                .map_err(|error| AppendError::Refused {
                    why: error.to_string(),
                })?;
            if draft.stored_bytes() > self.max_bytes {
                return Err(AppendError::TooLarge {
                    bytes: draft.stored_bytes(),
                    max: self.max_bytes,
                });
            }
        }
        let (reply, done) = oneshot::channel();
        let job = Job {
            draft,
            changes: batch.entries.iter().filter_map(Change::of).collect(),
            entries: batch.entries,
            starts_effects: batch.starts_effects,
            reply,
        };
        self.shared.push(job)?;
        Ok(done)
    }

    pub(crate) fn durable(&self) -> Sequence {
        self.shared.durable()
    }

    pub(crate) fn disabled(&self) -> Option<String> {
        self.shared.disabled()
    }

    pub(crate) fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// The end of what is durable now, hashed; `None` if the writer ended before it came so far.
    pub(crate) fn head(&self) -> Option<Head> {
        self.shared.wait_hashed()
    }

    /// Waits until the follower has been handed everything that is durable now.
    pub(crate) fn wait_fed(&self) {
        self.shared.wait_fed();
    }

    /// For those who have no threads: writes what was handed over, and makes a segment ready if
    /// one is wanted.
    #[cfg(any(test, feature = "simulated"))]
    pub(crate) fn turn_now(&self) {
        if let Hand::Caller(pen) = &self.hand {
            let mut pen = lock(pen);
            pen.turn_now();
            pen.supply_now();
        }
    }

    /// Writes what has been taken, then ends.
    pub(crate) fn close(&mut self) {
        self.shared.close();
        match &mut self.hand {
            Hand::Thread(thread) => {
                if let Some(thread) = thread.take() {
                    // A panic of the thread has been reported by its own message and has disabled
                    // us.
                    let _ = thread.join();
                }
            }
            // A pen that panicked is not asked to write again.
            Hand::Caller(pen) => {
                if let Ok(mut pen) = pen.lock() {
                    pen.turn_now();
                    pen.finish();
                }
            }
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}
