//! Reading the log from its first entry to its end.

use std::num::NonZeroUsize;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use super::ahead::{Ahead, Backlog, News, Reader};
use super::evidence::later_proof;
use super::layout::{Found, Layout};
use super::step::{Broken, Fault, Seen, State, Step, group_of};
use super::table::{Case, Read, Verdict, judge};
use super::window::Window;
use crate::disk::{Access, Disk};
use crate::error::{Damage, OpenError};
use crate::format::chain;
use crate::format::entry::{Digest, Epoch, JournalId, Recorded, Sequence};
use crate::format::frame::Home;
use crate::format::segment::{PAGE_BYTES, SegmentHead};
use crate::lock;
use crate::mutants::{self, Mutant};

/// Somebody beside the log who says what had been durable.
#[derive(Clone, Debug)]
pub(crate) struct Witness {
    pub(crate) name: &'static str,
    pub(crate) durable: Sequence,
}

/// Whether somebody may be writing to the log while it is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Patience {
    /// The reader owns the journal.
    Owner,
    /// A writer may be at work: what does not check out is read again before it is judged.
    Bystander,
}

/// What a scan begins with.
pub(crate) struct ScanStart<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) folder: &'a std::path::Path,
    pub(crate) journal: JournalId,
    pub(crate) layout: &'a Layout,
    pub(crate) witness: Option<Witness>,
    pub(crate) patience: Patience,
    /// Where to begin; a place that an earlier scan found.
    pub(crate) from: Begin,
    /// Who reads.
    pub(crate) readers: Readers,
    /// Entries, in order, behind which the chain value is to be told.
    pub(crate) watch: &'a [Sequence],
}

/// Who reads the segments. What is found, visited and reported is the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Readers {
    /// The calling thread, one place after the other.
    Caller,
    /// So many threads, each of which reads ahead in a segment of its own.
    Threads(NonZeroUsize),
}

impl Readers {
    /// A thread for each core that this process may use.
    pub(crate) fn per_core() -> Self {
        std::thread::available_parallelism().map_or(Self::Caller, Self::Threads)
    }
}

/// The state of the log at the beginning of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Begin {
    /// The segment's index in the layout.
    pub(crate) index: usize,
    /// Sequence of its first entry.
    pub(crate) first: Sequence,
    epoch: Epoch,
    chain: Digest,
}

impl Begin {
    /// The beginning of a journal.
    pub(crate) fn of(journal: JournalId) -> Self {
        Self {
            index: 0,
            first: Sequence(1),
            epoch: Epoch(0),
            chain: chain::genesis(journal),
        }
    }

    /// Chain value before its first entry.
    pub(super) fn chain(&self) -> Digest {
        self.chain
    }
}

/// Where reading ended, and what was found there.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    read: Read,
    damage: Damage,
}

/// The last segment that holds a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tail {
    /// Its index in the layout.
    pub(crate) index: usize,
    /// Where its last group begins: from here on nothing proves that it had been durable.
    pub(crate) group: u64,
    /// Where its last batch ends.
    pub(crate) end: u64,
}

/// What a scan found.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    /// Sequence of the last entry, 0 if there is none.
    pub(crate) end: Sequence,
    /// The last opening.
    pub(crate) epoch: Epoch,
    /// Chain value after the last entry.
    pub(crate) chain: Digest,
    pub(crate) tail: Option<Tail>,
    /// The beginnings of the segments that were read.
    pub(crate) begins: Vec<Begin>,
    /// Those of the watched entries that were read.
    pub(crate) seen: Vec<Seen>,
    stop: Option<Stop>,
    /// Where the last entry ends, if there is one.
    last_read: Option<Place>,
}

impl Scan {
    /// What was left unread at the end, if reading did not end cleanly.
    pub(crate) fn torn(&self) -> Option<&Damage> {
        let stop = self.stop.as_ref()?;
        (stop.read != Read::Zeros).then_some(&stop.damage)
    }

    /// Judges the end anew, by a witness who could not be asked before.
    pub(crate) fn check(
        &self,
        witness: &Witness,
        folder: &std::path::Path,
    ) -> Result<(), OpenError> {
        if witness.durable <= self.end || mutants::is(Mutant::DamageBelowWatermarkCut) {
            return Ok(());
        }
        match &self.stop {
            Some(stop) if stop.read != Read::Zeros => {
                let mut damage = stop.damage.clone();
                damage.lost = lost(self.end.0 + 1, Some(witness.durable.0));
                Err(damage.into())
            }
            Some(stop) => {
                let damage = &stop.damage;
                let place = (damage.path.clone(), damage.segment, damage.offset);
                Err(shortened(place, self.end, witness))
            }
            None => {
                let nowhere = || (folder.to_owned(), None, 0);
                let place = self.last_read.clone().unwrap_or_else(nowhere);
                Err(shortened(place, self.end, witness))
            }
        }
    }
}

/// File, segment and offset.
type Place = (std::path::PathBuf, Option<u64>, u64);

fn shortened((path, segment, offset): Place, end: Sequence, witness: &Witness) -> OpenError {
    OpenError::Shortened {
        path,
        segment,
        offset,
        end,
        durable: witness.durable,
        witness: witness.name.into(),
    }
}

fn lost(expected: u64, known: Option<u64>) -> String {
    match known {
        Some(known) if known > expected => {
            format!("entries {expected} to {known} at least had been durable and are lost")
        }
        Some(known) if known == expected => {
            format!("entry {expected} at least had been durable and is lost")
        }
        _ => format!("entries from {expected} on, if there were any, cannot be read"),
    }
}

/// Reads the whole log. Every entry of every batch that checks out is visited, in order.
pub(crate) fn scan(
    start: &ScanStart<'_>,
    visit: &mut dyn FnMut(&Found, Recorded),
) -> Result<Scan, OpenError> {
    scan_gist(start, Backlog::WHOLE, &|recorded| Some(recorded), visit)
}

/// Reads the whole log, keeping of each entry only its gist, which is taken by whichever thread
/// reads the entry; gists are visited in order.
pub(crate) fn scan_gist<T: Send>(
    start: &ScanStart<'_>,
    backlog: Backlog,
    gist: &(dyn Fn(Recorded) -> Option<T> + Sync),
    visit: &mut dyn FnMut(&Found, T),
) -> Result<Scan, OpenError> {
    let walk = Walk {
        start,
        gist,
        visit,
        state: State {
            expected: start.from.first.0,
            epoch: start.from.epoch,
            chain: start.from.chain,
            watermark: 0,
        },
        tail: None,
        begins: Vec::new(),
        seen: Vec::new(),
        stop: None,
    };
    let scan = match (start.layout.last_used, start.readers) {
        (None, _) => walk.end(),
        (Some(last), Readers::Caller) => walk.run(last, &mut |_| None)?,
        (Some(last), Readers::Threads(threads)) => std::thread::scope(|scope| {
            let segments = start.from.index..=last;
            let reader = Reader {
                start,
                gist,
                backlog,
            };
            let mut ahead = Ahead::start(scope, reader, segments, threads);
            walk.run(last, &mut |index| ahead.news_of(index))
        })?,
    };
    if let Some(witness) = &start.witness {
        scan.check(witness, start.folder)?;
    }
    Ok(scan)
}

#[derive(PartialEq, Eq)]
enum Flow {
    Next,
    End,
}

struct Walk<'a, 'b, T> {
    start: &'a ScanStart<'a>,
    gist: &'b (dyn Fn(Recorded) -> Option<T> + Sync),
    visit: &'b mut dyn FnMut(&Found, T),
    state: State,
    tail: Option<Tail>,
    begins: Vec<Begin>,
    seen: Vec<Seen>,
    stop: Option<Stop>,
}

/// Where to go on in a segment.
struct At {
    at: u64,
    /// Its head has been read.
    begun: bool,
    /// What the reader ahead read through, if it came so far.
    window: Option<Window>,
}

impl At {
    const BEGINNING: Self = Self {
        at: PAGE_BYTES as u64,
        begun: false,
        window: None,
    };
}

/// How often a bystander reads again, and how long it waits in between.
const AGAIN: u32 = 20;
const AGAIN_AFTER: Duration = Duration::from_millis(5);

impl<T> Walk<'_, '_, T> {
    /// Goes through the segments up to the last one in use. `news` tells what was read ahead.
    fn run(
        mut self,
        last: usize,
        news: &mut dyn FnMut(usize) -> Option<Receiver<News<T>>>,
    ) -> Result<Scan, OpenError> {
        for index in self.start.from.index..=last {
            self.begins.push(Begin {
                index,
                first: Sequence(self.state.expected),
                epoch: self.state.epoch,
                chain: self.state.chain,
            });
            if self.segment(index, news(index))? == Flow::End {
                break;
            }
        }
        Ok(self.end())
    }

    fn end(self) -> Scan {
        Scan {
            end: Sequence(self.state.expected - 1),
            epoch: self.state.epoch,
            chain: self.state.chain,
            tail: self.tail,
            begins: self.begins,
            seen: self.seen,
            stop: self.stop,
            last_read: self.tail.map(|tail| {
                let found = &self.start.layout.segments[tail.index];
                (found.path.clone(), Some(found.number), tail.end)
            }),
        }
    }

    /// Takes what was read ahead of a segment, as far as it goes on from what was read before.
    /// Says nothing of what follows: that is read, and judged, by [`Self::segment`].
    fn take_news(
        &mut self,
        index: usize,
        news: Option<Receiver<News<T>>>,
    ) -> Result<At, OpenError> {
        let found = &self.start.layout.segments[index];
        let mut place = At::BEGINNING;
        for news in news.into_iter().flatten() {
            match news {
                News::Head { head, next } => {
                    self.check_head(found, place.at, &head)?;
                    (place.at, place.begun) = (next, true);
                }
                // The reader did not know the epoch of the segment before.
                News::Piece(piece) if piece.first_epoch < self.state.epoch => {
                    return Ok(At::BEGINNING);
                }
                News::Piece(piece) => {
                    self.seen.extend(piece.seen);
                    self.state = piece.state;
                    self.tail = Some(Tail {
                        index,
                        group: piece.group,
                        end: piece.end,
                    });
                    for gist in piece.gists {
                        (self.visit)(found, gist);
                    }
                    place.at = piece.end;
                }
                News::Rest { at, window } => (place.at, place.window) = (at, Some(window)),
                News::Failed { doing, source } => return Err(found.io(doing)(source)),
            }
        }
        Ok(place)
    }

    fn segment(
        &mut self,
        index: usize,
        news: Option<Receiver<News<T>>>,
    ) -> Result<Flow, OpenError> {
        let start = self.start;
        let found = &start.layout.segments[index];
        let last = start.layout.last_used == Some(index);
        if !last && found.len != found.bytes {
            let what = format!(
                "a sealed segment of {} bytes, its full size is {}",
                found.len, found.bytes
            );
            let at = found.len.min(found.bytes);
            return Err(found
                .damage(at, what, lost(self.state.expected, None))
                .into());
        }
        let At {
            mut at,
            mut begun,
            window,
        } = self.take_news(index, news)?;
        let mut window = match window {
            Some(window) => window,
            None => {
                let file = start.disk.open(&found.path, Access::Read);
                Window::new(file.map_err(found.io("opening it"))?)
            }
        };
        let home = Home::new(start.journal, found.number);
        let mut tries = 0;
        loop {
            let step = self
                .state
                .step(&mut window, &home, found, at, begun, start.watch);
            let step = match step {
                Ok(step) => step,
                Err(Fault::Io(source)) => return Err(found.io("reading it")(source)),
                Err(Fault::Damage { at, what }) => {
                    return Err(found
                        .damage(at, what, lost(self.state.expected, None))
                        .into());
                }
            };
            match step {
                Step::Head { head, next } => {
                    self.check_head(found, at, &head)?;
                    begun = true;
                    at = next;
                }
                Step::Padding { next } => at = next,
                Step::Batch {
                    head,
                    entries,
                    chain,
                    seen,
                    next,
                } => {
                    self.seen.extend(seen);
                    let group = self.tail.filter(|tail| tail.index == index);
                    self.tail = Some(Tail {
                        index,
                        group: group_of(&head, at, group.map(|tail| tail.group)),
                        end: next,
                    });
                    self.state = State::after(&head, chain);
                    for gist in entries.into_iter().filter_map(self.gist) {
                        (self.visit)(found, gist);
                    }
                    at = next;
                }
                Step::Stop(broken) => match self.judge(index, &home, &mut window, &broken, last) {
                    Ok(flow) => return Ok(flow),
                    Err(error) if !self.read_again(tries) => return Err(error),
                    Err(_) => {
                        tries += 1;
                        window.forget();
                    }
                },
            }
        }
    }

    /// True if what did not check out is to be read again: a writer may have been in the middle
    /// of it. Waits a little, unless this is the first time.
    fn read_again(&self, tries: u32) -> bool {
        if self.start.patience == Patience::Owner || tries == AGAIN {
            return false;
        }
        if tries > 0 {
            if matches!(lock::owner(self.start.disk, self.start.folder), Ok(None)) {
                return false;
            }
            std::thread::sleep(AGAIN_AFTER);
        }
        true
    }

    fn check_head(&self, found: &Found, at: u64, head: &SegmentHead) -> Result<(), OpenError> {
        let what = if head.first.0 != self.state.expected {
            format!(
                "the segment begins with entry {}, the one before ends with {}",
                head.first,
                self.state.expected - 1
            )
        } else if head.chain != self.state.chain {
            "the hash chain does not fit the segments before: entries were changed".into()
        } else if head.epoch < self.state.epoch {
            format!("epoch {} after epoch {}", head.epoch, self.state.epoch)
        } else {
            return Ok(());
        };
        Err(found
            .damage(at, what, lost(self.state.expected, None))
            .into())
    }

    /// Decides what it means that reading cannot go on here.
    fn judge(
        &mut self,
        index: usize,
        home: &Home,
        window: &mut Window,
        broken: &Broken,
        last: bool,
    ) -> Result<Flow, OpenError> {
        let found = &self.start.layout.segments[index];
        let proof = later_proof(self.start, self.state.expected, index, home, window, broken)
            .map_err(found.io("reading it"))?;
        let witness = self.start.witness.as_ref();
        let witness = witness.filter(|witness| witness.durable.0 >= self.state.expected);
        let (proof, witness) = match mutants::is(Mutant::DamageBelowWatermarkCut) {
            true => (None, None),
            false => (proof, witness),
        };
        let verdict = judge(Case {
            read: broken.read,
            later: proof.is_some(),
            witness: witness.is_some(),
            last,
        });
        let known = proof.max(witness.map(|witness| witness.durable.0));
        let damage = found.damage(
            broken.at,
            broken.what.clone(),
            lost(self.state.expected, known),
        );
        match verdict {
            Verdict::NextSegment => Ok(Flow::Next),
            Verdict::End | Verdict::Cut => {
                self.stop = Some(Stop {
                    read: broken.read,
                    damage,
                });
                Ok(Flow::End)
            }
            Verdict::Shortened => Err(match witness {
                Some(witness) => {
                    let place = (damage.path, damage.segment, damage.offset);
                    shortened(place, Sequence(self.state.expected - 1), witness)
                }
                None => damage.into(),
            }),
            Verdict::Damaged | Verdict::Take => Err(damage.into()),
        }
    }
}
