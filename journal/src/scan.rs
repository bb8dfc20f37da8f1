//! Reading a journal from outside: without its lock, without changing a byte, and without redb but
//! for what the projection of a stopped journal remembers of the log's end.
//!
//! For commands on a stopped journal, and for `verify`. A process that owns the journal may be
//! writing meanwhile: the reader sees everything that was durable when it began, and what does not
//! check out is read again before it is called damage.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::blobs::Blobs;
use crate::checkpoints::Verifier;
use crate::disk::{Disk, Kind, RealDisk};
use crate::error::{OpenError, ReadError};
use crate::format::entry::{BlobRef, Digest, Epoch, JournalId, Recorded, Sequence};
use crate::format::named_blobs::named_blobs;
use crate::identity;
use crate::journal::{BLOBS, SEGMENTS};
use crate::lock;
use crate::projection;
use crate::recovery::{
    self, Begin, Found, Layout, Patience, Readers, ScanStart, Seen, Witness, missing, read_layout,
};
use crate::witnesses::{Asked, Witnesses};

/// What a reading found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScanReport {
    /// The journal.
    pub id: JournalId,
    /// Its last opening.
    pub epoch: Epoch,
    /// Sequence of its last entry, 0 if there is none.
    pub end: Sequence,
    /// Number of segments, spares included.
    pub segments: u64,
    /// Hash chain value after the last entry.
    pub chain: Digest,
    /// Behind the last entry; `None` if there is none.
    pub ended_at: Option<Place>,
    /// Where bytes were found behind the last entry: a group that is just being written, or a torn
    /// end that the next opening cuts.
    pub unfinished: Option<Unfinished>,
}

/// A place in the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// Number of the segment.
    pub segment: u64,
    /// Its file.
    pub path: PathBuf,
    /// Byte offset in it.
    pub offset: u64,
}

/// Bytes behind the last entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unfinished {
    /// The segment's file.
    pub path: PathBuf,
    /// Where they begin.
    pub offset: u64,
    /// What they are.
    pub what: String,
}

/// What a verification found in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifyReport {
    /// The log.
    pub log: ScanReport,
    /// Number of different blobs that entries name, all there and with the content they are named
    /// by.
    pub blobs: u64,
}

/// Reads all entries of the journal in a folder, in order.
///
/// # Errors
/// [`OpenError`]; entries before the damage have been visited then.
pub fn scan(path: impl AsRef<Path>, visit: impl FnMut(Recorded)) -> Result<ScanReport, OpenError> {
    scan_knowing(path, &[], visit)
}

/// [`scan`] by somebody who knows these keys: a checkpoint in the folder whose signature by one of
/// them does not hold is no witness for what had been durable, and the log must have the hash that
/// the newest one says that one of them has signed.
///
/// # Errors
/// As for [`scan`].
pub fn scan_knowing(
    path: impl AsRef<Path>,
    keys: &[Verifier],
    mut visit: impl FnMut(Recorded),
) -> Result<ScanReport, OpenError> {
    let asked = Asked::All { keys };
    let (readers, nobody) = (Readers::per_core(), |_| None);
    let read = read_log(&RealDisk, path.as_ref(), readers, asked, nobody, &mut visit);
    read.map(|(report, _)| report)
}

/// [`scan`] on another disk than the real one, on the calling thread alone.
///
/// # Errors
/// As for [`scan`].
pub fn scan_on(
    disk: &dyn Disk,
    folder: &Path,
    visit: &mut dyn FnMut(Recorded),
) -> Result<ScanReport, OpenError> {
    let (asked, nobody) = (Asked::All { keys: &[] }, |_| None);
    read_log(disk, folder, Readers::Caller, asked, nobody, visit).map(|(report, _)| report)
}

/// Reads the log, and judges its end by the witnesses and by what else somebody remembers.
fn read_log(
    disk: &dyn Disk,
    folder: &Path,
    readers: Readers,
    asked: Asked<'_>,
    remembered: impl FnOnce(JournalId) -> Option<Witness>,
    visit: &mut dyn FnMut(Recorded),
) -> Result<(ScanReport, Vec<Seen>), OpenError> {
    let path = folder.to_owned();
    let id = match identity::folder_kind(disk, folder)? {
        None => return Err(OpenError::Missing { path }),
        Some(Kind::Folder) => match identity::read(disk, folder)? {
            Some(id) => id,
            None if identity::is_empty(disk, folder)? => return Err(OpenError::Missing { path }),
            None => {
                if let Some(damage) = identity::missing(disk, folder) {
                    return Err(damage.into());
                }
                let what = "it has no file IDENTITY".into();
                return Err(OpenError::Foreign { path, what });
            }
        },
        Some(_) => {
            let what = "it is not a folder".into();
            return Err(OpenError::Foreign { path, what });
        }
    };
    // The witnesses first: what they say now is durable is in the log that is read afterwards.
    let remembered = remembered(id);
    let witnesses = Witnesses::ask(disk, folder, id, false, asked)?;
    let segments = folder.join(SEGMENTS);
    let layout = read_layout(disk, &segments, id)?;
    let known = remembered.as_ref().is_some_and(|it| it.durable.0 > 0);
    if layout.segments.is_empty() && (known || witnesses.last.is_some()) {
        return Err(missing(&segments, 1).into());
    }
    let found = recovery::scan(
        &ScanStart {
            disk,
            folder,
            journal: id,
            layout: &layout,
            witness: witnesses.last.clone(),
            patience: Patience::Bystander,
            from: Begin::of(id),
            readers,
            watch: witnesses.watch(),
        },
        &mut |_, recorded| visit(recorded),
    )?;
    witnesses.check(&found.seen)?;
    if let Some(remembered) = &remembered {
        found.check(remembered, folder)?;
    }
    let report = ScanReport {
        id,
        epoch: found.epoch,
        end: found.end,
        segments: layout.segments.len() as u64,
        chain: found.chain,
        ended_at: found.tail.map(|tail| Place {
            segment: layout.segments[tail.index].number,
            path: layout.segments[tail.index].path.clone(),
            offset: tail.end,
        }),
        unfinished: found
            .torn()
            .map(|damage| Unfinished {
                path: damage.path.clone(),
                offset: damage.offset,
                what: damage.what.clone(),
            })
            .or_else(|| too_long(&layout)),
    };
    Ok((report, found.seen))
}

/// Bytes behind the full size of a segment; a sealed one would have been called damaged.
fn too_long(layout: &Layout) -> Option<Unfinished> {
    let long = |segment: &&Found| segment.len > segment.bytes;
    layout.segments.iter().find(long).map(|segment| Unfinished {
        path: segment.path.clone(),
        offset: segment.bytes,
        what: "bytes behind the segment's full size".into(),
    })
}

/// Which journal a folder holds, and which one is recorded for its path outside of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Whereabouts {
    /// The journal in the folder, if there is one.
    pub there: Option<JournalId>,
    /// The journal recorded for the path, if there is one.
    pub recorded: Option<JournalId>,
    /// False if the user has no folder for such records.
    pub can_be_recorded: bool,
}

/// Reads which journal a folder holds, and which one is recorded for its path.
///
/// # Errors
/// [`OpenError`] if either cannot be read.
pub fn whereabouts(path: impl AsRef<Path>) -> Result<Whereabouts, OpenError> {
    let (disk, folder) = (&RealDisk, path.as_ref());
    let records = identity::Records::new(None);
    let known_path = identity::Records::known_path(disk, folder)?;
    let there = match identity::folder_kind(disk, folder)? {
        Some(Kind::Folder) => identity::read(disk, folder)?,
        _ => None,
    };
    Ok(Whereabouts {
        there,
        recorded: records.read(disk, &known_path)?,
        can_be_recorded: records.have_a_place(),
    })
}

/// Reads a blob of a journal from outside, and checks it against its hash.
///
/// # Errors
/// [`ReadError`] if it is missing or damaged.
pub fn read_blob(path: impl AsRef<Path>, blob: &BlobRef) -> Result<Vec<u8>, ReadError> {
    Blobs::new(Arc::new(RealDisk), path.as_ref().join(BLOBS)).get(blob)
}

/// What the projection remembers to have been durable, unless an owner is at work on it: that one
/// has asked it, and writes to it.
fn projection_of_nobody(disk: &dyn Disk, folder: &Path, id: JournalId) -> Option<Witness> {
    if !matches!(lock::owner(disk, folder), Ok(None)) {
        return None;
    }
    projection::remembered(disk, folder, id).map(|durable| Witness {
        name: "the projection",
        durable,
    })
}

/// Checks every frame, the hash chain, the heads of the segments, and every blob that an entry
/// names; and on a stopped journal that the log does not end before what the projection remembers.
///
/// # Errors
/// The first damage, or what keeps it from being looked for.
pub fn verify(path: impl AsRef<Path>) -> Result<VerifyReport, OpenError> {
    let (disk, folder) = (Arc::new(RealDisk), path.as_ref());
    let asked = Asked::All { keys: &[] };
    verify_by(disk, folder, Readers::per_core(), asked).map(|(report, _)| report)
}

/// [`verify`] on another disk than the real one, on the calling thread alone.
///
/// # Errors
/// As for [`verify`].
pub fn verify_on(disk: Arc<dyn Disk>, folder: &Path) -> Result<VerifyReport, OpenError> {
    verify_by(disk, folder, Readers::Caller, Asked::All { keys: &[] }).map(|(report, _)| report)
}

/// [`verify`], and the chain behind watched entries. The checkpoints of the folder are left to the
/// caller, who has their keys, and are not asked as witnesses.
pub(crate) fn verify_watching(
    disk: Arc<dyn Disk>,
    folder: &Path,
    readers: Readers,
    watch: &[Sequence],
) -> Result<(VerifyReport, Vec<Seen>), OpenError> {
    verify_by(disk, folder, readers, Asked::NoCheckpoints { watch })
}

fn verify_by(
    disk: Arc<dyn Disk>,
    folder: &Path,
    readers: Readers,
    asked: Asked<'_>,
) -> Result<(VerifyReport, Vec<Seen>), OpenError> {
    let blobs = Blobs::new(Arc::clone(&disk), folder.join(BLOBS));
    let mut seen = HashSet::new();
    let mut bad: Option<ReadError> = None;
    let remembered = |id| projection_of_nobody(&*disk, folder, id);
    let mut visit = |recorded: Recorded| {
        for blob in named_blobs(&recorded.entry) {
            if bad.is_none() && seen.insert((blob.sha256, blob.bytes)) {
                bad = blobs.get(&blob).err();
            }
        }
    };
    let (log, seen_entries) = read_log(&*disk, folder, readers, asked, remembered, &mut visit)?;
    match bad {
        Some(error) => Err(error.into()),
        None => {
            let blobs = seen.len() as u64;
            Ok((VerifyReport { log, blobs }, seen_entries))
        }
    }
}
