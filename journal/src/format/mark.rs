//! The mark: a witness for the last durable sequence, beside the log.
//!
//! The file `mark` has two slots of 512 bytes, overwritten in turn after a sync of the log and
//! never synced itself while the journal is open: it may lag behind the log, but it never runs
//! ahead of it. A slot:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic `INTDMRK` and a zero |
//! | 8 | 4 | format version |
//! | 12 | 4 | CRC-32 of all other bytes of the slot |
//! | 16 | 16 | the journal's id |
//! | 32 | 8 | durable sequence |
//! | 40 | 472 | zero |

use super::entry::{JournalId, Sequence};
use super::frame::{u32_at, u64_at};
use super::segment::FORMAT_VERSION;

/// Bytes of a slot: one sector, which a disk writes whole or not at all.
pub const SLOT_BYTES: usize = 512;
/// Number of slots.
pub const SLOTS: usize = 2;

const MAGIC: [u8; 8] = *b"INTDMRK\0";

/// The bytes of a slot.
#[must_use]
pub fn slot(journal: JournalId, durable: Sequence) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    slot[..8].copy_from_slice(&MAGIC);
    slot[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    slot[16..32].copy_from_slice(&journal.0);
    slot[32..40].copy_from_slice(&durable.0.to_le_bytes());
    let crc = crc(&slot);
    slot[12..16].copy_from_slice(&crc.to_le_bytes());
    slot
}

/// What a slot says; `None` if it is no slot of this journal.
#[must_use]
pub fn read_slot(slot: &[u8; SLOT_BYTES], journal: JournalId) -> Option<Sequence> {
    let sound = slot[..8] == MAGIC
        && u32_at(slot, 12) == crc(slot)
        && u32_at(slot, 8) == FORMAT_VERSION
        && slot[16..32] == journal.0;
    sound.then(|| Sequence(u64_at(slot, 32)))
}

fn crc(slot: &[u8; SLOT_BYTES]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&slot[..12]);
    hasher.update(&slot[16..]);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_read_back_by_its_journal_alone_and_every_flip_is_found() {
        let journal = JournalId([5; 16]);
        let slot = slot(journal, Sequence(77));
        assert_eq!(read_slot(&slot, journal), Some(Sequence(77)));
        assert_eq!(read_slot(&slot, JournalId([6; 16])), None);
        assert_eq!(read_slot(&[0; SLOT_BYTES], journal), None);
        for at in 0..SLOT_BYTES {
            let mut flipped = slot;
            flipped[at] ^= 4;
            assert_eq!(read_slot(&flipped, journal), None, "byte {at}");
        }
    }
}
