//! The embedded journal passes the suite that any journal behind the face must pass.
#![allow(clippy::unwrap_used)]

mod support;

use intendant_journal::Journal;
use intendant_journal::conformance::{Store, suite};
use support::{Place, SMALL};

struct Embedded(Place);

impl Store for Embedded {
    type Log = Journal;

    fn open(&mut self) -> Journal {
        self.0.open()
    }

    fn batch_too_large_bytes(&self) -> Option<usize> {
        usize::try_from(SMALL).ok()
    }
}

#[test]
fn the_embedded_journal_conforms() {
    suite(|| Embedded(Place::new()));
}
