//! The example in the document is what the crate writes. A difference prints what it should be.

use std::fmt::Write as _;
use std::path::Path;

use intendant_journal::disk::simulated::SimulatedDisk;
use intendant_journal::simulated;

use crate::FORMAT;
use crate::reader::{FRAME_HEADER, PAGE, frame, u32_at, u64_at};
use crate::schema::Schema;
use crate::support::{append, note, started};

/// Lines of at most 16 bytes, the first with a word on what they are.
fn line(out: &mut String, bytes: &[u8], at: usize, length: usize, what: &str) {
    for (number, piece) in bytes[at..at + length].chunks(16).enumerate() {
        let digits: Vec<String> = piece.iter().map(|byte| format!("{byte:02x}")).collect();
        let what = if number == 0 { what } else { "" };
        let text = format!("{:5}  {:47}  {what}", at + number * 16, digits.join(" "));
        writeln!(out, "{}", text.trim_end()).unwrap();
    }
}

/// All of a segment that is not zero.
fn segment(bytes: &[u8], id: &[u8; 16]) -> String {
    let mut out = String::new();
    let schema = Schema::of(FORMAT);
    line(&mut out, bytes, 0, 8, "magic");
    line(&mut out, bytes, 8, 4, "format version");
    line(&mut out, bytes, 12, 4, "CRC-32 of the page");
    line(&mut out, bytes, 16, 16, "the journal's id");
    line(&mut out, bytes, 32, 8, "number of the segment");
    line(&mut out, bytes, 40, 8, "its size, 65536");
    let mut at = PAGE;
    let mut covered = 48;
    while at < bytes.len() {
        assert!(
            bytes[covered..at].iter().all(|byte| *byte == 0),
            "before {at}"
        );
        covered = at;
        if bytes[at..at + 8] == [0; 8] {
            at = (at + 1).next_multiple_of(PAGE);
            continue;
        }
        let found = frame(&bytes[at..], id, 1);
        writeln!(out).unwrap();
        line(
            &mut out,
            bytes,
            at,
            4,
            &format!("length, {}", found.payload.len()),
        );
        line(&mut out, bytes, at + 4, 4, "CRC-32");
        line(
            &mut out,
            bytes,
            at + 8,
            8,
            &format!("sequence {}", found.sequence),
        );
        line(
            &mut out,
            bytes,
            at + 16,
            4,
            &format!("epoch {}", found.epoch),
        );
        let kind = ["head of a batch", "head of the segment", "entry"][usize::from(found.kind) - 1];
        line(
            &mut out,
            bytes,
            at + 20,
            4,
            &format!("kind {}: {kind}", found.kind),
        );
        let payload = at + FRAME_HEADER;
        match found.kind {
            1 => {
                let entries = u32_at(bytes, payload);
                line(
                    &mut out,
                    bytes,
                    payload,
                    4,
                    &format!("number of entries, {entries}"),
                );
                let length = u32_at(bytes, payload + 4);
                line(
                    &mut out,
                    bytes,
                    payload + 4,
                    4,
                    &format!("bytes of their frames, {length}"),
                );
                let watermark = u64_at(bytes, payload + 8);
                line(
                    &mut out,
                    bytes,
                    payload + 8,
                    8,
                    &format!("watermark {watermark}"),
                );
            }
            2 => line(&mut out, bytes, payload, 32, "chain value before entry 1"),
            _ => {
                let value = schema.read("Entry", found.payload).unwrap();
                let kind = value["body"].as_object().unwrap().keys().next().unwrap();
                let stored = found.stored - FRAME_HEADER;
                line(
                    &mut out,
                    bytes,
                    payload,
                    stored,
                    &format!("{kind}, padded with zeros"),
                );
            }
        }
        at += found.stored;
        covered = at;
    }
    assert!(bytes[covered..].iter().all(|byte| *byte == 0));
    out
}

fn mark(bytes: &[u8], at: usize) -> String {
    let mut out = String::new();
    line(&mut out, bytes, at, 8, "magic");
    line(&mut out, bytes, at + 8, 4, "format version");
    line(&mut out, bytes, at + 12, 4, "CRC-32 of the slot");
    line(&mut out, bytes, at + 16, 16, "the journal's id");
    let durable = u64_at(bytes, at + 32);
    line(
        &mut out,
        bytes,
        at + 32,
        8,
        &format!("durable sequence {durable}"),
    );
    assert!(bytes[at + 40..at + 512].iter().all(|byte| *byte == 0));
    out
}

#[test]
fn the_example_of_the_document_is_what_is_written() {
    let disk = SimulatedDisk::new();
    let journal = simulated::options(&disk, 7)
        .open_or_create("/journal")
        .unwrap();
    append(&journal, vec![started("r"), note("r", "one")]).unwrap();
    append(&journal, vec![note("r", "two")]).unwrap();
    journal.close();
    let file = |name: &str| disk.bytes(&Path::new("/journal").join(name)).unwrap();

    let id = 7u128.to_be_bytes();
    let identity = String::from_utf8(file("IDENTITY")).unwrap() + "\n";
    let segment = segment(&file("journal/0000000000000001.seg"), &id);
    let marks = file("mark");
    let newest = (0..2)
        .max_by_key(|slot| u64_at(&marks, slot * 512 + 32))
        .unwrap();
    let mark = mark(&marks, newest * 512);
    let parts = [
        ("IDENTITY", identity),
        ("the segment", segment),
        ("the mark", mark),
    ];
    let wrong: Vec<_> = parts
        .iter()
        .map(|(what, text)| (what, format!("```text\n{text}```\n")))
        .filter(|(_, block)| !FORMAT.contains(block))
        .map(|(what, block)| format!("{what} in FORMAT.md should be\n{block}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
