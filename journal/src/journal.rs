//! The embedded journal: a folder of this machine, opened by one process at a time.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::blobs::Blobs;
use crate::checkpoints::{CheckpointError, Notary, Signer, Verifier, Written};
use crate::clocks::Clocks;
use crate::disk::{Disk, RealDisk};
use crate::drive::Drive;
use crate::error::{AppendError, OpenError, ReadError};
use crate::face::{Append, Batch, IntentLog, RunFilter, RunRow, Stats};
use crate::format::entry::{BlobRef, Epoch, JournalId, Recorded, Sequence};
use crate::format::segment;
use crate::lock::Held;
use crate::opening::{Creation, open};
use crate::projection::Projection;
use crate::recovery::{Readers, io_error};
use crate::surroundings::Surroundings;
use crate::writer::Writer;

/// Name of the folder of the log in the journal's folder.
pub(crate) const SEGMENTS: &str = "journal";
/// Name of the folder of blobs in the journal's folder.
pub(crate) const BLOBS: &str = "blobs";

/// How a journal is opened.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) segment_bytes: u64,
    pub(crate) new_journal: bool,
    pub(crate) program: String,
    pub(crate) state_home: Option<PathBuf>,
    pub(crate) signer: Option<Arc<Signer>>,
    pub(crate) disk: Arc<dyn Disk>,
    readers: Readers,
    pub(crate) drive: Drive,
    /// In place of what this process would find around it.
    pub(crate) surroundings: Option<Surroundings>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: segment::DEFAULT_BYTES,
            new_journal: false,
            program: concat!("intendant-journal ", env!("CARGO_PKG_VERSION")).into(),
            state_home: None,
            signer: None,
            disk: Arc::new(RealDisk),
            readers: Readers::per_core(),
            drive: Drive::Threads,
            surroundings: None,
        }
    }
}

impl Options {
    /// Segments of 64 MiB on the real disk.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Size of the segments made from now on: a multiple of 4096, at least 64 KiB, at most 1 GiB.
    #[must_use]
    pub fn segment_bytes(mut self, bytes: u64) -> Self {
        self.segment_bytes = bytes;
        self
    }

    /// Accept that another journal is recorded for the path: begin a new one, or take the one that
    /// is there.
    #[must_use]
    pub fn new_journal(mut self, new_journal: bool) -> Self {
        self.new_journal = new_journal;
        self
    }

    /// Name and version of the program, for the entry that records the opening.
    #[must_use]
    pub fn program(mut self, program: impl Into<String>) -> Self {
        self.program = program.into();
        self
    }

    /// The folder in place of `$XDG_STATE_HOME`.
    #[must_use]
    pub fn state_home(mut self, folder: impl Into<PathBuf>) -> Self {
        self.state_home = Some(folder.into());
        self
    }

    /// Signs checkpoints with this key. Without one the journal is unsigned: it has no checkpoints,
    /// and nobody who can write to its folder is kept from shortening it unseen.
    #[must_use]
    pub fn signer(mut self, signer: Signer) -> Self {
        self.signer = Some(Arc::new(signer));
        self
    }

    /// The keys by which checkpoints in the folder are judged.
    pub(crate) fn keys(&self) -> Vec<Verifier> {
        let signer = self.signer.iter();
        signer.map(|signer| signer.verifier().clone()).collect()
    }

    /// Another disk than the real one.
    #[must_use]
    pub fn disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.disk = disk;
        self
    }

    /// How many threads read the log at an opening, 0 for none beside the calling one. One for each
    /// core unless asked otherwise. What is found is the same.
    #[must_use]
    pub fn recovery_threads(mut self, threads: usize) -> Self {
        self.readers = NonZeroUsize::new(threads).map_or(Readers::Caller, Readers::Threads);
        self
    }

    /// Who reads the log. A journal without threads has none for that either, whatever was asked.
    pub(crate) fn readers(&self) -> Readers {
        match self.drive {
            Drive::Threads => self.readers,
            Drive::Caller => Readers::Caller,
        }
    }

    /// Opens a journal that exists.
    ///
    /// # Errors
    /// [`OpenError`]; in case of damage no byte was changed.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Journal, OpenError> {
        open(self, path.as_ref(), Creation::Never)
    }

    /// Opens a journal, or creates one in a missing or empty folder for which none is recorded.
    ///
    /// # Errors
    /// As for [`Options::open`].
    pub fn open_or_create(&self, path: impl AsRef<Path>) -> Result<Journal, OpenError> {
        open(self, path.as_ref(), Creation::Allowed)
    }
}

/// What an opening found and did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recovered {
    /// The journal was created by this opening.
    pub created: bool,
    /// Sequence of the last entry that was there.
    pub end: Sequence,
    /// Intents that were not settled by then.
    pub open_intents: u64,
    /// Bytes of a torn end that were cut. What they held had never been acknowledged.
    pub cut_bytes: u64,
    /// File and offset where the first cut began.
    pub cut_at: Option<(PathBuf, u64)>,
    /// Bytes by which segments that were too short were filled up with zeros.
    pub filled_bytes: u64,
    /// Bytes rewritten and synced because nothing proved that they were durable.
    pub rewritten_bytes: u64,
    /// Entries that the projection did not have yet.
    pub projected: u64,
    /// A projection that could not be used: where it is now, and why.
    pub set_aside: Option<(PathBuf, String)>,
}

/// The embedded journal.
///
/// Dropping it writes what was handed over, makes the projection durable and lets go of the lock.
#[derive(Debug)]
pub struct Journal {
    // Dropped in this order: the writer feeds the projection, and the lock goes last.
    pub(crate) writer: Writer,
    pub(crate) notary: Arc<Notary>,
    pub(crate) projection: Arc<Projection>,
    pub(crate) blobs: Blobs,
    pub(crate) id: JournalId,
    pub(crate) epoch: Epoch,
    pub(crate) folder: PathBuf,
    pub(crate) inline_max: usize,
    pub(crate) clocks: Clocks,
    pub(crate) recovered: Recovered,
    pub(crate) lock: Mutex<Held>,
}

impl Journal {
    /// Opens a journal that exists, with default options.
    ///
    /// # Errors
    /// As for [`Options::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Options::new().open(path)
    }

    /// Opens or creates a journal, with default options.
    ///
    /// # Errors
    /// As for [`Options::open_or_create`].
    pub fn open_or_create(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Options::new().open_or_create(path)
    }

    /// What this opening found and did.
    #[must_use]
    pub fn recovered(&self) -> &Recovered {
        &self.recovered
    }

    /// The journal's folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Says in `LOCK` on which socket this process takes commands; `None` once it no longer does.
    ///
    /// # Errors
    /// [`OpenError::Io`] if `LOCK` cannot be written.
    pub fn set_socket(&self, socket: Option<&Path>) -> Result<(), OpenError> {
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        lock.set_socket(socket.map(Path::to_owned))
            .map_err(io_error(lock.path(), "writing the socket's path"))
    }

    /// Makes a checkpoint of everything that is durable now, or gives back the last one if that is
    /// of the same. It is in the folder when this returns; a copy kept elsewhere is what proves a
    /// later truncation of the whole folder.
    ///
    /// # Errors
    /// [`CheckpointError`]; recording goes on.
    pub fn checkpoint(&self) -> Result<Written, CheckpointError> {
        match self.writer.head() {
            Some(head) => self.notary.write(head),
            None => Err(CheckpointError::Disabled {
                why: self.writer.disabled().unwrap_or_else(|| "its end".into()),
            }),
        }
    }

    /// The public half of the key that checkpoints are signed with; `None` if they are not.
    #[must_use]
    pub fn signed_by(&self) -> Option<&Verifier> {
        self.notary.signer().map(Signer::verifier)
    }

    /// Why the last checkpoint could not be written, until one can.
    #[must_use]
    pub fn checkpoint_trouble(&self) -> Option<String> {
        self.notary.trouble()
    }

    /// Writes what was handed over and lets go of everything.
    pub fn close(self) {
        drop(self);
    }
}

impl IntentLog for Journal {
    fn id(&self) -> JournalId {
        self.id
    }

    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn boot_since(&self) -> Epoch {
        self.clocks.boot_since(self.epoch)
    }

    fn last_wall_ms(&self) -> i64 {
        self.clocks.last_wall_ms()
    }

    fn append(&self, batch: Batch) -> Append {
        self.writer.append(batch)
    }

    fn durable(&self) -> Sequence {
        self.writer.durable()
    }

    fn disabled(&self) -> Option<String> {
        self.writer.disabled()
    }

    fn history(&self, run: &str) -> Result<Vec<Recorded>, ReadError> {
        self.writer.wait_fed();
        self.projection.history(run)
    }

    fn runs(&self, filter: RunFilter) -> Result<Vec<RunRow>, ReadError> {
        self.writer.wait_fed();
        self.projection.runs(filter)
    }

    fn claim(&self) -> Result<Vec<String>, ReadError> {
        let rows = self.runs(RunFilter::Open)?;
        Ok(rows.into_iter().map(|row| row.run).collect())
    }

    fn put_blob(&self, content: &[u8]) -> Result<BlobRef, AppendError> {
        if let Some(why) = self.writer.disabled() {
            return Err(AppendError::Disabled { why });
        }
        self.blobs.put(content)
    }

    fn get_blob(&self, blob: &BlobRef) -> Result<Vec<u8>, ReadError> {
        self.blobs.get(blob)
    }

    fn inline_max_bytes(&self) -> usize {
        self.inline_max
    }

    fn stats(&self) -> Stats {
        self.writer.stats()
    }
}
