//! A permit is consumed by its intent: a second use does not compile.
use intendant::kernel::{Commit, Permit};
use intendant_journal::format::entry::Entry;

fn twice(permit: Permit, entry: Entry, commit: &mut Commit) {
    commit.intent(permit, entry.clone());
    commit.intent(permit, entry);
}

fn main() {}
