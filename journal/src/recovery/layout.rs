//! The files of the log: which there are, and whether their names and headers agree.

use std::path::{Path, PathBuf};

use super::testimony::testimony;
use super::window::Window;
use crate::disk::{Access, Disk, parent_of, read_full_at};
use crate::error::{Damage, OpenError};
use crate::format::entry::JournalId;
use crate::format::segment::{
    FORMAT_VERSION, JOURNAL_ID_OFFSET, NotAHeader, PAGE_BYTES, SegmentHeader,
};
use crate::identity;
use crate::segments::SegmentName;
use crate::writer::{MARK, read_mark};

/// Said with every damage of the log.
pub(super) const REMEDY: &str =
    "Nothing was changed: restore the folder from a backup, or copy it aside and ask for help";

/// A segment file whose header is sound.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) number: u64,
    pub(crate) path: PathBuf,
    /// Length of the file.
    pub(crate) len: u64,
    /// Full size, as its header says.
    pub(crate) bytes: u64,
}

impl Found {
    pub(super) fn damage(&self, offset: u64, what: String, lost: String) -> Damage {
        Damage {
            path: self.path.clone(),
            segment: Some(self.number),
            offset,
            what,
            lost,
            remedy: REMEDY.into(),
        }
    }

    pub(super) fn io(&self, doing: &str) -> impl FnOnce(std::io::Error) -> OpenError {
        io(&self.path, doing)
    }
}

/// The files of the log.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// Segments in order, without gaps.
    pub(crate) segments: Vec<Found>,
    /// Index of the last one in which anything but the header is not zero.
    pub(crate) last_used: Option<usize>,
    /// Files whose making was interrupted.
    pub(crate) unfinished: Vec<PathBuf>,
}

/// An error of the disk, at a path.
pub(crate) fn io(path: &Path, doing: &str) -> impl FnOnce(std::io::Error) -> OpenError {
    let path = path.to_owned();
    let doing = doing.to_owned();
    move |source| OpenError::Io {
        path,
        doing,
        source,
    }
}

/// Lists the folder `journal` and reads the headers. An absent folder has no segments.
pub(crate) fn read_layout(
    disk: &dyn Disk,
    folder: &Path,
    journal: JournalId,
) -> Result<Layout, OpenError> {
    let mut layout = Layout {
        segments: Vec::new(),
        last_used: None,
        unfinished: Vec::new(),
    };
    if disk
        .kind(folder)
        .map_err(io(folder, "looking for it"))?
        .is_none()
    {
        return Ok(layout);
    }
    let mut numbers = Vec::new();
    for name in disk.list(folder).map_err(io(folder, "listing it"))? {
        match name.to_str().and_then(SegmentName::of) {
            Some(SegmentName::Segment(number)) => numbers.push(number),
            Some(SegmentName::Unfinished(_)) => layout.unfinished.push(folder.join(name)),
            None => {
                return Err(Damage {
                    path: folder.join(name),
                    segment: None,
                    offset: 0,
                    what: "a file that no journal has in this place (a segment renamed?)".into(),
                    lost: "nothing, unless it is a segment".into(),
                    remedy: "Nothing was changed: move it out of this folder, or give it its name \
                             back if it is a segment"
                        .into(),
                }
                .into());
            }
        }
    }
    numbers.sort_unstable();
    for (number, expected) in numbers.iter().copied().zip(1..) {
        if number != expected {
            return Err(missing(folder, expected).into());
        }
        layout
            .segments
            .push(read_header(disk, folder, journal, number)?);
    }
    for (index, segment) in layout.segments.iter().enumerate().rev() {
        if is_used(disk, segment)? {
            layout.last_used = Some(index);
            break;
        }
    }
    Ok(layout)
}

/// The damage of a segment that is not there.
pub(crate) fn missing(folder: &Path, number: u64) -> Damage {
    Damage {
        path: SegmentName::Segment(number).path(folder),
        segment: Some(number),
        offset: 0,
        what: "the segment is missing".into(),
        lost: "all entries in it are lost with it".into(),
        remedy: REMEDY.into(),
    }
}

fn read_header(
    disk: &dyn Disk,
    folder: &Path,
    journal: JournalId,
    number: u64,
) -> Result<Found, OpenError> {
    let path = SegmentName::Segment(number).path(folder);
    let file = disk
        .open(&path, Access::Read)
        .map_err(io(&path, "opening it"))?;
    let len = file.len().map_err(io(&path, "reading its length"))?;
    let mut page = [0; PAGE_BYTES];
    let read = read_full_at(&*file, &mut page, 0).map_err(io(&path, "reading its header"))?;
    let mut found = Found {
        number,
        path,
        len,
        bytes: 0,
    };
    let unknown = || "which entries it held is not known".to_owned();
    if read < PAGE_BYTES {
        return Err(found
            .damage(0, "a segment without header".into(), unknown())
            .into());
    }
    let header = match SegmentHeader::read(&page) {
        Ok(header) => header,
        Err(NotAHeader::Newer(version)) => {
            return Err(OpenError::Newer {
                path: found.path,
                found: version,
                known: FORMAT_VERSION,
            });
        }
        Err(error) => return Err(found.damage(0, error.to_string(), unknown()).into()),
    };
    if header.journal != journal {
        return Err(of_another_journal(
            disk,
            folder,
            journal,
            &found,
            header.journal,
        ));
    }
    if header.number != number {
        let what = format!("it is segment {} under another name", header.number);
        return Err(found.damage(0, what, unknown()).into());
    }
    found.bytes = header.bytes;
    Ok(found)
}

/// The damage of a segment whose header names another journal than `IDENTITY` does: it is the
/// segment's, unless everything else in the folder says that it is `IDENTITY`'s.
fn of_another_journal(
    disk: &dyn Disk,
    folder: &Path,
    journal: JournalId,
    found: &Found,
    other: JournalId,
) -> OpenError {
    let beside = parent_of(folder);
    let marked = |id| matches!(read_mark(disk, &beside.join(MARK), id), Ok(Some(_)));
    match testimony(disk, folder) {
        Some(all) if all.journal == other && !marked(journal) => {
            let mark = if marked(other) {
                ", as its mark does"
            } else {
                ""
            };
            let what = format!("it names journal {journal}, and {all}{mark}");
            identity::damaged(beside, what, Some(all)).into()
        }
        _ => {
            let what = format!("a segment of journal {other}, in the folder of journal {journal}");
            let lost = format!("what segment {} of this journal held", found.number);
            found.damage(JOURNAL_ID_OFFSET, what, lost).into()
        }
    }
}

fn is_used(disk: &dyn Disk, segment: &Found) -> Result<bool, OpenError> {
    let file = disk
        .open(&segment.path, Access::Read)
        .map_err(segment.io("opening it"))?;
    let to = segment.len.min(segment.bytes);
    let nonzero = Window::new(file)
        .first_nonzero(PAGE_BYTES as u64, to)
        .map_err(segment.io("reading it"))?;
    Ok(nonzero.is_some())
}
