//! What an opening takes from the machine around it, apart from the disk.

use crate::format::entry::{JournalId, Moment};

/// Drawn once an opening, so that nothing behind it asks clocks or chance.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    /// Process id of the opener.
    pub(crate) pid: u32,
    /// The kernel's boot id, or a text that equals no other boot's.
    pub(crate) boot_id: String,
    /// When the opening happens.
    pub(crate) now: Moment,
    /// The identity of a journal that this opening creates.
    pub(crate) new_id: JournalId,
}

impl Surroundings {
    /// Those of this process, now.
    pub(crate) fn real() -> Self {
        Self {
            pid: std::process::id(),
            boot_id: boot_id(),
            now: now(),
            new_id: JournalId(*uuid::Uuid::new_v4().as_bytes()),
        }
    }
}

fn boot_id() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    read.map_or_else(|_| String::new(), |id| id.trim().to_owned())
}

/// By the clocks of the machine.
pub(crate) fn now() -> Moment {
    let wall = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| {
            i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
        });
    let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(boot.tv_sec).unwrap_or(0);
    let millis = u64::try_from(boot.tv_nsec / 1_000_000).unwrap_or(0);
    Moment {
        wall_ms: wall,
        boot_ms: seconds * 1000 + millis,
    }
}
