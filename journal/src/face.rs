//! The narrow face: all that an engine may know of a journal.
//!
//! Nothing above this trait knows files, redb or SQL. Any implementation must pass
//! `conformance` (cargo feature of that name).

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::error::{AppendError, ReadError};
use crate::format::entry::{BlobRef, Entry, Epoch, JournalId, Recorded, Sequence};

/// A journal as the engine sees it.
///
/// All methods may be called from any thread. `append` never blocks; the other calls may block for
/// as long as a read of the disk takes and are made outside hot paths.
pub trait IntentLog: Send + Sync + 'static {
    /// The journal's identity; part of every idempotency key.
    fn id(&self) -> JournalId;

    /// The epoch that this opening raised; carried by every entry it appends.
    fn epoch(&self) -> Epoch;

    /// The oldest epoch of the unbroken row of openings within the machine's current boot:
    /// boot-clock readings of entries from it on compare with the present one.
    fn boot_since(&self) -> Epoch {
        self.epoch()
    }

    /// The latest wall-clock time, in milliseconds since the Unix epoch, of any entry that was
    /// there before this opening. A present clock behind it is not to be trusted.
    fn last_wall_ms(&self) -> i64 {
        i64::MIN
    }

    /// Hands over a batch. Its entries become durable together, in order, or not at all; the
    /// returned future resolves once they are (power-loss durable), or with why they are not.
    ///
    /// The batch is taken into the order of the log at the call, not at the first poll; dropping
    /// the future does not take it back.
    fn append(&self, batch: Batch) -> Append;

    /// The highest sequence known durable.
    fn durable(&self) -> Sequence;

    /// Why the journal accepts nothing more, if it does not. Set once; only a reopening clears it.
    fn disabled(&self) -> Option<String>;

    /// All entries of a run up to the durable sequence at the call, in order; empty for an unknown
    /// run.
    ///
    /// # Errors
    /// [`ReadError`] if what is stored cannot be read or is damaged.
    fn history(&self, run: &str) -> Result<Vec<Recorded>, ReadError>;

    /// One row for each run up to the durable sequence at the call, oldest first.
    ///
    /// # Errors
    /// As for [`IntentLog::history`].
    fn runs(&self, filter: RunFilter) -> Result<Vec<RunRow>, ReadError>;

    /// Runs whose current pass has not ended and that this opening is to drive. The embedded
    /// journal has one owner and gives all of them.
    ///
    /// # Errors
    /// As for [`IntentLog::history`].
    fn claim(&self) -> Result<Vec<String>, ReadError>;

    /// Stores content by its hash, durable when the call returns. Storing the same content again
    /// is cheap.
    ///
    /// # Errors
    /// [`AppendError`] of class *refused*: nothing was promised.
    fn put_blob(&self, content: &[u8]) -> Result<BlobRef, AppendError>;

    /// Reads content back and checks it against its hash.
    ///
    /// # Errors
    /// [`ReadError`] if it is missing or damaged.
    fn get_blob(&self, blob: &BlobRef) -> Result<Vec<u8>, ReadError>;

    /// Longest payload, in bytes, that an entry may carry inline; longer ones go to blobs.
    fn inline_max_bytes(&self) -> usize;

    /// Counters since this opening.
    fn stats(&self) -> Stats;
}

/// Entries that become durable together or not at all.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The entries, in order. Never empty when appended.
    pub entries: Vec<Entry>,
    /// True if any entry lets a new effect start. On a full disk such a batch is refused while
    /// others (outcomes, answers, operators' words) still use the space kept for them.
    pub starts_effects: bool,
}

/// What an append resolves to: the sequences of its first and last entry, now durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Appended {
    /// Sequence of the batch's first entry.
    pub first: Sequence,
    /// Sequence of the batch's last entry.
    pub last: Sequence,
}

/// The future of an append.
pub struct Append(Pin<Box<dyn Future<Output = Result<Appended, AppendError>> + Send>>);

impl Append {
    /// Wraps an implementation's own future.
    pub fn new(
        future: impl Future<Output = Result<Appended, AppendError>> + Send + 'static,
    ) -> Self {
        Self(Box::pin(future))
    }
}

impl Future for Append {
    type Output = Result<Appended, AppendError>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

/// Which runs [`IntentLog::runs`] lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunFilter {
    /// Every run.
    All,
    /// Those whose current pass has not ended.
    Open,
}

/// What the projection keeps of each run.
#[derive(Clone, PartialEq, Debug)]
pub struct RunRow {
    /// The run's id.
    pub run: String,
    /// Name of its workflow.
    pub workflow: String,
    /// Version of the workflow in the current pass.
    pub version: u32,
    /// The current pass.
    pub pass: u32,
    /// True once the current pass has ended.
    pub ended: bool,
    /// `completed`, `failed` or `cancelled` once ended.
    pub end: Option<String>,
    /// Sequence of the run's first entry.
    pub first: Sequence,
    /// Sequence of its last entry.
    pub last: Sequence,
    /// Number of its entries.
    pub entries: u64,
}

/// Counters since the opening, for summaries and benchmarks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Entries made durable.
    pub entries: u64,
    /// Batches made durable.
    pub batches: u64,
    /// Syncs of the log (one a group).
    pub syncs: u64,
    /// Bytes of log used, padding included.
    pub log_bytes: u64,
}
