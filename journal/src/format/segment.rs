//! The segment: a file of fixed size that holds a stretch of the log.
//!
//! Its first page (4096 bytes) is the header, written when the file is made ready:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic `INTDSEG` and a zero |
//! | 8 | 4 | format version |
//! | 12 | 4 | CRC-32 of all other bytes of the page |
//! | 16 | 16 | the journal's id |
//! | 32 | 8 | the segment's number |
//! | 40 | 8 | the segment's size in bytes, this page included |
//! | 48 | 4048 | zero |
//!
//! Magic, version and CRC keep their places in every version. The page is followed by groups, each
//! of which begins at a multiple of 4096 and is padded with zeros to one. The first frame of the
//! first group is of kind `SegmentHead`: sequence of the segment's first entry, epoch, and as
//! payload the chain value before that entry (32 bytes).

use super::entry::{Digest, Epoch, JournalId, Sequence};
use super::frame::{self, Frame, Home, Kind, u32_at, u64_at};

/// Version of everything on disk that this program writes.
pub const FORMAT_VERSION: u32 = 1;
/// Groups begin at multiples of this; the header takes the first such page.
pub const PAGE_BYTES: usize = 4096;
/// Smallest size of a segment.
pub const MIN_BYTES: u64 = 64 * 1024;
/// Largest size of a segment.
pub const MAX_BYTES: u64 = 1024 * 1024 * 1024;
/// Size of a segment unless asked otherwise.
pub const DEFAULT_BYTES: u64 = 64 * 1024 * 1024;
/// Bytes that a segment's first frame takes up.
pub const HEAD_BYTES: usize = frame::stored_bytes(32);

/// Where the header names the journal.
pub(crate) const JOURNAL_ID_OFFSET: u64 = 16;

const MAGIC: [u8; 8] = *b"INTDSEG\0";

/// What the header page says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHeader {
    /// The journal it belongs to.
    pub journal: JournalId,
    /// Its number: 1 for the first, without gaps.
    pub number: u64,
    /// Its full size in bytes.
    pub bytes: u64,
}

/// Why a page is not a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotAHeader {
    /// The magic is another.
    #[error("not a segment of a journal")]
    Magic,
    /// The checksum does not hold.
    #[error("a segment header whose checksum does not hold")]
    Checksum,
    /// Written by a newer program.
    #[error("a segment of format version {0}")]
    Newer(u32),
    /// The checksum holds, but a field is impossible.
    #[error("a segment header with an impossible field")]
    Field,
}

impl SegmentHeader {
    /// The page.
    #[must_use]
    pub fn page(&self) -> [u8; PAGE_BYTES] {
        let mut page = [0; PAGE_BYTES];
        page[..8].copy_from_slice(&MAGIC);
        page[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        page[16..32].copy_from_slice(&self.journal.0);
        page[32..40].copy_from_slice(&self.number.to_le_bytes());
        page[40..48].copy_from_slice(&self.bytes.to_le_bytes());
        let crc = page_crc(&page);
        page[12..16].copy_from_slice(&crc.to_le_bytes());
        page
    }

    /// Reads a page.
    ///
    /// # Errors
    /// Why it is no header.
    pub fn read(page: &[u8; PAGE_BYTES]) -> Result<Self, NotAHeader> {
        if page[..8] != MAGIC {
            return Err(NotAHeader::Magic);
        }
        if page_crc(page) != u32_at(page, 12) {
            return Err(NotAHeader::Checksum);
        }
        let version = u32_at(page, 8);
        if version > FORMAT_VERSION {
            return Err(NotAHeader::Newer(version));
        }
        let mut journal = [0; 16];
        journal.copy_from_slice(&page[16..32]);
        let header = Self {
            journal: JournalId(journal),
            number: u64_at(page, 32),
            bytes: u64_at(page, 40),
        };
        let sound = version == FORMAT_VERSION
            && header.number > 0
            && size_is_valid(header.bytes)
            && page[48..].iter().all(|byte| *byte == 0);
        if sound {
            Ok(header)
        } else {
            Err(NotAHeader::Field)
        }
    }
}

/// True for sizes that a segment may have.
#[must_use]
pub fn size_is_valid(bytes: u64) -> bool {
    (MIN_BYTES..=MAX_BYTES).contains(&bytes) && bytes.is_multiple_of(PAGE_BYTES as u64)
}

fn page_crc(page: &[u8; PAGE_BYTES]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&page[..12]);
    hasher.update(&page[16..]);
    hasher.finalize()
}

/// The first frame of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHead {
    /// Sequence of the segment's first entry.
    pub first: Sequence,
    /// The opening that began to use the segment.
    pub epoch: Epoch,
    /// Chain value before that entry.
    pub chain: Digest,
}

impl SegmentHead {
    /// Reads it from a frame; `None` if it is none.
    #[must_use]
    pub fn of(frame: &Frame<'_>) -> Option<Self> {
        if frame.kind != Kind::SegmentHead || frame.sequence.0 == 0 {
            return None;
        }
        Some(Self {
            first: frame.sequence,
            epoch: frame.epoch,
            chain: Digest(frame.payload.try_into().ok()?),
        })
    }

    /// Appends its frame.
    pub fn put(&self, buffer: &mut Vec<u8>, home: &Home) {
        frame::put(
            buffer,
            home,
            Frame {
                kind: Kind::SegmentHead,
                sequence: self.first,
                epoch: self.epoch,
                payload: &self.chain.0,
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: SegmentHeader = SegmentHeader {
        journal: JournalId([3; 16]),
        number: 17,
        bytes: DEFAULT_BYTES,
    };

    #[test]
    fn the_page_is_read_back_and_every_flipped_byte_is_found() {
        let page = HEADER.page();
        assert_eq!(SegmentHeader::read(&page), Ok(HEADER));
        for at in 0..PAGE_BYTES {
            let mut flipped = page;
            flipped[at] ^= 0x10;
            assert!(SegmentHeader::read(&flipped).is_err(), "byte {at}");
        }
    }

    #[test]
    fn fault_a13_a_newer_version_is_named() {
        let mut page = HEADER.page();
        page[8..12].copy_from_slice(&9u32.to_le_bytes());
        let crc = page_crc(&page);
        page[12..16].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(SegmentHeader::read(&page), Err(NotAHeader::Newer(9)));
    }
}
