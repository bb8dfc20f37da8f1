//! Planted losses, to prove that the oracle would see a real one.

use std::panic::{AssertUnwindSafe, catch_unwind};

use intendant_journal::disk::simulated::Files;

use crate::oracle::Bench;
use crate::specimen::{Specimen, data, segment};

/// What the oracle says of a case that must not pass.
fn caught(specimen: &Specimen, damage: impl FnOnce(&mut Files)) -> String {
    let mut bench = Bench::new(specimen).that_says_why();
    let judged = catch_unwind(AssertUnwindSafe(|| bench.case("canary", damage)));
    let panic = judged.expect_err("the oracle let it pass");
    panic.downcast_ref::<String>().unwrap().clone()
}

/// Every witness is set back together with the log, as no single damage does: the journal opens
/// without its last batch, and nobody but the oracle knows.
#[test]
fn canary_a_loss_that_no_witness_shows() {
    let specimen = Specimen::closed();
    let why = caught(&specimen, |files| {
        files.remove(&data("mark")).unwrap();
        files.remove(&data("projection.redb")).unwrap();
        let path = segment(specimen.used);
        let last_page = (specimen.content_end(&path) - 1) / 4096 * 4096;
        files.get_mut(&path).unwrap()[last_page..].fill(0);
    });
    assert!(why.contains("silently lost"), "{why}");
}

/// An entry that was acknowledged and is another one now.
#[test]
fn canary_an_entry_that_is_not_what_was_recorded() {
    let mut specimen = Specimen::closed();
    specimen.acknowledged.swap(2, 3);
    let why = caught(&specimen, |_| {});
    assert!(why.contains("not what was recorded"), "{why}");
}

/// A byte of evidence that changes while a journal is refused.
#[test]
fn canary_evidence_that_is_touched() {
    let specimen = Specimen::closed();
    let mut bench = Bench::new(&specimen).that_says_why();
    let judged = catch_unwind(AssertUnwindSafe(|| {
        bench.touched("canary", &segment(1), |bytes| bytes[5_000] ^= 1)
    }));
    let panic = judged.expect_err("the oracle let it pass");
    let why = panic.downcast_ref::<String>().unwrap();
    assert!(why.contains("changed"), "{why}");
}
