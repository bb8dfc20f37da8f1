//! A reader of whole journals, written from `FORMAT.md`. It believes nothing it has not checked, and
//! knows no torn ends: it is for journals in order.

use std::path::Path;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::schema::Schema;

pub(crate) const PAGE: usize = 4096;
pub(crate) const FRAME_HEADER: usize = 24;

/// An entry as it was read.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Entry {
    pub(crate) sequence: u64,
    pub(crate) epoch: u32,
    pub(crate) value: Value,
}

/// A journal as it was read.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) id: [u8; 16],
    pub(crate) entries: Vec<Entry>,
    /// Chain value behind the last entry.
    pub(crate) chain: [u8; 32],
    /// The highest sequence that a slot of the mark says was durable.
    pub(crate) marked: Option<u64>,
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn crc(parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}

fn id_of(identity: &[u8]) -> [u8; 16] {
    let value: Value = serde_json::from_slice(identity).unwrap();
    assert_eq!(value["magic"], "intendant-journal");
    let digits = value["id"].as_str().unwrap();
    let id: Vec<u8> = (0..16)
        .map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap())
        .collect();
    id.try_into().unwrap()
}

/// One frame whose checksum holds.
pub(crate) struct Frame<'a> {
    pub(crate) sequence: u64,
    pub(crate) epoch: u32,
    pub(crate) kind: u8,
    pub(crate) payload: &'a [u8],
    /// Bytes to the next one.
    pub(crate) stored: usize,
}

pub(crate) fn frame<'a>(bytes: &'a [u8], id: &[u8; 16], segment: u64) -> Frame<'a> {
    let length = u32_at(bytes, 0) as usize;
    assert!(length > 0 && length <= bytes.len() - FRAME_HEADER);
    let end = FRAME_HEADER + length;
    let found = crc(&[id, &segment.to_le_bytes(), &bytes[..4], &bytes[8..end]]);
    assert_eq!(found, u32_at(bytes, 4), "checksum of a frame");
    assert_eq!(bytes[21..24], [0; 3]);
    Frame {
        sequence: u64_at(bytes, 8),
        epoch: u32_at(bytes, 16),
        kind: bytes[20],
        payload: &bytes[FRAME_HEADER..end],
        stored: end.next_multiple_of(8),
    }
}

/// What is known from what was read.
struct Log<'a> {
    schema: &'a Schema,
    id: [u8; 16],
    entries: Vec<Entry>,
    chain: [u8; 32],
    watermark: u64,
}

impl Log<'_> {
    fn next(&self) -> u64 {
        self.entries.len() as u64 + 1
    }

    fn segment(&mut self, number: u64, bytes: &[u8]) {
        assert_eq!(&bytes[..8], b"INTDSEG\0");
        assert_eq!(crc(&[&bytes[..12], &bytes[16..PAGE]]), u32_at(bytes, 12));
        assert_eq!(bytes[16..32], self.id);
        assert_eq!(u64_at(bytes, 32), number);
        assert_eq!(u64_at(bytes, 40), bytes.len() as u64);
        let mut at = PAGE;
        while at < bytes.len() {
            if bytes[at..at + FRAME_HEADER.min(bytes.len() - at)]
                .iter()
                .all(|byte| *byte == 0)
            {
                // Padding of a group, or the end.
                let next = (at + 1).next_multiple_of(PAGE);
                assert!(bytes[at..next].iter().all(|byte| *byte == 0));
                at = next;
                continue;
            }
            let head = frame(&bytes[at..], &self.id, number);
            at += head.stored;
            match head.kind {
                2 => {
                    assert_eq!(
                        at - head.stored,
                        PAGE,
                        "a segment's head is its first frame"
                    );
                    assert_eq!(head.sequence, self.next());
                    assert_eq!(head.payload, self.chain);
                }
                1 => at = self.batch(number, bytes, at, &head),
                other => panic!("a frame of kind {other} outside of a batch"),
            }
        }
    }

    fn batch(&mut self, number: u64, bytes: &[u8], from: usize, head: &Frame<'_>) -> usize {
        let (count, length) = (u32_at(head.payload, 0), u32_at(head.payload, 4));
        let watermark = u64_at(head.payload, 8);
        assert_eq!(head.sequence, self.next());
        // The first batch of a group begins right above its watermark; the others share it.
        assert!(watermark + 1 == head.sequence || watermark == self.watermark);
        self.watermark = watermark;
        let mut at = from;
        for _ in 0..count {
            let found = frame(&bytes[at..], &self.id, number);
            assert_eq!((found.kind, found.sequence), (3, self.next()));
            assert_eq!(found.epoch, head.epoch);
            let mut hasher = Sha256::new();
            hasher.update(self.chain);
            hasher.update(found.payload);
            hasher.update(found.sequence.to_le_bytes());
            hasher.update(found.epoch.to_le_bytes());
            self.chain = hasher.finalize().into();
            self.entries.push(Entry {
                sequence: found.sequence,
                epoch: found.epoch,
                value: self.schema.read("Entry", found.payload).unwrap(),
            });
            at += found.stored;
        }
        assert_eq!(at - from, length as usize);
        at
    }
}

/// Reads the journal in a folder of the real disk.
pub(crate) fn read(schema: &Schema, folder: &Path) -> Journal {
    let file = |name: &str| std::fs::read(folder.join(name)).ok();
    let id = id_of(&file("IDENTITY").unwrap());
    let mut genesis = Sha256::new();
    genesis.update(b"intendant journal chain, version 1\0");
    genesis.update(id);
    let mut log = Log {
        schema,
        id,
        entries: Vec::new(),
        chain: genesis.finalize().into(),
        watermark: 0,
    };
    for number in 1.. {
        let Some(bytes) = file(&format!("journal/{number:016}.seg")) else {
            break;
        };
        log.segment(number, &bytes);
    }
    let mark = file("mark").unwrap();
    let slots = mark.chunks(512).filter(|slot| {
        &slot[..8] == b"INTDMRK\0"
            && crc(&[&slot[..12], &slot[16..]]) == u32_at(slot, 12)
            && slot[16..32] == id
    });
    Journal {
        id,
        entries: log.entries,
        chain: log.chain,
        marked: slots.map(|slot| u64_at(slot, 32)).max(),
    }
}
