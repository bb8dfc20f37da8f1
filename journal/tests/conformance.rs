//! The embedded journal passes the suite that any journal must pass.

use intendant_journal::conformance::{self, Store};
use intendant_journal::{Journal, Options};

struct Embedded {
    root: tempfile::TempDir,
    segment_bytes: u64,
}

impl Store for Embedded {
    type Log = Journal;

    fn open(&mut self) -> Journal {
        Options::new()
            .segment_bytes(self.segment_bytes)
            .state_home(self.root.path().join("state"))
            .program("conformance")
            .open_or_create(self.root.path().join("data"))
            .expect("the folder is this test's own")
    }

    fn batch_too_large_bytes(&self) -> Option<usize> {
        usize::try_from(self.segment_bytes).ok()
    }
}

fn embedded(segment_bytes: u64) -> impl FnMut() -> Embedded {
    move || Embedded {
        root: tempfile::tempdir().expect("a folder for temporary files"),
        segment_bytes,
    }
}

/// Segments so small that every case rolls over many of them.
#[test]
fn with_the_smallest_segments() {
    conformance::suite(embedded(64 * 1024));
}

#[test]
fn with_larger_segments() {
    conformance::suite(embedded(1024 * 1024));
}
