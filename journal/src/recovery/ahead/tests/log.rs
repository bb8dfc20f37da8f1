//! A log made frame by frame, and a disk in memory that holds it and fails where it is told to.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::disk::{Access, Disk, DiskFile, Kind, Lock, Site};
use crate::format::batch::{Draft, HEAD_BYTES};
use crate::format::entry::{
    Body, Digest, Entry, Epoch, JournalId, Moment, NotedEntry, ScopePath, Sequence,
};
use crate::format::frame::{self, Home};
use crate::format::segment::{MIN_BYTES, PAGE_BYTES, SegmentHead, SegmentHeader};
use crate::format::{chain, codec};
use crate::segments::SegmentName;

pub(super) const JOURNAL: JournalId = JournalId([9; 16]);
pub(super) const FOLDER: &str = "/log";

/// Where an entry's frame is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    pub(super) segment: usize,
    pub(super) at: usize,
    pub(super) sequence: Sequence,
}

/// A log that is being written.
pub(super) struct Log {
    pub(super) segments: Vec<Vec<u8>>,
    pub(super) spots: Vec<Spot>,
    /// Where groups begin: segment and offset.
    pub(super) groups: Vec<(usize, usize)>,
    pub(super) next: u64,
    pub(super) epoch: u32,
    chain: Digest,
    position: usize,
    fresh: bool,
}

impl Log {
    pub(super) fn new() -> Self {
        let mut log = Self {
            segments: Vec::new(),
            spots: Vec::new(),
            groups: Vec::new(),
            next: 1,
            epoch: 1,
            chain: chain::genesis(JOURNAL),
            position: 0,
            fresh: true,
        };
        log.roll();
        log
    }

    pub(super) fn home(segment: usize) -> Home {
        Home::new(JOURNAL, segment as u64 + 1)
    }

    pub(super) fn roll(&mut self) {
        let header = SegmentHeader {
            journal: JOURNAL,
            number: self.segments.len() as u64 + 1,
            bytes: MIN_BYTES,
        };
        let mut bytes = vec![0; usize::try_from(MIN_BYTES).unwrap()];
        bytes[..PAGE_BYTES].copy_from_slice(&header.page());
        self.segments.push(bytes);
        self.position = PAGE_BYTES;
        self.fresh = true;
    }

    /// Writes a group of batches, given the lengths of their entries, in an epoch.
    pub(super) fn group(&mut self, epoch: u32, batches: &[Vec<usize>]) {
        let bytes: usize = batches.iter().flatten().map(|length| length + 100).sum();
        let bytes = bytes + 100 * (batches.len() + 1);
        if self.position + bytes.next_multiple_of(PAGE_BYTES) > MIN_BYTES as usize {
            self.roll();
        }
        let segment = self.segments.len() - 1;
        let home = Self::home(segment);
        let mut group = Vec::new();
        if std::mem::take(&mut self.fresh) {
            let head = SegmentHead {
                first: Sequence(self.next),
                epoch: Epoch(self.epoch),
                chain: self.chain,
            };
            head.put(&mut group, &home);
        }
        let durable = Sequence(self.next - 1);
        for lengths in batches {
            let mut draft = Draft::new(Epoch(epoch));
            let mut at = self.position + group.len() + HEAD_BYTES;
            let first = Sequence(self.next);
            for length in lengths {
                let mut payload = Vec::new();
                codec::encode(&entry(self.next, *length), &mut payload).unwrap();
                let add = |out: &mut Vec<u8>| -> Result<(), ()> {
                    out.extend_from_slice(&payload);
                    Ok(())
                };
                draft.add(add).unwrap();
                let sequence = Sequence(self.next);
                self.spots.push(Spot {
                    segment,
                    at,
                    sequence,
                });
                at += frame::stored_bytes(payload.len());
                self.chain = chain::next(self.chain, &payload, sequence, Epoch(epoch));
                self.next += 1;
            }
            draft.place(&mut group, &home, first, durable);
        }
        group.resize(group.len().next_multiple_of(PAGE_BYTES), 0);
        self.segments[segment][self.position..self.position + group.len()].copy_from_slice(&group);
        self.groups.push((segment, self.position));
        self.position += group.len();
    }

    /// Overwrites the last byte of an entry and makes its checksum hold again.
    pub(super) fn reseal(&mut self, spot: Spot, last: u8) {
        let bytes = &mut self.segments[spot.segment][spot.at..];
        let length = frame::length_of(bytes).unwrap() as usize;
        bytes[frame::HEADER_BYTES + length - 1] = last;
        frame::seal(bytes, &Self::home(spot.segment), spot.sequence);
    }
}

fn entry(sequence: u64, length: usize) -> Entry {
    Entry {
        at: Moment::default(),
        run: Some(format!("run-{}", sequence % 7)),
        body: Body::Noted(NotedEntry {
            path: ScopePath("n".into()),
            what: "now".into(),
            value: "v".repeat(length.max(1)),
        }),
    }
}

/// What fails, at every try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Failing {
    Open { segment: usize },
    Read { segment: usize, at: usize },
}

/// A disk that holds a log, in memory, and cannot be written to.
#[derive(Debug)]
pub(super) struct LogDisk {
    files: BTreeMap<PathBuf, (usize, Arc<Vec<u8>>)>,
    pub(super) failing: Mutex<Vec<Failing>>,
    /// Highest index of a segment that was opened, and how often any was.
    pub(super) highest: AtomicUsize,
    pub(super) opened: AtomicUsize,
}

impl LogDisk {
    pub(super) fn new(segments: Vec<Vec<u8>>) -> Self {
        let named = segments.into_iter().enumerate().map(|(index, bytes)| {
            let name = SegmentName::Segment(index as u64 + 1);
            (name.path(Path::new(FOLDER)), (index, Arc::new(bytes)))
        });
        Self {
            files: named.collect(),
            failing: Mutex::default(),
            highest: AtomicUsize::new(0),
            opened: AtomicUsize::new(0),
        }
    }
}

fn read_only<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl Disk for LogDisk {
    fn open(&self, path: &Path, _: Access) -> io::Result<Arc<dyn DiskFile>> {
        let Some((segment, bytes)) = self.files.get(path) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        self.opened.fetch_add(1, Ordering::SeqCst);
        self.highest.fetch_max(*segment, Ordering::SeqCst);
        let mut failing = Vec::new();
        for fails in self.failing.lock().unwrap().iter() {
            match fails {
                Failing::Open { segment: at } if at == segment => {
                    return Err(io::Error::from_raw_os_error(5));
                }
                Failing::Read { segment: of, at } if of == segment => failing.push(*at),
                _ => {}
            }
        }
        Ok(Arc::new(LogFile {
            bytes: Arc::clone(bytes),
            failing,
        }))
    }

    fn list(&self, _: &Path) -> io::Result<Vec<OsString>> {
        let names = self.files.keys().filter_map(|path| path.file_name());
        Ok(names.map(OsString::from).collect())
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        Ok(match self.files.contains_key(path) {
            true => Some(Kind::File),
            false => (path == Path::new(FOLDER)).then_some(Kind::Folder),
        })
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(path.to_owned())
    }

    fn create(&self, _: &Path, _: Site) -> io::Result<Arc<dyn DiskFile>> {
        read_only()
    }

    fn create_private(&self, _: &Path, _: Site) -> io::Result<Arc<dyn DiskFile>> {
        read_only()
    }

    fn rename(&self, _: &Path, _: &Path, _: Site) -> io::Result<()> {
        read_only()
    }

    fn remove(&self, _: &Path, _: Site) -> io::Result<()> {
        read_only()
    }

    fn create_dir(&self, _: &Path, _: Site) -> io::Result<()> {
        read_only()
    }

    fn sync_dir(&self, _: &Path, _: Site) -> io::Result<()> {
        read_only()
    }
}

#[derive(Debug)]
struct LogFile {
    bytes: Arc<Vec<u8>>,
    failing: Vec<usize>,
}

impl DiskFile for LogFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = usize::try_from(offset).unwrap().min(self.bytes.len());
        let to = (from + buffer.len()).min(self.bytes.len());
        if self.failing.iter().any(|at| (from..to).contains(at)) {
            return Err(io::Error::from_raw_os_error(5));
        }
        buffer[..to - from].copy_from_slice(&self.bytes[from..to]);
        Ok(to - from)
    }

    fn write_at(&self, _: &[u8], _: u64, _: Site) -> io::Result<usize> {
        read_only()
    }

    fn set_len(&self, _: u64, _: Site) -> io::Result<()> {
        read_only()
    }

    fn sync_data(&self, _: Site) -> io::Result<()> {
        read_only()
    }

    fn sync_all(&self, _: Site) -> io::Result<()> {
        read_only()
    }

    fn try_lock(&self, _: Lock) -> io::Result<bool> {
        Ok(true)
    }
}
