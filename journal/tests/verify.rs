//! P10: an entry that somebody rewrote, checksum and all, does not pass for what was recorded.
#![allow(clippy::unwrap_used)]

mod support;

use intendant_journal::error::OpenError;
use intendant_journal::face::IntentLog;
use intendant_journal::scan;
use support::*;

const FRAME_HEADER_BYTES: usize = 24;

/// Rewrites one byte of an entry in a sealed segment and makes its frame's checksum right again, as
/// FORMAT.md describes it.
fn rewrite(segment: &mut [u8], journal: &[u8; 16], number: u64, needle: &[u8]) {
    let at = segment
        .windows(needle.len())
        .position(|window| window == needle)
        .unwrap();
    let frame = (0..at)
        .rev()
        .filter(|offset| offset % 8 == 0)
        .find(|offset| checksum_holds(&segment[*offset..], journal, number))
        .expect("the entry stands in a frame");
    segment[at] ^= 1;
    let crc = checksum(&segment[frame..], journal, number);
    segment[frame + 4..frame + 8].copy_from_slice(&crc.to_le_bytes());
}

fn length(frame: &[u8]) -> usize {
    u32::from_le_bytes(frame[..4].try_into().unwrap()) as usize
}

fn checksum(frame: &[u8], journal: &[u8; 16], number: u64) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(journal);
    hasher.update(&number.to_le_bytes());
    hasher.update(&frame[..4]);
    hasher.update(&frame[8..FRAME_HEADER_BYTES + length(frame)]);
    hasher.finalize()
}

fn checksum_holds(frame: &[u8], journal: &[u8; 16], number: u64) -> bool {
    let length = length(frame);
    length > 0
        && FRAME_HEADER_BYTES + length <= frame.len()
        && frame[4..8] == checksum(frame, journal, number).to_le_bytes()
}

#[test]
fn p10_an_entry_rewritten_with_a_right_checksum_breaks_the_chain() {
    let place = Place::new();
    let journal = place.open();
    let id = journal.id().0;
    // Enough to seal the first segment.
    for n in 0..60 {
        let value = format!("note {n:04} {}", "x".repeat(1_000));
        append(&journal, vec![note("r", &value)]).unwrap();
    }
    journal.close();
    let before = scan::verify(place.data()).unwrap();
    assert!(before.log.segments >= 2, "the first segment is sealed");

    let path = place.segment(1);
    let mut bytes = std::fs::read(&path).unwrap();
    rewrite(&mut bytes, &id, 1, b"note 0003");
    std::fs::write(&path, &bytes).unwrap();

    let error = scan::verify(place.data()).unwrap_err();
    let OpenError::Damaged(damage) = error else {
        panic!("{error}")
    };
    assert!(damage.to_string().contains("chain"), "{damage}");
    assert!(
        place.options().open(place.data()).is_err(),
        "a start is refused as well"
    );
}
