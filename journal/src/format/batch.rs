//! The batch: frames that become visible together or not at all.
//!
//! A batch is a head and, right behind it, as many frames of kind `Entry` as the head says. The
//! head's own sequence is that of the first entry. Payload of the head:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | number of entries, never 0 |
//! | 4 | 4 | bytes of the entry frames together |
//! | 8 | 8 | watermark |
//!
//! The **watermark** is the highest sequence that was durable when the batch was written. All
//! batches of one group (one write, one sync) carry the same watermark; the first of them, the
//! *leader*, begins right above it. So any head that checks out proves that everything up to its
//! watermark had been durable, whatever can be read there now.

use super::entry::{Epoch, Sequence};
use super::frame::{self, Frame, Home, Kind, u32_at, u64_at};

/// Bytes of a head's payload.
pub const HEAD_PAYLOAD_BYTES: usize = 16;
/// Bytes that a head takes up.
pub const HEAD_BYTES: usize = frame::stored_bytes(HEAD_PAYLOAD_BYTES);

/// The head of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchHead {
    /// Sequence of the first entry.
    pub first: Sequence,
    /// The opening that wrote it.
    pub epoch: Epoch,
    /// Number of entries.
    pub entries: u32,
    /// Bytes of the entry frames together.
    pub body_bytes: u32,
    /// Highest sequence durable when it was written.
    pub watermark: Sequence,
}

impl BatchHead {
    /// Reads a head from a frame; `None` if it is none or contradicts itself.
    #[must_use]
    pub fn of(frame: &Frame<'_>) -> Option<Self> {
        if frame.kind != Kind::BatchHead || frame.payload.len() != HEAD_PAYLOAD_BYTES {
            return None;
        }
        let head = Self {
            first: frame.sequence,
            epoch: frame.epoch,
            entries: u32_at(frame.payload, 0),
            body_bytes: u32_at(frame.payload, 4),
            watermark: Sequence(u64_at(frame.payload, 8)),
        };
        let smallest = u64::from(head.entries) * frame::stored_bytes(1) as u64;
        let sound = head.entries > 0
            && u64::from(head.body_bytes) >= smallest
            && (head.body_bytes as usize).is_multiple_of(frame::ALIGN_BYTES)
            && head.watermark < head.first
            && head.first.0.checked_add(u64::from(head.entries)).is_some();
        sound.then_some(head)
    }

    /// True if the batch was the first of its group.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.watermark.0 + 1 == self.first.0
    }

    /// Sequence of the last entry.
    #[must_use]
    pub fn last(&self) -> Sequence {
        Sequence(self.first.0 + u64::from(self.entries) - 1)
    }

    fn payload(&self) -> [u8; HEAD_PAYLOAD_BYTES] {
        let mut payload = [0; HEAD_PAYLOAD_BYTES];
        payload[..4].copy_from_slice(&self.entries.to_le_bytes());
        payload[4..8].copy_from_slice(&self.body_bytes.to_le_bytes());
        payload[8..].copy_from_slice(&self.watermark.0.to_le_bytes());
        payload
    }
}

/// A batch encoded by its caller; the writer adds place and checksums with [`Draft::place`].
#[derive(Debug)]
pub struct Draft {
    bytes: Vec<u8>,
    entries: u32,
    epoch: Epoch,
}

impl Draft {
    /// Begins an empty batch.
    #[must_use]
    pub fn new(epoch: Epoch) -> Self {
        let mut bytes = Vec::with_capacity(1024);
        bytes.resize(HEAD_BYTES, 0);
        Self {
            bytes,
            entries: 0,
            epoch,
        }
    }

    /// Adds an entry, whose encoder appends to the buffer it is given.
    ///
    /// # Errors
    /// The encoder's. The draft is of no use then.
    pub fn add<E>(&mut self, encode: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        let mut encoded = Ok(());
        frame::begin(&mut self.bytes, Kind::Entry, self.epoch, |out| {
            encoded = encode(out);
            if encoded.is_err() {
                out.push(0);
            }
        });
        self.entries += 1;
        encoded
    }

    /// Number of entries.
    #[must_use]
    pub fn entries(&self) -> u32 {
        self.entries
    }

    /// Bytes it takes up in the log, padding of its group aside.
    #[must_use]
    pub fn stored_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Appends the batch to a group's buffer, at its place in the log.
    ///
    /// # Panics
    /// If it is empty.
    pub fn place(&self, group: &mut Vec<u8>, home: &Home, first: Sequence, watermark: Sequence) {
        assert!(self.entries > 0, "a batch has at least one entry");
        let start = group.len();
        let body_bytes = u32::try_from(self.bytes.len() - HEAD_BYTES)
            .expect("a batch is smaller than a segment, which is checked when it is taken");
        let head = BatchHead {
            first,
            epoch: self.epoch,
            entries: self.entries,
            body_bytes,
            watermark,
        };
        frame::put(
            group,
            home,
            Frame {
                kind: Kind::BatchHead,
                sequence: first,
                epoch: self.epoch,
                payload: &head.payload(),
            },
        );
        group.extend_from_slice(&self.bytes[HEAD_BYTES..]);
        let mut at = start + HEAD_BYTES;
        let mut sequence = first;
        while at < group.len() {
            at += frame::seal(&mut group[at..], home, sequence);
            sequence.0 += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::entry::JournalId;

    #[test]
    fn a_draft_is_read_back_frame_by_frame() {
        let home = Home::new(JournalId([1; 16]), 9);
        let mut draft = Draft::new(Epoch(2));
        for text in ["a", "some more", "the third"] {
            draft
                .add(|out| {
                    out.extend_from_slice(text.as_bytes());
                    Ok::<(), ()>(())
                })
                .unwrap();
        }
        let mut group = Vec::new();
        draft.place(&mut group, &home, Sequence(11), Sequence(10));
        assert_eq!(group.len(), draft.stored_bytes());

        let (frame, mut at) = frame::read(&group, &home).unwrap();
        let head = BatchHead::of(&frame).unwrap();
        assert_eq!(head.last(), Sequence(13));
        assert!(head.leads());
        assert_eq!(head.body_bytes as usize, group.len() - HEAD_BYTES);
        for (sequence, text) in [(11, "a"), (12, "some more"), (13, "the third")] {
            let (frame, stored) = frame::read(&group[at..], &home).unwrap();
            assert_eq!(frame.sequence, Sequence(sequence));
            assert_eq!(frame.epoch, Epoch(2));
            assert_eq!(frame.payload, text.as_bytes());
            at += stored;
        }
        assert_eq!(at, group.len());
    }

    #[test]
    fn a_head_that_contradicts_itself_is_none() {
        let head = |entries: u32, body: u32, watermark: u64| {
            let head = BatchHead {
                first: Sequence(5),
                epoch: Epoch(1),
                entries,
                body_bytes: body,
                watermark: Sequence(watermark),
            };
            let payload = head.payload();
            BatchHead::of(&Frame {
                kind: Kind::BatchHead,
                sequence: Sequence(5),
                epoch: Epoch(1),
                payload: &payload,
            })
            .is_some()
        };
        assert!(head(2, 64, 4));
        assert!(head(2, 64, 0));
        assert!(!head(0, 64, 4), "no entries");
        assert!(!head(3, 64, 4), "more entries than bytes can hold");
        assert!(!head(2, 63, 4), "not aligned");
        assert!(!head(2, 64, 5), "watermark reaches into the batch");
    }
}
