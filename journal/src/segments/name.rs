//! Names of segment files.

use std::path::{Path, PathBuf};

/// What a name in the folder `journal` stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SegmentName {
    /// The segment of that number.
    Segment(u64),
    /// A segment of that number that is being made ready, or whose making was interrupted.
    Unfinished(u64),
}

impl SegmentName {
    /// Reads a name; `None` if it is not one that this program gives.
    #[must_use]
    pub(crate) fn of(name: &str) -> Option<Self> {
        let (digits, unfinished) = match name.strip_suffix(".seg.tmp") {
            Some(digits) => (digits, true),
            None => (name.strip_suffix(".seg")?, false),
        };
        if digits.len() != 16 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let number = digits.parse().ok().filter(|number| *number > 0)?;
        Some(if unfinished {
            Self::Unfinished(number)
        } else {
            Self::Segment(number)
        })
    }

    /// Its path in the folder.
    #[must_use]
    pub(crate) fn path(self, folder: &Path) -> PathBuf {
        folder.join(match self {
            Self::Segment(number) => format!("{number:016}.seg"),
            Self::Unfinished(number) => format!("{number:016}.seg.tmp"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::SegmentName::{self, *};
    use std::path::Path;

    #[test]
    fn names_are_read_back_and_others_are_not_ours() {
        for name in [Segment(1), Segment(9_999_999_999), Unfinished(7)] {
            let path = name.path(Path::new("journal"));
            let text = path.file_name().and_then(|name| name.to_str()).unwrap();
            assert_eq!(SegmentName::of(text), Some(name));
        }
        for foreign in [
            "0000000000000000.seg",
            "1.seg",
            "000000000000000a.seg",
            "0000000000000001.seg.bak",
            "+000000000000001.seg",
            "notes",
        ] {
            assert_eq!(SegmentName::of(foreign), None, "{foreign}");
        }
    }
}
