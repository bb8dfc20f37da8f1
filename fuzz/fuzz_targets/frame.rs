//! Frames from arbitrary bytes, as recovery meets them, and from bytes whose checksum was made to
//! hold, as only a broken writer would leave them. Whatever is read is read back byte for byte.

#![no_main]

use intendant_journal::format::batch::BatchHead;
use intendant_journal::format::codec;
use intendant_journal::format::entry::{JournalId, Sequence};
use intendant_journal::format::frame::{self, HEADER_BYTES, Home, Kind};
use intendant_journal::format::segment::{SegmentHead, SegmentHeader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let home = Home::new(JournalId([7; 16]), 1);
    read_all(bytes, &home);
    let mut sealed = bytes.to_vec();
    seal_all(&mut sealed, &home);
    read_all(&sealed, &home);
    if let Some(page) = bytes.first_chunk() {
        let _ = SegmentHeader::read(page);
    }
});

/// Reads one frame after another, as far as they go.
fn read_all(bytes: &[u8], home: &Home) {
    let mut at = 0;
    while let Ok((found, stored)) = frame::read(&bytes[at..], home) {
        assert!(stored > 0 && at + stored <= bytes.len());
        let mut again = Vec::new();
        frame::put(&mut again, home, found);
        assert_eq!(again, &bytes[at..at + stored], "a frame has one form");
        match found.kind {
            Kind::BatchHead => {
                if let Some(head) = BatchHead::of(&found) {
                    assert!(head.last() >= head.first);
                }
            }
            Kind::SegmentHead => {
                let _ = SegmentHead::of(&found);
            }
            Kind::Entry => {
                let _ = codec::decode(found.payload);
            }
        }
        at += stored;
    }
}

/// Makes the checksums of the frames that the bytes claim to hold right.
fn seal_all(bytes: &mut [u8], home: &Home) {
    let mut at = 0;
    let mut sequence = 1;
    while let Some(length) = frame::length_of(&bytes[at..]) {
        let room = bytes.len() - at - HEADER_BYTES;
        // Most lengths are impossible; a small one lets the rest be read.
        let length = length as usize % (room + 1);
        if length == 0 || frame::stored_bytes(length) > bytes.len() - at {
            return;
        }
        bytes[at..at + 4].copy_from_slice(&u32::try_from(length).unwrap_or(0).to_le_bytes());
        at += frame::seal(&mut bytes[at..], home, Sequence(sequence));
        sequence += 1;
    }
}
