//! The frame: the smallest thing the log can vouch for. Coded by hand, little-endian.
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 4 | length of the payload, never 0 |
//! | 4 | 4 | CRC-32 |
//! | 8 | 8 | sequence |
//! | 16 | 4 | epoch |
//! | 20 | 1 | kind |
//! | 21 | 3 | zero |
//! | 24 | length | payload |
//! | | 0–7 | zeros up to a multiple of 8 |
//!
//! Invariants:
//! - The CRC covers the journal's id, the segment's number (neither is stored in the frame), every
//!   header byte but its own, and the payload: a frame of another journal, of another segment or
//!   of other bytes never checks out.
//! - Nothing in a frame is believed before its CRC holds, except the length, which is bounded by
//!   the room there is before anything is read.
//! - Length and kind are never 0, so zeros are the end of the log and never a frame.

use crc32fast::Hasher;

use super::entry::{Epoch, JournalId, Sequence};
use crate::mutants::{self, Mutant};

/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 24;
/// Frames begin at multiples of this.
pub const ALIGN_BYTES: usize = 8;

/// What a frame holds. The numbers are part of the format; 0 is not valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// The head of a batch ([`super::batch`]).
    BatchHead = 1,
    /// The first frame of a segment ([`super::segment`]).
    SegmentHead = 2,
    /// An entry ([`super::codec`]).
    Entry = 3,
}

impl Kind {
    fn of(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::BatchHead),
            2 => Some(Self::SegmentHead),
            3 => Some(Self::Entry),
            _ => None,
        }
    }
}

/// Where frames live: part of every checksum, so that bytes from elsewhere never check out.
#[derive(Clone, Debug)]
pub struct Home(Hasher);

impl Home {
    /// The home of the frames of one segment of one journal.
    #[must_use]
    pub fn new(journal: JournalId, segment: u64) -> Self {
        let mut hasher = Hasher::new();
        hasher.update(&journal.0);
        if !mutants::is(Mutant::StaleRecycledAccepted) {
            hasher.update(&segment.to_le_bytes());
        }
        Self(hasher)
    }

    fn crc(&self, frame: &[u8]) -> u32 {
        if mutants::is(Mutant::CrcOfPayloadAlone) {
            let mut hasher = Hasher::new();
            hasher.update(&frame[HEADER_BYTES..]);
            return hasher.finalize();
        }
        let mut hasher = self.0.clone();
        hasher.update(&frame[..4]);
        hasher.update(&frame[8..]);
        hasher.finalize()
    }
}

/// A frame whose checksum holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<'a> {
    /// What it holds.
    pub kind: Kind,
    /// Its sequence: its own (entry), or that of the first entry it announces (heads).
    pub sequence: Sequence,
    /// The opening that wrote it.
    pub epoch: Epoch,
    /// What it holds, still encoded.
    pub payload: &'a [u8],
}

/// Why bytes are not a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotAFrame {
    /// The header is zero throughout.
    #[error("zeros")]
    Zeros,
    /// Length 0, or more than there is room for.
    #[error("a frame of an impossible length")]
    Length,
    /// The checksum does not hold.
    #[error("a frame whose checksum does not hold")]
    Checksum,
    /// The checksum holds, but kind or zero bytes are not of this format.
    #[error("a frame of an unknown kind")]
    Kind,
    /// The bytes behind the payload are not zero.
    #[error("bytes behind a frame that should be zero")]
    Padding,
}

/// Bytes that a frame with such a payload takes up.
#[must_use]
pub const fn stored_bytes(payload: usize) -> usize {
    (HEADER_BYTES + payload).next_multiple_of(ALIGN_BYTES)
}

/// Appends a frame whose sequence and checksum are still missing; [`seal`] puts them in.
///
/// # Panics
/// If the payload is empty or longer than a `u32` can say; callers bound it.
pub fn begin(buffer: &mut Vec<u8>, kind: Kind, epoch: Epoch, payload: impl FnOnce(&mut Vec<u8>)) {
    let start = buffer.len();
    buffer.extend_from_slice(&[0; HEADER_BYTES]);
    payload(buffer);
    let length = u32::try_from(buffer.len() - start - HEADER_BYTES)
        .ok()
        .filter(|length| *length > 0)
        .expect("a payload is neither empty nor larger than a segment");
    buffer[start..start + 4].copy_from_slice(&length.to_le_bytes());
    buffer[start + 16..start + 20].copy_from_slice(&epoch.0.to_le_bytes());
    buffer[start + 20] = kind as u8;
    let end = start + stored_bytes(length as usize);
    buffer.resize(end, 0);
}

/// Puts sequence and checksum into the frame that begins the slice; returns its stored bytes.
///
/// # Panics
/// If the slice does not begin with what [`begin`] made.
pub fn seal(bytes: &mut [u8], home: &Home, sequence: Sequence) -> usize {
    let length = length_of(bytes).expect("a frame was begun here") as usize;
    bytes[8..16].copy_from_slice(&sequence.0.to_le_bytes());
    let crc = home.crc(&bytes[..HEADER_BYTES + length]);
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    stored_bytes(length)
}

/// Appends a whole frame.
///
/// # Panics
/// As [`begin`].
pub fn put(buffer: &mut Vec<u8>, home: &Home, frame: Frame<'_>) {
    let start = buffer.len();
    begin(buffer, frame.kind, frame.epoch, |out| {
        out.extend_from_slice(frame.payload);
    });
    seal(&mut buffer[start..], home, frame.sequence);
}

/// The stated length of the payload: not to be believed, only to be bounded.
/// `None` if there are fewer bytes than a header has.
#[must_use]
pub fn length_of(bytes: &[u8]) -> Option<u32> {
    let header = bytes.get(..HEADER_BYTES)?;
    Some(u32_at(header, 0))
}

/// Reads the frame at the beginning of the bytes, which may be more than it.
///
/// # Errors
/// Why there is none.
pub fn read<'a>(bytes: &'a [u8], home: &Home) -> Result<(Frame<'a>, usize), NotAFrame> {
    let length = length_of(bytes).ok_or(NotAFrame::Length)? as usize;
    if bytes[..HEADER_BYTES].iter().all(|byte| *byte == 0) {
        return Err(NotAFrame::Zeros);
    }
    let stored = stored_bytes(length);
    if length == 0 || stored > bytes.len() {
        return Err(NotAFrame::Length);
    }
    let frame = &bytes[..HEADER_BYTES + length];
    if home.crc(frame) != u32_at(frame, 4) {
        return Err(NotAFrame::Checksum);
    }
    let kind = Kind::of(frame[20]).ok_or(NotAFrame::Kind)?;
    if frame[21..24] != [0; 3] {
        return Err(NotAFrame::Kind);
    }
    if bytes[HEADER_BYTES + length..stored].iter().any(|b| *b != 0) {
        return Err(NotAFrame::Padding);
    }
    let frame = Frame {
        kind,
        sequence: Sequence(u64_at(frame, 8)),
        epoch: Epoch(u32_at(frame, 16)),
        payload: &frame[HEADER_BYTES..],
    };
    Ok((frame, stored))
}

/// The little-endian `u32` at an offset.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_le_bytes(value)
}

/// The little-endian `u64` at an offset.
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn home() -> Home {
        Home::new(JournalId([7; 16]), 3)
    }

    fn entry(payload: &[u8]) -> Frame<'_> {
        Frame {
            kind: Kind::Entry,
            sequence: Sequence(42),
            epoch: Epoch(5),
            payload,
        }
    }

    #[test]
    fn fault_a9_zeros_are_never_a_frame() {
        for len in [HEADER_BYTES, HEADER_BYTES + 8, 4096] {
            assert_eq!(read(&vec![0; len], &home()), Err(NotAFrame::Zeros));
        }
        assert_eq!(read(&[0; 23], &home()), Err(NotAFrame::Length));
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let mut buffer = Vec::new();
        put(&mut buffer, &home(), entry(b"thirteen byte"));
        for bit in 0..buffer.len() * 8 {
            let mut flipped = buffer.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&flipped, &home()).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn fault_a12_a_frame_of_another_segment_or_journal_does_not_check_out() {
        let mut buffer = Vec::new();
        put(&mut buffer, &home(), entry(b"payload"));
        for home in [
            Home::new(JournalId([7; 16]), 4),
            Home::new(JournalId([8; 16]), 3),
        ] {
            assert_eq!(read(&buffer, &home), Err(NotAFrame::Checksum));
        }
    }

    proptest! {
        #[test]
        fn what_is_put_is_read(payload in proptest::collection::vec(any::<u8>(), 1..300),
                               sequence: u64, epoch: u32, behind in 0usize..40) {
            let frame = Frame { kind: Kind::Entry, sequence: Sequence(sequence), epoch: Epoch(epoch),
                                payload: &payload };
            let mut buffer = Vec::new();
            put(&mut buffer, &home(), frame);
            let stored = buffer.len();
            buffer.resize(stored + behind, 0xa5);
            prop_assert_eq!(read(&buffer, &home()), Ok((frame, stored)));
            prop_assert_eq!(stored % ALIGN_BYTES, 0);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes, &home());
        }
    }
}
