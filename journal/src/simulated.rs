//! A journal on a simulated disk, without threads, clocks or chance: the same calls do the same.
//!
//! What threads would do happens when somebody waits for it, or when [`run_background`] is called.

use std::sync::Arc;

use crate::checkpoints::Signer;
use crate::disk::simulated::SimulatedDisk;
use crate::drive::Drive;
use crate::format::entry::{Entry, JournalId, Moment};
use crate::journal::{Journal, Options};
use crate::surroundings::Surroundings;

/// Options for a journal on that disk. The identity of a journal that is created follows from the
/// number; process, boot and time are the same at every opening.
///
/// ```
/// use intendant_journal::disk::simulated::SimulatedDisk;
/// use intendant_journal::{face::IntentLog, simulated};
///
/// let disk = SimulatedDisk::new();
/// let journal = simulated::options(&disk, 7).open_or_create("/journal")?;
/// let durable = journal.durable();
/// let after_a_kill = disk.killed();
/// let journal = simulated::options(&after_a_kill, 7).open("/journal")?;
/// assert_eq!(journal.recovered().end, durable);
/// # Ok::<(), intendant_journal::error::OpenError>(())
/// ```
#[must_use]
pub fn options(disk: &SimulatedDisk, number: u64) -> Options {
    let mut options = Options::new()
        .disk(Arc::new(disk.clone()))
        .state_home("/state")
        .segment_bytes(crate::format::segment::MIN_BYTES)
        .program("simulated");
    options.drive = Drive::Caller;
    options.surroundings = Some(Surroundings {
        pid: 1,
        boot_id: "simulated".to_owned(),
        now: Moment {
            wall_ms: 1,
            boot_ms: 1,
        },
        new_id: JournalId(u128::from(number).to_be_bytes()),
    });
    options
}

/// A key for signing checkpoints, always the same, and so no secret.
#[must_use]
pub fn signer() -> Signer {
    Signer::of_seed("simulated", [7; 32])
}

/// The entry by which an opening with these options records itself, if they are such as
/// [`options`] makes.
///
/// # Panics
/// If they are not.
#[must_use]
pub fn opened_entry(options: &Options) -> Entry {
    let around = options.surroundings.as_ref();
    crate::opening::opened_entry(
        &options.program,
        around.expect("only options of a simulated journal know beforehand"),
    )
}

/// Does what the journal's threads would do now: writes what was handed over, makes a segment ready,
/// applies to the projection.
pub fn run_background(journal: &Journal) {
    journal.writer.turn_now();
    journal.projection.turn_now();
}

/// Makes the projection durable as far as it was fed.
pub fn checkpoint_projection(journal: &Journal) {
    journal.projection.checkpoint_now();
}
