//! A permit cannot be made outside the kernel.
use intendant::kernel::{Frozen, Permit};
use intendant_journal::format::entry::{AttemptRef, Intent};

fn make(run: String, attempt: AttemptRef, proposal: Frozen, intent: Intent) -> Permit {
    Permit { run, attempt, proposal, intent }
}

fn main() {}
