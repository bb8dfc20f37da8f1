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

use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::oneshot;

pub(crate) use mark::{MARK, Mark, read_mark};
pub(crate) use pen::{Active, WriterStart};
use queue::{Job, Shared};
use space::Change;

use crate::checkpoints::Head;
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
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(crate) fn start(start: WriterStart) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::new(Head {
            sequence: start.durable,
            chain: start.chain,
        }));
        let epoch = start.epoch;
        let segment = usize::try_from(start.segment_bytes).unwrap_or(usize::MAX);
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("intendant-writer".into())
            .spawn(move || pen::run(&theirs, start))?;
        Ok(Self {
            shared,
            epoch,
            max_bytes: segment - PAGE_BYTES - HEAD_BYTES,
            thread: Some(thread),
        })
    }

    /// Hands over a batch; see [`crate::face::IntentLog::append`]. Encodes on the caller's thread.
    pub(crate) fn append(&self, batch: Batch) -> Append {
        match self.hand_over(batch) {
            Ok(done) => Append::new(async move {
                done.await.unwrap_or_else(|_| {
                    Err(AppendError::Unsettled {
                        why: "the writer thread died".into(),
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

    /// Writes what has been taken, then ends the thread.
    pub(crate) fn close(&mut self) {
        self.shared.close();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported by its own message and has disabled us.
            let _ = thread.join();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}
