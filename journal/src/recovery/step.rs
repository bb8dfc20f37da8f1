//! What one place of the log holds, given what was read before it.

use std::io;

use super::layout::Found;
use super::table::Read;
use super::window::Window;
use crate::format::batch::{BatchHead, HEAD_BYTES};
use crate::format::entry::{Digest, Epoch, Recorded, Sequence};
use crate::format::frame::{self, Home, Kind, NotAFrame};
use crate::format::segment::{self, PAGE_BYTES, SegmentHead};
use crate::format::{chain, codec};
use crate::mutants::{self, Mutant};

/// What is known from everything read so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    /// Sequence of the next entry.
    pub(super) expected: u64,
    /// Epoch of the last batch.
    pub(super) epoch: Epoch,
    /// Chain value after the last entry.
    pub(super) chain: Digest,
    /// Watermark of the last batch.
    pub(super) watermark: u64,
}

/// The state of the log behind an entry that somebody watches for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) sequence: Sequence,
    /// Chain value behind it.
    pub(crate) chain: Digest,
    /// The segment that holds it.
    pub(crate) segment: u64,
    /// That segment's file.
    pub(crate) path: std::path::PathBuf,
    /// Where its batch begins.
    pub(crate) offset: u64,
}

/// What one place held.
pub(super) enum Step {
    Head {
        head: SegmentHead,
        next: u64,
    },
    Batch {
        head: BatchHead,
        entries: Vec<Recorded>,
        chain: Digest,
        seen: Vec<Seen>,
        next: u64,
    },
    /// Padding up to the next group.
    Padding {
        next: u64,
    },
    Stop(Broken),
}

pub(super) struct Broken {
    pub(super) read: Read,
    pub(super) at: u64,
    pub(super) what: String,
}

fn broken(read: Read, at: u64, what: impl Into<String>) -> Step {
    Step::Stop(Broken {
        read,
        at,
        what: what.into(),
    })
}

/// The error of a place that cannot be a torn end, whatever else is known.
pub(super) enum Fault {
    Io(io::Error),
    Damage { at: u64, what: String },
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Where the group of a batch begins, given that of the batch before it in the segment.
pub(super) fn group_of(head: &BatchHead, at: u64, before: Option<u64>) -> u64 {
    before
        .filter(|_| !head.leads())
        .unwrap_or(at - at % PAGE_BYTES as u64)
}

impl State {
    /// What is known after a batch.
    pub(super) fn after(head: &BatchHead, chain: Digest) -> Self {
        Self {
            expected: head.last().0 + 1,
            epoch: head.epoch,
            chain,
            watermark: head.watermark.0,
        }
    }

    /// Reads what is at a place, which is a multiple of 8.
    pub(super) fn step(
        &self,
        window: &mut Window,
        home: &Home,
        found: &Found,
        at: u64,
        begun: bool,
        watch: &[Sequence],
    ) -> Result<Step, Fault> {
        let room = usize::try_from(found.bytes - at).unwrap_or(usize::MAX);
        let header = window.at(at, room.min(frame::HEADER_BYTES))?;
        let wanted = room.min(frame::HEADER_BYTES);
        if header.len() < wanted {
            return Ok(broken(
                Read::ShortFile,
                at.min(found.len),
                "the file ends here",
            ));
        }
        if header.iter().take(8).all(|byte| *byte == 0) {
            return self.zeros(window, found, at);
        }
        let stored = match frame::length_of(header) {
            Some(length) => frame::stored_bytes(length as usize),
            None => usize::MAX,
        };
        if stored > room {
            return Ok(broken(
                Read::BadFrame,
                at,
                frame::NotAFrame::Length.to_string(),
            ));
        }
        let bytes = window.at(at, stored)?;
        if bytes.len() < stored {
            return Ok(broken(Read::ShortFile, at, "the file ends inside a frame"));
        }
        let (frame, _) = match frame::read(bytes, home) {
            Ok(read) => read,
            Err(_) if begun && mutants::is(Mutant::DamageSkipped) => {
                let next = (at + 1).next_multiple_of(PAGE_BYTES as u64);
                return Ok(Step::Padding { next });
            }
            Err(why) => return Ok(broken(Read::BadFrame, at, why.to_string())),
        };
        if !begun {
            return Ok(match SegmentHead::of(&frame) {
                Some(head) => Step::Head {
                    head,
                    next: at + stored as u64,
                },
                None => broken(
                    Read::BadFrame,
                    at,
                    "a segment that does not begin with its head",
                ),
            });
        }
        let Some(head) = BatchHead::of(&frame) else {
            return Ok(broken(
                Read::BadFrame,
                at,
                "a frame that is no head of a batch",
            ));
        };
        let aligned = at.is_multiple_of(PAGE_BYTES as u64);
        let first_group = at == (PAGE_BYTES + segment::HEAD_BYTES) as u64;
        let in_place = if head.leads() {
            aligned || first_group
        } else {
            head.watermark.0 == self.watermark && !first_group
        };
        let skipped = mutants::is(Mutant::DamageSkipped) && head.first.0 > self.expected;
        if (head.first.0 != self.expected && !skipped) || head.epoch < self.epoch || !in_place {
            let what = format!(
                "a batch that does not belong here: entry {} of epoch {} after entry {} of epoch {}",
                head.first,
                head.epoch,
                self.expected - 1,
                self.epoch
            );
            return Ok(broken(Read::BadFrame, at, what));
        }
        self.batch(window, home, found, at, head, watch)
    }

    fn zeros(&self, window: &mut Window, found: &Found, at: u64) -> Result<Step, Fault> {
        let page = PAGE_BYTES as u64;
        if !at.is_multiple_of(page) {
            let next = at.next_multiple_of(page);
            return Ok(match window.first_nonzero(at, next)? {
                None => Step::Padding { next },
                Some(nonzero) => broken(
                    Read::BadFrame,
                    nonzero,
                    "bytes behind a group that should be zero",
                ),
            });
        }
        Ok(match window.first_nonzero(at, found.bytes)? {
            None => broken(Read::Zeros, at, "zeros to the end of the segment"),
            Some(nonzero) => broken(
                Read::BadFrame,
                nonzero,
                "bytes behind the end of the log that should be zero",
            ),
        })
    }

    fn batch(
        &self,
        window: &mut Window,
        home: &Home,
        found: &Found,
        at: u64,
        mut head: BatchHead,
        watch: &[Sequence],
    ) -> Result<Step, Fault> {
        let room = usize::try_from(found.bytes - at).unwrap_or(usize::MAX);
        let mut total = HEAD_BYTES + head.body_bytes as usize;
        if total > room {
            return Ok(broken(
                Read::BadFrame,
                at,
                "a batch that reaches beyond its segment",
            ));
        }
        let bytes = window.at(at, total)?;
        if bytes.len() < total {
            return Ok(broken(Read::ShortFile, at, "the file ends inside a batch"));
        }
        let incomplete = |inside: usize, what: String| {
            Ok(broken(Read::IncompleteBatch, at + inside as u64, what))
        };
        let mut inside = HEAD_BYTES;
        let mut chain = self.chain;
        let mut seen = Vec::new();
        let mut watched = watch[watch.partition_point(|of| *of < head.first)..].iter();
        let mut next_watched = watched.next();
        let mut entries = Vec::with_capacity((head.entries as usize).min(total / 32));
        for sequence in (head.first.0..).take(head.entries as usize) {
            let (frame, stored) = match frame::read(&bytes[inside..], home) {
                Ok(read) => read,
                Err(_) if !entries.is_empty() && mutants::is(Mutant::BatchSplit) => {
                    head.entries = entries.len() as u32;
                    total = inside;
                    break;
                }
                Err(NotAFrame::Zeros) if mutants::is(Mutant::ZeroFrameAccepted) => {
                    inside = total;
                    break;
                }
                Err(why) => return incomplete(inside, why.to_string()),
            };
            let belongs = frame.kind == Kind::Entry
                && frame.sequence.0 == sequence
                && frame.epoch == head.epoch;
            if !belongs {
                return incomplete(inside, "a frame that does not belong to its batch".into());
            }
            let entry = codec::decode(frame.payload).map_err(|error| Fault::Damage {
                at: at + inside as u64,
                what: error.to_string(),
            })?;
            chain = chain::next(chain, frame.payload, frame.sequence, frame.epoch);
            if next_watched == Some(&frame.sequence) {
                next_watched = watched.next();
                seen.push(Seen {
                    sequence: frame.sequence,
                    chain,
                    segment: found.number,
                    path: found.path.clone(),
                    offset: at,
                });
            }
            entries.push(Recorded {
                sequence: frame.sequence,
                epoch: frame.epoch,
                entry,
            });
            inside += stored;
        }
        if inside != total {
            return incomplete(inside, "a batch with more bytes than entries".into());
        }
        Ok(Step::Batch {
            head,
            entries,
            chain,
            seen,
            next: at + total as u64,
        })
    }
}
