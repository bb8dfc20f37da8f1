//! Reading segments before their turn, on threads of their own.
//!
//! A segment's head carries the sequence and the chain value before its first entry, so that a
//! segment can be checked by itself. Whether its head is the right one is known only once the
//! segment before has been read.
//!
//! Invariants:
//! - A reader judges nothing. It hands on what checks out and, where anything else is, the window
//!   it read through: the scan goes on there, knowing everything before it, and reads and judges
//!   what it would have read and judged had nobody read ahead.
//! - The scan takes the segments in order, and so do the readers: whoever is waited for can go on.
//! - Memory is bounded: a reader waits while its segment has enough pieces that nobody has taken,
//!   and begins no segment far ahead of the one that the scan is at.
//! - Once the scan has ended, however it ended, readers begin nothing more.

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Scope};

use super::scan::ScanStart;
use super::step::{Fault, Seen, State, Step, group_of};
use super::window::Window;
use crate::disk::Access;
use crate::format::entry::{Epoch, Recorded};
use crate::format::frame::Home;
use crate::format::segment::{PAGE_BYTES, SegmentHead};

/// How much may wait to be visited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Backlog {
    /// Pieces of a segment.
    pub(super) pieces: usize,
    /// Most gists in a piece, unless its last batch has more.
    pub(super) piece_gists: usize,
    /// Most bytes of log in a piece, unless its last batch has more.
    pub(super) piece_bytes: u64,
}

impl Backlog {
    /// For gists that are small: those of a whole segment may wait, so that its reader goes on to
    /// the next one while the scan is still at the one before.
    pub(crate) const SMALL: Self = Self {
        pieces: 512,
        piece_gists: 4096,
        piece_bytes: 1024 * 1024,
    };
    /// For whole entries.
    pub(crate) const WHOLE: Self = Self {
        pieces: 16,
        ..Self::SMALL
    };
}

/// What a reader tells of a segment, in this order: its head, pieces, and how it ended. Nothing
/// more comes from a reader that ended in the middle.
pub(super) enum News<T> {
    Head {
        head: SegmentHead,
        next: u64,
    },
    Piece(Box<Piece<T>>),
    /// The scan is to go on from here, through this window.
    Rest {
        at: u64,
        window: Window,
    },
    /// The disk failed.
    Failed {
        doing: &'static str,
        source: io::Error,
    },
}

/// Batches in a row that check out, given the head of their segment.
pub(super) struct Piece<T> {
    /// Epoch of the first batch.
    pub(super) first_epoch: Epoch,
    /// What is known after the last batch.
    pub(super) state: State,
    /// Where the group of the last batch begins.
    pub(super) group: u64,
    /// Where the last batch ends.
    pub(super) end: u64,
    pub(super) gists: Vec<T>,
    /// Those of the watched entries that are in it.
    pub(super) seen: Vec<Seen>,
}

/// What the readers and the scan share.
struct Course<T> {
    places: Mutex<Places<T>>,
    /// The scan went on to the next segment, or ended.
    moved: Condvar,
    /// The scan has ended: what is read now is read for nobody.
    ended: AtomicBool,
}

struct Places<T> {
    /// Segments that nobody has begun, and where to tell of them.
    waiting: VecDeque<(usize, SyncSender<News<T>>)>,
    /// The last segment that may be begun.
    up_to: usize,
    readers: usize,
}

impl<T> Course<T> {
    fn places(&self) -> MutexGuard<'_, Places<T>> {
        // Each change under the lock is one step.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next segment to be read; waits while it is too far ahead.
    fn next(&self) -> Option<(usize, SyncSender<News<T>>)> {
        let mut places = self.places();
        loop {
            let (index, _) = places.waiting.front()?;
            if *index <= places.up_to {
                return places.waiting.pop_front();
            }
            places = self
                .moved
                .wait(places)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A reader has ended, or could not be started. With the last one, nothing is told any more.
    fn one_less(&self) {
        let mut places = self.places();
        places.readers -= 1;
        if places.readers == 0 {
            places.waiting.clear();
        }
    }

    fn ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}

/// Counts a reader out, even one that panics.
struct Working<T>(Arc<Course<T>>);

impl<T> Drop for Working<T> {
    fn drop(&mut self) {
        self.0.one_less();
    }
}

/// The readers, as the scan sees them.
pub(super) struct Ahead<T> {
    news: VecDeque<(usize, Receiver<News<T>>)>,
    course: Arc<Course<T>>,
    /// How many segments ahead of the scan may be begun.
    distance: usize,
}

impl<T: Send> Ahead<T> {
    /// Starts threads that read these segments. Those that cannot be started are done without.
    pub(super) fn start<'scope, 'a: 'scope>(
        scope: &'scope Scope<'scope, '_>,
        reader: Reader<'a, T>,
        segments: RangeInclusive<usize>,
        threads: NonZeroUsize,
    ) -> Self
    where
        T: 'scope,
    {
        let distance = threads.get().min(segments.clone().count());
        let up_to = segments.start() + distance;
        let (mut news, mut waiting) = (VecDeque::new(), VecDeque::new());
        for index in segments {
            let (tell, told) = sync_channel(reader.backlog.pieces);
            waiting.push_back((index, tell));
            news.push_back((index, told));
        }
        let course = Arc::new(Course {
            places: Mutex::new(Places {
                waiting,
                up_to,
                readers: distance,
            }),
            moved: Condvar::new(),
            ended: AtomicBool::new(false),
        });
        for _ in 0..distance {
            let working = Working(Arc::clone(&course));
            let thread = Builder::new().name("intendant-recovery".to_owned());
            let started = thread.spawn_scoped(scope, move || {
                let Working(course) = &working;
                while let Some((index, tell)) = course.next() {
                    reader.read(index, course, &tell);
                }
            });
            if let Err(error) = started {
                tracing::debug!(%error, "a thread that reads the log could not be started");
            }
        }
        Self {
            news,
            course,
            distance,
        }
    }

    /// What is told of a segment, asked in order.
    pub(super) fn news_of(&mut self, index: usize) -> Option<Receiver<News<T>>> {
        self.course.places().up_to = index + self.distance;
        self.course.moved.notify_all();
        let (found, told) = self.news.pop_front()?;
        debug_assert_eq!(found, index, "segments are asked for in order");
        Some(told)
    }
}

impl<T> Drop for Ahead<T> {
    fn drop(&mut self) {
        self.course.ended.store(true, Ordering::Relaxed);
        self.course.places().waiting.clear();
        self.course.moved.notify_all();
        // Readers that are waiting to tell something find out and end.
        self.news.clear();
    }
}

/// Reads a segment by itself.
pub(super) struct Reader<'a, T> {
    pub(super) start: &'a ScanStart<'a>,
    pub(super) gist: &'a (dyn Fn(Recorded) -> Option<T> + Sync),
    pub(super) backlog: Backlog,
}

impl<T> Clone for Reader<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Reader<'_, T> {}

/// Nobody listens any more.
struct Unheard;

impl<T> Reader<'_, T> {
    fn read(&self, index: usize, course: &Course<T>, tell: &SyncSender<News<T>>) {
        let told = self.pieces(index, &mut |news| {
            if course.ended() {
                return Err(Unheard);
            }
            tell.send(news).map_err(|_| Unheard)
        });
        // The scan has ended, or reads this segment by itself.
        let _: Result<(), Unheard> = told;
    }

    fn pieces(
        &self,
        index: usize,
        tell: &mut dyn FnMut(News<T>) -> Result<(), Unheard>,
    ) -> Result<(), Unheard> {
        let found = &self.start.layout.segments[index];
        let failed = |doing, source| News::Failed { doing, source };
        let mut window = match self.start.disk.open(&found.path, Access::Read) {
            Ok(file) => Window::new(file),
            Err(source) => return tell(failed("opening it", source)),
        };
        let home = Home::new(self.start.journal, found.number);
        // No batch has this watermark: the first one must lead its group.
        let mut state = State {
            expected: 0,
            epoch: Epoch(0),
            chain: self.start.from.chain(),
            watermark: u64::MAX,
        };
        let mut at = PAGE_BYTES as u64;
        let mut begun = false;
        let mut group = None;
        let mut begin = at;
        let mut piece: Option<Box<Piece<T>>> = None;
        loop {
            match state.step(&mut window, &home, found, at, begun, self.start.watch) {
                Ok(Step::Head { head, next }) => {
                    state.expected = head.first.0;
                    state.chain = head.chain;
                    begun = true;
                    at = next;
                    tell(News::Head { head, next })?;
                }
                Ok(Step::Padding { next }) => at = next,
                Ok(Step::Batch {
                    head,
                    entries,
                    chain,
                    seen,
                    next,
                }) => {
                    let here = group_of(&head, at, group);
                    group = Some(here);
                    state = State::after(&head, chain);
                    let gists = entries.into_iter().filter_map(self.gist);
                    let mut filled = piece.take().unwrap_or_else(|| {
                        begin = at;
                        Box::new(Piece {
                            first_epoch: head.epoch,
                            state,
                            group: here,
                            end: next,
                            gists: Vec::new(),
                            seen: Vec::new(),
                        })
                    });
                    filled.gists.extend(gists);
                    filled.seen.extend(seen);
                    (filled.state, filled.group, filled.end) = (state, here, next);
                    let full = filled.gists.len() >= self.backlog.piece_gists
                        || next - begin >= self.backlog.piece_bytes;
                    if full {
                        tell(News::Piece(filled))?;
                    } else {
                        piece = Some(filled);
                    }
                    at = next;
                }
                Ok(Step::Stop(_)) | Err(Fault::Damage { .. }) => {
                    if let Some(piece) = piece {
                        tell(News::Piece(piece))?;
                    }
                    return tell(News::Rest { at, window });
                }
                Err(Fault::Io(source)) => {
                    if let Some(piece) = piece {
                        tell(News::Piece(piece))?;
                    }
                    return tell(failed("reading it", source));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
