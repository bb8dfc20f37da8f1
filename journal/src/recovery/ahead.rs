//! Reading segments before their turn, on threads of their own.
//!
//! A segment's head carries the sequence and the chain value before its first entry, so that a
//! segment can be checked by itself. Whether its head is the right one is known only once the
//! segment before has been read.
//!
//! Invariants:
//! - A reader judges nothing. It hands on what checks out and ends where anything else is: the
//!   scan reads that place again, knowing everything before it, and judges it as if nobody had
//!   read ahead.
//! - The scan takes the segments in order, and so do the readers: whoever is waited for can go on.
//! - Memory is bounded: a reader waits once its segment has enough pieces that nobody has taken.

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, Scope};

use super::scan::ScanStart;
use super::step::{Fault, State, Step, group_of};
use super::window::Window;
use crate::disk::Access;
use crate::format::entry::{Epoch, Recorded};
use crate::format::frame::Home;
use crate::format::segment::{PAGE_BYTES, SegmentHead};

/// Most gists in a piece, unless its last batch has more.
const PIECE_GISTS: usize = 4096;
/// Most bytes of log in a piece, unless its last batch has more.
const PIECE_BYTES: u64 = 1024 * 1024;

/// What a reader tells of a segment, in this order: its head, then pieces; nothing more once
/// something does not check out.
pub(super) enum News<T> {
    Head {
        head: SegmentHead,
        next: u64,
    },
    Piece(Box<Piece<T>>),
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
}

type Waiting<T> = VecDeque<(usize, SyncSender<News<T>>)>;

/// The readers, as the scan sees them.
pub(super) struct Ahead<T> {
    news: VecDeque<(usize, Receiver<News<T>>)>,
}

impl<T: Send> Ahead<T> {
    /// Starts threads that read these segments. Those that cannot be started are done without.
    pub(super) fn start<'scope, 'a: 'scope>(
        scope: &'scope Scope<'scope, '_>,
        reader: Reader<'a, T>,
        segments: RangeInclusive<usize>,
        threads: NonZeroUsize,
        pieces: usize,
    ) -> Self
    where
        T: 'scope,
    {
        let count = threads.get().min(segments.clone().count());
        let (mut news, mut waiting) = (VecDeque::new(), Waiting::new());
        for index in segments {
            let (tell, told) = sync_channel(pieces);
            waiting.push_back((index, tell));
            news.push_back((index, told));
        }
        // Only the threads hold on to this: if all of them are gone, nobody waits for news.
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..count {
            let waiting = Arc::clone(&waiting);
            let thread = Builder::new().name("intendant-recovery".to_owned());
            let started = thread.spawn_scoped(scope, move || {
                while let Some((index, tell)) = next(&waiting) {
                    reader.read(index, &tell);
                }
            });
            if let Err(error) = started {
                tracing::debug!(%error, "a thread that reads the log could not be started");
                break;
            }
        }
        Self { news }
    }

    /// What is told of a segment, asked in order.
    pub(super) fn news_of(&mut self, index: usize) -> Option<Receiver<News<T>>> {
        let (found, told) = self.news.pop_front()?;
        debug_assert_eq!(found, index, "segments are asked for in order");
        Some(told)
    }
}

impl<T> Drop for Ahead<T> {
    fn drop(&mut self) {
        // Readers that are waiting to tell something find out and end.
        self.news.clear();
    }
}

fn next<T>(waiting: &Mutex<Waiting<T>>) -> Option<(usize, SyncSender<News<T>>)> {
    waiting
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .pop_front()
}

/// Reads a segment by itself.
pub(super) struct Reader<'a, T> {
    pub(super) start: &'a ScanStart<'a>,
    pub(super) gist: &'a (dyn Fn(Recorded) -> Option<T> + Sync),
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
    fn read(&self, index: usize, tell: &SyncSender<News<T>>) {
        let told = self.pieces(index, &mut |news| tell.send(news).map_err(|_| Unheard));
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
            match state.step(&mut window, &home, found, at, begun) {
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
                        })
                    });
                    filled.gists.extend(gists);
                    (filled.state, filled.group, filled.end) = (state, here, next);
                    if filled.gists.len() >= PIECE_GISTS || next - begin >= PIECE_BYTES {
                        tell(News::Piece(filled))?;
                    } else {
                        piece = Some(filled);
                    }
                    at = next;
                }
                Ok(Step::Stop(_)) | Err(Fault::Damage { .. }) => {
                    return piece.map_or(Ok(()), |piece| tell(News::Piece(piece)));
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
