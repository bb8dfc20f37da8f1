//! The clock, behind a trait: the one place that reads time for durable facts.

use std::time::{SystemTime, UNIX_EPOCH};

use intendant_journal::format::entry::Moment;

/// Reads the wall clock and the boot clock.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Moment;
}

/// The machine's own clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        // The boot clock goes on while the machine is suspended; `Instant` does not.
        let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let boot_ms = boot.tv_sec as u64 * 1_000 + boot.tv_nsec as u64 / 1_000_000;
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Moment {
            wall_ms: i64::try_from(wall.as_millis()).unwrap_or(i64::MAX),
            boot_ms,
        }
    }
}
