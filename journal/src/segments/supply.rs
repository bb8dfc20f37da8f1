//! Spare segments, made ready ahead by a thread of their own, so that a roll only swaps a handle.
//!
//! The supply knows one trouble that passes (no room, no permission, no descriptors: the file is
//! taken away again and another try is made later) and one that does not: a failed sync. After
//! that nothing on this disk can be believed, and the writer disables itself.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::SegmentName;
use crate::checkpoints::{Head, Notary};
use crate::disk::{Disk, DiskFile, Site, remove_if_there, write_all_at};
use crate::error::AppendError;
use crate::format::entry::JournalId;
use crate::format::segment::{PAGE_BYTES, SegmentHeader};

/// How long a failed try is left alone before the next, unless somebody asks.
const PAUSE: Duration = Duration::from_secs(1);
/// Zeros are written in pieces of this size.
const PIECE_BYTES: usize = 1024 * 1024;

/// A segment that is ready for use.
#[derive(Debug)]
pub(crate) struct Spare {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    pub(crate) file: Arc<dyn DiskFile>,
}

impl Spare {
    /// Bytes that groups may take up in it.
    pub(crate) fn room(&self) -> u64 {
        self.bytes - PAGE_BYTES as u64
    }
}

/// What the supply begins with.
#[derive(Debug)]
pub(crate) struct SupplyStart {
    pub(crate) disk: Arc<dyn Disk>,
    /// The folder `journal`.
    pub(crate) folder: PathBuf,
    pub(crate) journal: JournalId,
    /// Size of new segments.
    pub(crate) segment_bytes: u64,
    /// Spares found at the opening, in order.
    pub(crate) spares: Vec<Spare>,
    /// Number of the next segment to be made.
    pub(crate) next: u64,
    /// Makes the checkpoints of what is sealed.
    pub(crate) notary: Arc<Notary>,
}

/// Why there is no spare.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// None could be made now; a later try may succeed.
    NoSpace(String),
    /// A sync failed: none will be made any more.
    Broken(String),
}

impl From<Refusal> for AppendError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NoSpace(why) => Self::NoSpace { why },
            Refusal::Broken(why) => Self::Disabled { why },
        }
    }
}

#[derive(Debug)]
pub(crate) struct Supply {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Something was asked of the thread.
    asked: Condvar,
    /// The thread ended a try.
    tried: Condvar,
}

#[derive(Debug)]
struct State {
    ready: VecDeque<Spare>,
    /// How many are to be ready.
    wanted: usize,
    next: u64,
    /// Tries ended so far, good or bad.
    tries: u64,
    /// The last try's trouble, until one succeeds.
    trouble: Option<Refusal>,
    /// Somebody wants a try now, whatever the last one said.
    poked: bool,
    closed: bool,
    /// Ends of the log that were sealed, whose checkpoints are still to be made.
    sealed: VecDeque<Head>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Supply {
    /// Starts the thread, which begins at once to keep one spare ready.
    pub(crate) fn start(start: SupplyStart) -> io::Result<Self> {
        let SupplyStart {
            disk,
            folder,
            journal,
            segment_bytes,
            spares,
            next,
            notary,
        } = start;
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                ready: spares.into(),
                wanted: 1,
                next,
                tries: 0,
                trouble: None,
                poked: false,
                closed: false,
                sealed: VecDeque::new(),
            }),
            asked: Condvar::new(),
            tried: Condvar::new(),
        });
        let maker = Maker {
            disk,
            folder,
            journal,
            segment_bytes,
        };
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("intendant-segments".into())
            .spawn(move || run(&theirs, &maker, &notary))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// The trouble that keeps a spare from being ready, if there is one. Asking lets the thread
    /// try again at once.
    pub(crate) fn trouble(&self) -> Option<Refusal> {
        let mut state = self.shared.lock();
        let trouble = state.trouble.clone()?;
        match trouble {
            Refusal::NoSpace(_) if !state.ready.is_empty() => return None,
            Refusal::NoSpace(_) => {
                state.poked = true;
                self.shared.asked.notify_one();
            }
            Refusal::Broken(_) => {}
        }
        Some(trouble)
    }

    /// The next spare; another is begun at once. Waits while the thread is about to make one.
    pub(crate) fn take(&self) -> Result<Spare, Refusal> {
        let mut state = self.shared.lock();
        if state.ready.is_empty() {
            state = self.try_for(state, 1)?;
        }
        match state.ready.pop_front() {
            Some(spare) => {
                state.wanted = 1;
                // Whether there is room for the next one is to be seen by trying, not by what an
                // earlier try for a further one met.
                if matches!(state.trouble, Some(Refusal::NoSpace(_))) {
                    state.trouble = None;
                }
                self.shared.asked.notify_one();
                Ok(spare)
            }
            None => Err(Refusal::NoSpace("the journal is closing".into())),
        }
    }

    /// The segment that ends here is full, or the journal is closed: its checkpoint is made by the
    /// thread, before it ends.
    pub(crate) fn seal(&self, head: Head) {
        self.shared.lock().sealed.push_back(head);
        self.shared.asked.notify_one();
    }

    /// Waits until so many bytes of room are ready, of which each spare loses `waste` at its end,
    /// or until a try failed.
    pub(crate) fn ensure_room(&self, bytes: u64, waste: u64) -> Result<(), Refusal> {
        let room = |state: &State| -> u64 {
            let spares = state.ready.iter();
            spares.map(|spare| spare.room().saturating_sub(waste)).sum()
        };
        let mut state = self.shared.lock();
        while room(&state) < bytes {
            if state.closed {
                return Err(Refusal::NoSpace("the journal is closing".into()));
            }
            let one_more = state.ready.len() + 1;
            state = match self.try_for(state, one_more) {
                Ok(state) => state,
                Err(refusal) => {
                    // Who needs more asks again; until then one spare is enough.
                    self.shared.lock().wanted = 1;
                    return Err(refusal);
                }
            };
        }
        Ok(())
    }

    /// Waits until `wanted` spares are ready or a try that began after the call failed.
    fn try_for<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        wanted: usize,
    ) -> Result<MutexGuard<'a, State>, Refusal> {
        state.wanted = state.wanted.max(wanted);
        state.poked = true;
        self.shared.asked.notify_one();
        let mut seen = state.tries;
        // A try that is under way now may have begun before space came back: allow it and one more.
        let mut left = 2;
        while state.ready.len() < wanted && !state.closed {
            if let Some(Refusal::Broken(why)) = &state.trouble {
                return Err(Refusal::Broken(why.clone()));
            }
            if state.tries != seen {
                seen = state.tries;
                if let Some(trouble) = &state.trouble {
                    left -= 1;
                    if left == 0 {
                        return Err(trouble.clone());
                    }
                    state.poked = true;
                    self.shared.asked.notify_one();
                }
            }
            state = self
                .shared
                .tried
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        Ok(state)
    }

    /// Ends the thread and waits for it and for the checkpoints that are due; a file half made is
    /// left to the next opening.
    pub(crate) fn close(&mut self) {
        {
            let mut state = self.shared.lock();
            state.closed = true;
            self.shared.asked.notify_all();
            self.shared.tried.notify_all();
        }
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported by its own message; nothing is left to do.
            let _ = thread.join();
        }
    }
}

impl Drop for Supply {
    fn drop(&mut self) {
        self.close();
    }
}

fn run(shared: &Shared, maker: &Maker, notary: &Notary) {
    // If this thread panics, nobody may wait for it for ever.
    let _guard = CloseOnExit(shared);
    let mut state = shared.lock();
    loop {
        let broken = matches!(state.trouble, Some(Refusal::Broken(_)));
        let due = state.ready.len() < state.wanted && !broken;
        // A spare that somebody may be waiting for goes first, unless it could not be made just now.
        if (state.closed || !due || state.trouble.is_some() && !state.poked)
            && let Some(head) = state.sealed.pop_front()
        {
            drop(state);
            notary.write_if_signing(head);
            state = shared.lock();
            continue;
        }
        if state.closed {
            return;
        }
        if !due {
            state.poked = false;
            state = shared
                .asked
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        if state.trouble.is_some() && !state.poked {
            let (back, timeout) = shared
                .asked
                .wait_timeout(state, PAUSE)
                .unwrap_or_else(PoisonError::into_inner);
            state = back;
            if !timeout.timed_out() && !state.poked {
                continue;
            }
            if state.closed {
                return;
            }
        }
        state.poked = false;
        let number = state.next;
        drop(state);
        let made = maker.make(number);
        state = shared.lock();
        match made {
            Ok(spare) => {
                state.ready.push_back(spare);
                state.next = number + 1;
                if state.trouble.take().is_some() {
                    tracing::info!(segment = number, "segments can be made ready again");
                }
            }
            Err(trouble) => {
                if state.trouble.is_none() {
                    tracing::warn!(segment = number, ?trouble, "no segment could be made ready");
                }
                state.trouble = Some(trouble);
            }
        }
        state.tries += 1;
        shared.tried.notify_all();
    }
}

struct CloseOnExit<'a>(&'a Shared);

impl Drop for CloseOnExit<'_> {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.tried.notify_all();
    }
}

struct Maker {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    journal: JournalId,
    segment_bytes: u64,
}

impl Maker {
    fn make(&self, number: u64) -> Result<Spare, Refusal> {
        let unfinished = SegmentName::Unfinished(number).path(&self.folder);
        let filled = self.fill(number, &unfinished);
        let file = match filled {
            Ok(file) => file,
            Err(error) => {
                // Its bytes are needed by others now; if even this fails, the next try begins
                // with the same removal.
                if let Err(error) = remove_if_there(&*self.disk, &unfinished, Site::SegmentRemove) {
                    tracing::warn!(%error, path = %unfinished.display(), "not removed");
                }
                return Err(Refusal::NoSpace(format!(
                    "{} cannot be made ready: {error}",
                    unfinished.display()
                )));
            }
        };
        let path = SegmentName::Segment(number).path(&self.folder);
        let broken = |what: &str, error: io::Error| {
            Refusal::Broken(format!("{what} {}: {error}", path.display()))
        };
        file.sync_all(Site::SegmentSync)
            .map_err(|error| broken("sync of", error))?;
        self.disk
            .rename(&unfinished, &path, Site::SegmentRename)
            .map_err(|error| {
                Refusal::NoSpace(format!(
                    "{} cannot be renamed: {error}",
                    unfinished.display()
                ))
            })?;
        self.disk
            .sync_dir(&self.folder, Site::SegmentDirSync)
            .map_err(|error| broken("sync of the folder of", error))?;
        Ok(Spare {
            number,
            bytes: self.segment_bytes,
            file,
        })
    }

    fn fill(&self, number: u64, path: &std::path::Path) -> io::Result<Arc<dyn DiskFile>> {
        remove_if_there(&*self.disk, path, Site::SegmentRemove)?;
        let file = self.disk.create(path, Site::SegmentCreate)?;
        let zeros =
            vec![0; PIECE_BYTES.min(usize::try_from(self.segment_bytes).unwrap_or(PIECE_BYTES))];
        let mut at = 0;
        while at < self.segment_bytes {
            let piece = (self.segment_bytes - at).min(zeros.len() as u64);
            let piece = usize::try_from(piece).unwrap_or(zeros.len());
            write_all_at(&*file, &zeros[..piece], at, Site::SegmentFill)?;
            at += piece as u64;
        }
        let header = SegmentHeader {
            journal: self.journal,
            number,
            bytes: self.segment_bytes,
        };
        write_all_at(&*file, &header.page(), 0, Site::SegmentHeader)?;
        Ok(file)
    }
}
