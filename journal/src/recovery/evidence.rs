//! Heads further on that prove what had been durable, where reading cannot go on.

use std::io;

use super::layout::Found;
use super::scan::ScanStart;
use super::step::Broken;
use super::table::Read;
use super::window::Window;
use crate::disk::Access;
use crate::format::batch::{BatchHead, HEAD_BYTES};
use crate::format::frame::{self, Home, Kind};
use crate::format::segment::{self, PAGE_BYTES, SegmentHead};

/// The highest sequence that a head further on proves to have been durable, if that is more
/// than was read, or if it proves that the bytes here had been in order.
pub(super) fn later_proof(
    start: &ScanStart<'_>,
    expected: u64,
    index: usize,
    home: &Home,
    window: &mut Window,
    broken: &Broken,
) -> io::Result<Option<u64>> {
    let segments = &start.layout.segments;
    let mut proof = None;
    if broken.read != Read::Zeros {
        proof = proof_behind(&segments[index], home, window, broken.at, expected)?;
    }
    // Where this segment ends cleanly, only the next one can say that something is missing.
    let last = start.layout.last_used.unwrap_or(index);
    let last = match broken.read {
        Read::Zeros => last.min(index + 1),
        _ => last,
    };
    for later in segments.iter().take(last + 1).skip(index + 1) {
        let file = start.disk.open(&later.path, Access::Read)?;
        let mut window = Window::new(file);
        let bytes = window.at(PAGE_BYTES as u64, segment::HEAD_BYTES)?;
        let home = Home::new(start.journal, later.number);
        if bytes.len() < frame::HEADER_BYTES {
            continue;
        }
        let Some(head) = frame::read(bytes, &home)
            .ok()
            .and_then(|(frame, _)| SegmentHead::of(&frame))
        else {
            continue;
        };
        let covers =
            head.first.0 > expected || (head.first.0 == expected && broken.read != Read::Zeros);
        if covers {
            proof = proof.max(Some(head.first.0 - 1));
        }
    }
    Ok(proof)
}

/// Looks behind a place for heads of batches, at every multiple of 8.
fn proof_behind(
    found: &Found,
    home: &Home,
    window: &mut Window,
    at: u64,
    expected: u64,
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
            let covers = head.watermark.0 >= expected || (head.leads() && head.first.0 == expected);
            if covers {
                proof = proof.max(Some(head.watermark.0));
            }
        }
        offset += frame::ALIGN_BYTES as u64;
    }
    Ok(proof)
}
