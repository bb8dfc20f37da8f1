//! Reading the log from its first entry to its end.

use std::io;
use std::time::Duration;

use super::layout::{Found, Layout};
use super::table::{Case, Read, Verdict, judge};
use super::window::Window;
use crate::disk::{Access, Disk};
use crate::error::{Damage, OpenError};
use crate::format::batch::{BatchHead, HEAD_BYTES};
use crate::format::entry::{Digest, Epoch, JournalId, Recorded, Sequence};
use crate::format::frame::{self, Home, Kind};
use crate::format::segment::{PAGE_BYTES, SegmentHead};
use crate::format::{chain, codec};
use crate::lock;

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
    stop: Option<Stop>,
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
        if witness.durable <= self.end {
            return Ok(());
        }
        match &self.stop {
            Some(stop) if stop.read != Read::Zeros => {
                let mut damage = stop.damage.clone();
                damage.lost = lost(self.end.0 + 1, Some(witness.durable.0));
                Err(damage.into())
            }
            _ => Err(shortened(folder, self.end, witness)),
        }
    }
}

fn shortened(folder: &std::path::Path, end: Sequence, witness: &Witness) -> OpenError {
    OpenError::Shortened {
        path: folder.to_owned(),
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
    let mut walk = Walk {
        start,
        visit,
        expected: start.from.first.0,
        epoch: start.from.epoch,
        chain: start.from.chain,
        watermark: 0,
        tail: None,
        begins: Vec::new(),
        stop: None,
    };
    if let Some(last) = start.layout.last_used {
        for index in start.from.index..=last {
            walk.begins.push(Begin {
                index,
                first: Sequence(walk.expected),
                epoch: walk.epoch,
                chain: walk.chain,
            });
            if walk.segment(index)? == Flow::End {
                break;
            }
        }
    }
    let scan = Scan {
        end: Sequence(walk.expected - 1),
        epoch: walk.epoch,
        chain: walk.chain,
        tail: walk.tail,
        begins: walk.begins,
        stop: walk.stop,
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

/// What one place held.
enum Step {
    Head {
        head: SegmentHead,
        next: u64,
    },
    Batch {
        head: BatchHead,
        entries: Vec<Recorded>,
        chain: Digest,
        next: u64,
    },
    /// Padding up to the next group.
    Padding {
        next: u64,
    },
    Stop(Broken),
}

struct Broken {
    read: Read,
    at: u64,
    what: String,
}

fn broken(read: Read, at: u64, what: impl Into<String>) -> Step {
    Step::Stop(Broken {
        read,
        at,
        what: what.into(),
    })
}

/// The error of a place that cannot be a torn end, whatever else is known.
enum Fault {
    Io(io::Error),
    Damage { at: u64, what: String },
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

struct Walk<'a, 'b> {
    start: &'a ScanStart<'a>,
    visit: &'b mut dyn FnMut(&Found, Recorded),
    expected: u64,
    epoch: Epoch,
    chain: Digest,
    watermark: u64,
    tail: Option<Tail>,
    begins: Vec<Begin>,
    stop: Option<Stop>,
}

/// How often a bystander reads again, and how long it waits in between.
const AGAIN: u32 = 20;
const AGAIN_AFTER: Duration = Duration::from_millis(5);

impl Walk<'_, '_> {
    fn segment(&mut self, index: usize) -> Result<Flow, OpenError> {
        let start = self.start;
        let found = &start.layout.segments[index];
        let last = start.layout.last_used == Some(index);
        if !last && found.len != found.bytes {
            let what = format!(
                "a sealed segment of {} bytes, its full size is {}",
                found.len, found.bytes
            );
            let at = found.len.min(found.bytes);
            return Err(found.damage(at, what, lost(self.expected, None)).into());
        }
        let file = start
            .disk
            .open(&found.path, Access::Read)
            .map_err(found.io("opening it"))?;
        let mut window = Window::new(file);
        let home = Home::new(start.journal, found.number);
        let mut at = PAGE_BYTES as u64;
        let mut begun = false;
        let mut tries = 0;
        loop {
            let step = match self.step(&mut window, &home, found, at, begun) {
                Ok(step) => step,
                Err(Fault::Io(source)) => return Err(found.io("reading it")(source)),
                Err(Fault::Damage { at, what }) => {
                    return Err(found.damage(at, what, lost(self.expected, None)).into());
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
                    next,
                } => {
                    let group = match self.tail {
                        Some(tail) if tail.index == index && !head.leads() => tail.group,
                        _ => at - at % PAGE_BYTES as u64,
                    };
                    self.tail = Some(Tail {
                        index,
                        group,
                        end: next,
                    });
                    self.watermark = head.watermark.0;
                    self.expected = head.last().0 + 1;
                    self.epoch = head.epoch;
                    self.chain = chain;
                    for recorded in entries {
                        (self.visit)(found, recorded);
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
        let what = if head.first.0 != self.expected {
            format!(
                "the segment begins with entry {}, the one before ends with {}",
                head.first,
                self.expected - 1
            )
        } else if head.chain != self.chain {
            "the hash chain does not fit the segments before: entries were changed".into()
        } else if head.epoch < self.epoch {
            format!("epoch {} after epoch {}", head.epoch, self.epoch)
        } else {
            return Ok(());
        };
        Err(found.damage(at, what, lost(self.expected, None)).into())
    }

    /// Reads what is at a place, which is a multiple of 8.
    fn step(
        &self,
        window: &mut Window,
        home: &Home,
        found: &Found,
        at: u64,
        begun: bool,
    ) -> Result<Step, Fault> {
        let room = usize::try_from(found.bytes - at).unwrap_or(usize::MAX);
        let header = window.at(at, room.min(frame::HEADER_BYTES))?;
        let wanted = room.min(frame::HEADER_BYTES);
        if header.len() < wanted {
            return Ok(broken(Read::ShortFile, at, "the file ends here"));
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
        let first_group = at == (PAGE_BYTES + crate::format::segment::HEAD_BYTES) as u64;
        let in_place = if head.leads() {
            aligned || first_group
        } else {
            head.watermark.0 == self.watermark && !first_group
        };
        if head.first.0 != self.expected || head.epoch < self.epoch || !in_place {
            let what = format!(
                "a batch that does not belong here: entry {} of epoch {} after entry {} of epoch {}",
                head.first,
                head.epoch,
                self.expected - 1,
                self.epoch
            );
            return Ok(broken(Read::BadFrame, at, what));
        }
        self.batch(window, home, room, at, head)
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
        room: usize,
        at: u64,
        head: BatchHead,
    ) -> Result<Step, Fault> {
        let total = HEAD_BYTES + head.body_bytes as usize;
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
        let mut entries = Vec::with_capacity((head.entries as usize).min(total / 32));
        for sequence in (head.first.0..).take(head.entries as usize) {
            let (frame, stored) = match frame::read(&bytes[inside..], home) {
                Ok(read) => read,
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
            next: at + total as u64,
        })
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
        let proof = self
            .later_proof(index, home, window, broken)
            .map_err(found.io("reading it"))?;
        let witness = self.start.witness.as_ref();
        let witness = witness.filter(|witness| witness.durable.0 >= self.expected);
        let verdict = judge(Case {
            read: broken.read,
            later: proof.is_some(),
            witness: witness.is_some(),
            last,
        });
        let known = proof.max(witness.map(|witness| witness.durable.0));
        let damage = found.damage(broken.at, broken.what.clone(), lost(self.expected, known));
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
                Some(witness) => shortened(self.start.folder, Sequence(self.expected - 1), witness),
                None => damage.into(),
            }),
            Verdict::Damaged | Verdict::Take => Err(damage.into()),
        }
    }

    /// The highest sequence that a head further on proves to have been durable, if that is more
    /// than was read, or if it proves that the bytes here had been in order.
    fn later_proof(
        &self,
        index: usize,
        home: &Home,
        window: &mut Window,
        broken: &Broken,
    ) -> io::Result<Option<u64>> {
        let segments = &self.start.layout.segments;
        let mut proof = None;
        if broken.read != Read::Zeros {
            proof = self.proof_behind(&segments[index], home, window, broken.at)?;
        }
        // Where this segment ends cleanly, only the next one can say that something is missing.
        let last = self.start.layout.last_used.unwrap_or(index);
        let last = match broken.read {
            Read::Zeros => last.min(index + 1),
            _ => last,
        };
        for later in segments.iter().take(last + 1).skip(index + 1) {
            let file = self.start.disk.open(&later.path, Access::Read)?;
            let mut window = Window::new(file);
            let bytes = window.at(PAGE_BYTES as u64, crate::format::segment::HEAD_BYTES)?;
            let home = Home::new(self.start.journal, later.number);
            if bytes.len() < frame::HEADER_BYTES {
                continue;
            }
            let Some(head) = frame::read(bytes, &home)
                .ok()
                .and_then(|(frame, _)| SegmentHead::of(&frame))
            else {
                continue;
            };
            let covers = head.first.0 > self.expected
                || (head.first.0 == self.expected && broken.read != Read::Zeros);
            if covers {
                proof = proof.max(Some(head.first.0 - 1));
            }
        }
        Ok(proof)
    }

    /// Looks behind a place for heads of batches, at every multiple of 8.
    fn proof_behind(
        &self,
        found: &Found,
        home: &Home,
        window: &mut Window,
        at: u64,
    ) -> io::Result<Option<u64>> {
        let mut proof = None;
        let mut offset = (at + 1).next_multiple_of(frame::ALIGN_BYTES as u64);
        while offset + HEAD_BYTES as u64 <= found.bytes {
            if offset.is_multiple_of(PAGE_BYTES as u64) {
                match window.first_nonzero(offset, found.bytes)? {
                    Some(nonzero) => offset = offset.max(nonzero - nonzero % PAGE_BYTES as u64),
                    None => break,
                }
            }
            let bytes = window.at(offset, HEAD_BYTES)?;
            if bytes.len() < HEAD_BYTES {
                break;
            }
            if bytes[20] == Kind::BatchHead as u8
                && let Ok((frame, _)) = frame::read(bytes, home)
                && let Some(head) = BatchHead::of(&frame)
            {
                let covers = head.watermark.0 >= self.expected
                    || (head.leads() && head.first.0 == self.expected);
                if covers {
                    proof = proof.max(Some(head.watermark.0));
                }
            }
            offset += frame::ALIGN_BYTES as u64;
        }
        Ok(proof)
    }
}
