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

use super::maker::Maker;
use crate::checkpoints::{Head, Notary};
use crate::disk::{Disk, DiskFile};
use crate::drive::Drive;
use crate::error::AppendError;
use crate::format::entry::JournalId;
use crate::format::segment::PAGE_BYTES;

/// How long a failed try is left alone before the next, unless somebody asks.
const PAUSE: Duration = Duration::from_secs(1);

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
    pub(crate) drive: Drive,
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
    hand: Hand,
}

/// Who makes segments ready, and checkpoints of what is sealed.
#[derive(Debug)]
enum Hand {
    /// A thread, until it is joined.
    Thread(Option<JoinHandle<()>>),
    /// Whoever waits for one.
    Caller(Maker, Arc<Notary>),
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

/// Whether a segment is to be made.
#[derive(PartialEq, Eq)]
enum Due {
    No,
    /// After a pause, since the last try failed.
    Later,
    Now,
}

impl State {
    fn due(&self) -> Due {
        match &self.trouble {
            Some(Refusal::Broken(_)) => Due::No,
            _ if self.ready.len() >= self.wanted => Due::No,
            Some(_) if !self.poked => Due::Later,
            _ => Due::Now,
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tries once to make the next segment ready.
    fn try_once<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        maker: &Maker,
    ) -> MutexGuard<'a, State> {
        state.poked = false;
        let number = state.next;
        drop(state);
        let made = maker.make(number);
        let mut state = self.lock();
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
        self.tried.notify_all();
        state
    }

    /// Makes the checkpoints of what is sealed.
    fn sign<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        notary: &Notary,
    ) -> MutexGuard<'a, State> {
        while let Some(head) = state.sealed.pop_front() {
            drop(state);
            notary.write_if_signing(head);
            state = self.lock();
        }
        state
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
            drive,
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
        let hand = match drive {
            Drive::Threads => {
                let theirs = Arc::clone(&shared);
                Hand::Thread(Some(
                    std::thread::Builder::new()
                        .name("intendant-segments".into())
                        .spawn(move || run(&theirs, &maker, &notary))?,
                ))
            }
            Drive::Caller => Hand::Caller(maker, notary),
        };
        Ok(Self { shared, hand })
    }

    /// For those who have no thread: makes a segment ready if one is due, and the checkpoints of
    /// what is sealed.
    #[cfg(any(test, feature = "simulated"))]
    pub(crate) fn turn_now(&self) {
        if let Hand::Caller(maker, notary) = &self.hand {
            let mut state = self.shared.lock();
            if state.due() == Due::Now {
                state = self.shared.try_once(state, maker);
            }
            drop(self.shared.sign(state, notary));
        }
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
            state = match &self.hand {
                Hand::Thread(_) => self
                    .shared
                    .tried
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Hand::Caller(maker, _) => self.shared.try_once(state, maker),
            };
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
        match &mut self.hand {
            Hand::Thread(thread) => {
                if let Some(thread) = thread.take() {
                    // A panic of the thread has been reported by its own message; nothing is left
                    // to do.
                    let _ = thread.join();
                }
            }
            Hand::Caller(_, notary) => drop(self.shared.sign(self.shared.lock(), notary)),
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
        // A spare that somebody may be waiting for goes first.
        if state.closed || state.due() != Due::Now {
            state = shared.sign(state, notary);
        }
        if state.closed {
            return;
        }
        match state.due() {
            Due::Now => state = shared.try_once(state, maker),
            Due::No => {
                state.poked = false;
                state = shared
                    .asked
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            Due::Later => {
                let (back, timeout) = shared
                    .asked
                    .wait_timeout(state, PAUSE)
                    .unwrap_or_else(PoisonError::into_inner);
                state = back;
                if timeout.timed_out() {
                    state.poked = true;
                }
            }
        }
    }
}

struct CloseOnExit<'a>(&'a Shared);

impl Drop for CloseOnExit<'_> {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.tried.notify_all();
    }
}
