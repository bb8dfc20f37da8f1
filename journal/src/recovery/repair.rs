//! Making what was read durable, and the end of the log clean. Only called when no damage was
//! found; every step can be cut anywhere and done again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::layout::{Found, Layout, io};
use super::scan::Tail;
use crate::disk::{Access, Disk, DiskFile, Site, read_full_at, remove_if_there, write_all_at};
use crate::error::OpenError;
use crate::format::segment::PAGE_BYTES;
use crate::mutants::{self, Mutant};

const PIECE_BYTES: usize = 1024 * 1024;

/// What was done.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Repaired {
    /// Bytes of a torn end that were cut.
    pub(crate) cut_bytes: u64,
    /// Where the cut began.
    pub(crate) cut_at: Option<(PathBuf, u64)>,
    /// Bytes by which segments that were too short were filled up with zeros.
    pub(crate) filled_bytes: u64,
    /// Bytes rewritten because nothing proved that they were durable.
    pub(crate) rewritten_bytes: u64,
}

impl Repaired {
    fn cut(&mut self, path: &Path, at: u64, bytes: u64) {
        self.cut_bytes += bytes;
        self.cut_at.get_or_insert_with(|| (path.to_owned(), at));
    }
}

/// Rewrites what is not proved durable, cuts the rest, syncs.
pub(crate) fn repair(
    disk: &dyn Disk,
    folder: &Path,
    layout: &Layout,
    tail: Option<Tail>,
) -> Result<Repaired, OpenError> {
    let mut done = Repaired::default();
    for path in &layout.unfinished {
        remove_if_there(disk, path, Site::SegmentRemove).map_err(io(path, "removing it"))?;
    }
    let from = tail.map_or(0, |tail| tail.index);
    for (index, found) in layout.segments.iter().enumerate().skip(from) {
        let tail = tail.filter(|tail| tail.index == index);
        segment(disk, found, tail, &mut done)?;
    }
    disk.sync_dir(folder, Site::RecoveryDirSync)
        .map_err(io(folder, "syncing it"))?;
    Ok(done)
}

/// Deletes spares of another size than is wanted now, the last first, so that no gap can show.
/// Returns how many segments are left.
pub(crate) fn discard_spares(
    disk: &dyn Disk,
    folder: &Path,
    layout: &Layout,
    used: usize,
    segment_bytes: u64,
) -> Result<usize, OpenError> {
    let spares = layout.segments.get(used..).unwrap_or_default();
    let Some(first) = spares.iter().position(|found| found.bytes != segment_bytes) else {
        return Ok(layout.segments.len());
    };
    for found in spares[first..].iter().rev() {
        disk.remove(&found.path, Site::SegmentRemove)
            .map_err(found.io("removing a spare of another size"))?;
        if mutants::is(Mutant::SparesDiscardedUnderOneSync) {
            continue;
        }
        // Each is gone for good before the next goes: of two removals under one sync, a power cut
        // may undo the first alone.
        disk.sync_dir(folder, Site::RecoveryDirSync)
            .map_err(io(folder, "syncing it"))?;
    }
    Ok(used + first)
}

fn segment(
    disk: &dyn Disk,
    found: &Found,
    tail: Option<Tail>,
    done: &mut Repaired,
) -> Result<(), OpenError> {
    let file = disk
        .open(&found.path, Access::ReadWrite)
        .map_err(found.io("opening it"))?;
    let mut changed = false;
    let end = tail.map_or(PAGE_BYTES as u64, |tail| tail.end);

    // Cut first: what a torn group left must be gone before its place is used again.
    let (first, behind) =
        nonzero_span(&*file, end, found.len.min(found.bytes)).map_err(found.io("reading it"))?;
    if first < behind {
        if !mutants::is(Mutant::TruncationNotSynced) {
            wipe(&*file, first, behind).map_err(found.io("cutting its torn end"))?;
            changed = true;
        }
        done.cut(&found.path, first, behind - first);
    }
    if found.len > found.bytes {
        file.set_len(found.bytes, Site::RecoveryCut)
            .map_err(found.io("cutting what is behind its full size"))?;
        done.cut(&found.path, found.bytes, found.len - found.bytes);
        changed = true;
    }
    if found.len < found.bytes {
        fill(&file, found).map_err(found.io("filling it up to its full size"))?;
        done.filled_bytes += found.bytes - found.len;
        changed = true;
    }
    if let Some(tail) = tail
        && !mutants::is(Mutant::UnsyncedTailTrusted)
    {
        done.rewritten_bytes += rewrite(&file, tail).map_err(found.io("rewriting its end"))?;
        changed = true;
    }
    if changed {
        file.sync_all(Site::RecoverySync)
            .map_err(found.io("syncing it"))?;
    }
    if mutants::is(Mutant::TruncationNotSynced) {
        wipe(&*file, first, behind).map_err(found.io("cutting its torn end"))?;
    }
    Ok(())
}

/// Overwrites a range with zeros.
fn wipe(file: &dyn DiskFile, from: u64, to: u64) -> std::io::Result<()> {
    let length = usize::try_from(to - from).unwrap_or(PIECE_BYTES);
    let zeros = vec![0; length.min(PIECE_BYTES)];
    let mut at = from;
    while at < to {
        let piece = usize::try_from(to - at)
            .unwrap_or(PIECE_BYTES)
            .min(zeros.len());
        write_all_at(file, &zeros[..piece], at, Site::RecoveryZero)?;
        at += piece as u64;
    }
    Ok(())
}

fn fill(file: &Arc<dyn DiskFile>, found: &Found) -> std::io::Result<()> {
    let zeros = vec![0; PIECE_BYTES];
    let mut at = found.len;
    while at < found.bytes {
        let piece = usize::try_from(found.bytes - at)
            .unwrap_or(PIECE_BYTES)
            .min(PIECE_BYTES);
        write_all_at(&**file, &zeros[..piece], at, Site::RecoveryFill)?;
        at += piece as u64;
    }
    Ok(())
}

/// Writes the last group anew: reading it back proves only that the page cache has it.
fn rewrite(file: &Arc<dyn DiskFile>, tail: Tail) -> std::io::Result<u64> {
    let mut at = tail.group;
    let mut buffer = vec![0; PIECE_BYTES];
    while at < tail.end {
        let piece = usize::try_from(tail.end - at)
            .unwrap_or(PIECE_BYTES)
            .min(PIECE_BYTES);
        let read = read_full_at(&**file, &mut buffer[..piece], at)?;
        if read < piece {
            return Err(std::io::Error::new(
                std::io::ErrorKind::UnexpectedEof,
                "the file became shorter while it was recovered",
            ));
        }
        write_all_at(&**file, &buffer[..piece], at, Site::RecoveryRewrite)?;
        at += piece as u64;
    }
    Ok(tail.end - tail.group)
}

/// From the first byte that is not zero to behind the last one; empty if all are zero.
fn nonzero_span(file: &dyn DiskFile, from: u64, to: u64) -> std::io::Result<(u64, u64)> {
    let mut span = None;
    let mut at = from;
    let mut buffer = vec![0; PIECE_BYTES];
    while at < to {
        let piece = usize::try_from(to - at)
            .unwrap_or(PIECE_BYTES)
            .min(PIECE_BYTES);
        let read = read_full_at(file, &mut buffer[..piece], at)?;
        if read == 0 {
            break;
        }
        let bytes = &buffer[..read];
        if let Some(first) = bytes.iter().position(|byte| *byte != 0) {
            let last = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(first);
            let begin = span.map_or(at + first as u64, |(begin, _)| begin);
            span = Some((begin, at + last as u64 + 1));
        }
        at += read as u64;
    }
    Ok(span.unwrap_or((from, from)))
}
