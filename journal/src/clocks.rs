//! What the log says of the clocks it was written by: how far back boot-clock readings compare
//! with the present one, and the latest time any entry carries.

use crate::format::entry::{Body, Epoch, Recorded};

/// Folded over the whole log at an opening.
#[derive(Debug)]
pub(crate) struct Clocks {
    boot_id: String,
    /// The first epoch of the unbroken row of openings within the present boot, up to the last one
    /// seen.
    since: Option<Epoch>,
    last_wall_ms: i64,
}

impl Clocks {
    /// Nothing seen yet; `boot_id` is that of the present boot.
    pub(crate) fn new(boot_id: String) -> Self {
        Self {
            boot_id,
            since: None,
            last_wall_ms: i64::MIN,
        }
    }

    /// Takes note of the time that an entry carries: all that any other entry than an opening says
    /// of the clocks.
    pub(crate) fn see_wall_ms(&mut self, wall_ms: i64) {
        self.last_wall_ms = self.last_wall_ms.max(wall_ms);
    }

    /// Takes note of an entry.
    pub(crate) fn see(&mut self, recorded: &Recorded) {
        self.see_wall_ms(recorded.entry.at.wall_ms);
        if let Body::Opened(opened) = &recorded.entry.body {
            // An unknown boot compares with nothing.
            if opened.boot_id.is_empty() || opened.boot_id != self.boot_id {
                self.since = None;
            } else {
                self.since.get_or_insert(recorded.epoch);
            }
        }
    }

    /// The oldest epoch whose boot-clock readings compare with those of the opening `epoch`.
    pub(crate) fn boot_since(&self, epoch: Epoch) -> Epoch {
        self.since.unwrap_or(epoch)
    }

    /// The latest wall-clock time of any entry, in milliseconds since the Unix epoch.
    pub(crate) fn last_wall_ms(&self) -> i64 {
        self.last_wall_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::entry::{Entry, Moment, Opened, Sequence};

    fn opened(epoch: u32, boot_id: &str, wall_ms: i64) -> Recorded {
        let body = Body::Opened(Opened {
            pid: 1,
            boot_id: boot_id.to_owned(),
            program: "p".to_owned(),
        });
        let entry = Entry {
            at: Moment {
                wall_ms,
                boot_ms: 1,
            },
            run: None,
            body,
        };
        Recorded {
            sequence: Sequence(u64::from(epoch)),
            epoch: Epoch(epoch),
            entry,
        }
    }

    #[test]
    fn fault_c2_boot_clocks_compare_within_one_boot_only() {
        let mut clocks = Clocks::new("b".to_owned());
        assert_eq!(clocks.boot_since(Epoch(1)), Epoch(1));
        for (epoch, boot, since) in [
            (1, "a", 9),
            (2, "b", 2),
            (3, "b", 2),
            (4, "", 9),
            (5, "b", 5),
        ] {
            clocks.see(&opened(epoch, boot, 10 - i64::from(epoch)));
            assert_eq!(
                clocks.boot_since(Epoch(9)),
                Epoch(since),
                "after epoch {epoch}"
            );
        }
        assert_eq!(clocks.last_wall_ms(), 9);
    }
}
