//! Whose segments a folder holds: asked where `IDENTITY` is missing, damaged, or contradicted.

use std::path::Path;

use crate::disk::{Access, Disk, read_full_at};
use crate::format::entry::JournalId;
use crate::format::segment::{PAGE_BYTES, SegmentHeader};
use crate::segments::SegmentName;

/// What the segments' headers agree on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Testimony {
    /// The journal they belong to.
    pub(crate) journal: JournalId,
    /// How many say so.
    pub(crate) segments: u64,
}

impl std::fmt::Display for Testimony {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.segments {
            1 => write!(f, "its one segment belongs to journal {}", self.journal),
            more => write!(f, "its {more} segments belong to journal {}", self.journal),
        }
    }
}

/// Reads the headers of the segments in a folder; `None` unless there are some and all that are
/// sound name one journal. A header that cannot be read says nothing: this is asked to tell of
/// damage, not to find it.
pub(crate) fn testimony(disk: &dyn Disk, segments: &Path) -> Option<Testimony> {
    let mut found: Option<Testimony> = None;
    for name in disk.list(segments).ok()? {
        let Some(SegmentName::Segment(_)) = name.to_str().and_then(SegmentName::of) else {
            continue;
        };
        let mut page = [0; PAGE_BYTES];
        let file = disk.open(&segments.join(name), Access::Read).ok();
        let read = file.and_then(|file| read_full_at(&*file, &mut page, 0).ok());
        if read != Some(PAGE_BYTES) {
            continue;
        }
        let Ok(header) = SegmentHeader::read(&page) else {
            continue;
        };
        match &mut found {
            None => {
                found = Some(Testimony {
                    journal: header.journal,
                    segments: 1,
                });
            }
            Some(found) if found.journal == header.journal => found.segments += 1,
            Some(_) => return None,
        }
    }
    found
}
