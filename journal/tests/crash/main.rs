//! The crash campaign: scripted loads on the simulated disk, cut at every change of the disk, by a
//! kill or by a power cut that keeps any part of what was not synced; the recovery that follows is
//! cut in the same way. A model outside the journal says what must be there.
//!
//! A bounded sample runs by default; `INTENDANT_WHOLE=1` runs all. A failure prints its schedule, and
//! `INTENDANT_CRASH='<schedule>' cargo test -p intendant-journal --test crash replay` plays just that.
//!
//! That the campaign sees is shown by named mutants of the journal, each of which it must catch:
//! `cargo test -p intendant-journal --features mutants --test crash mutants`.
#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod campaign;
mod decay;
mod errors;
mod load;
mod masks;
mod model;
#[cfg(feature = "mutants")]
mod mutants;
mod oracle;
mod schedule;

use campaign::Campaign;
use load::Load;

#[test]
fn fault_a1_a2_a3_a4_a8_appends_and_groups_survive_crashes_within_recovery() {
    Campaign::of(Load::Appends).run();
}

#[test]
fn fault_a1_a2_a3_a4_a8_rolls_survive_crashes_within_recovery() {
    Campaign::of(Load::Roll).run();
}

#[test]
fn fault_a3_a12_a_torn_end_behind_which_the_opening_does_not_fit_stays_cut() {
    Campaign::of(Load::RollAtOpening).run();
}

#[test]
fn fault_a1_a2_a8_blobs_are_there_before_the_entries_that_name_them() {
    Campaign::of(Load::Blobs).run();
}

#[test]
fn fault_a18_a19_the_projection_never_knows_more_than_the_log() {
    Campaign::of(Load::Projection).run();
}

#[test]
fn fault_a8_spares_of_another_size_go_without_leaving_a_gap() {
    Campaign::of(Load::Resize).run();
}

#[test]
fn checkpoints_never_sign_more_than_survives() {
    Campaign::of(Load::Signed).run();
}

#[test]
fn fault_a5_a6_a7_each_change_failing_once_loses_nothing() {
    errors::each_change_fails_once();
}

#[test]
fn each_read_failing_once_is_an_error_and_changes_no_answer() {
    errors::each_read_fails_once();
}

#[test]
fn fault_a10_a11_damage_is_found_or_harmless() {
    decay::nothing_is_lost_silently();
}

#[test]
fn the_same_schedule_does_the_same_twice() {
    campaign::is_deterministic();
}

/// Plays the schedule in `INTENDANT_CRASH`, or else a fixed one, and prints what happens.
#[test]
fn replay() {
    campaign::replay();
}
