//! Whether a key may be sent again: the window of a target that remembers keys.
//!
//! A window counts from the *first* attempt's intent, by the larger of wall-clock and boot-clock
//! age. A clock found behind the journal's last time counts as expired. A key is sent again only
//! while age + timeout + margin lie inside the window, live retries included.

use intendant_journal::format::entry::{Epoch, Moment};

/// Slack between our clock and the target's: 1 s, or a hundredth of the window if that is more.
pub fn margin_ms(window_ms: u64) -> u64 {
    1_000.max(window_ms / 100)
}

/// What a transition may know of the outside: the time, how far the clocks can be trusted, and
/// whether somebody can be asked. Read at the edge, handed in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Surroundings {
    /// Now.
    pub now: Moment,
    /// The oldest epoch that was opened within the current boot; boot-clock readings of entries
    /// from it on compare with `now`.
    pub boot_since: Epoch,
    /// True if the wall clock is behind the journal's last recorded time.
    pub clock_behind: bool,
    /// The reconciler of the action's tool, if it has one.
    pub reconciler: Option<AskRule>,
}

/// How a reconciler is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AskRule {
    /// Questions before the attempt is parked.
    pub asks_max: u32,
    /// First pause, in milliseconds; doubled after each question.
    pub backoff_first_ms: u64,
    /// Longest pause, in milliseconds.
    pub backoff_max_ms: u64,
}

/// The first intent of an action: where its key's window begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FirstIntent {
    /// When it was written.
    pub at: Moment,
    /// By which opening.
    pub epoch: Epoch,
}

/// True if the key may be sent again now.
pub fn inside_window(
    first: FirstIntent,
    window_ms: u64,
    timeout_ms: u64,
    around: &Surroundings,
) -> bool {
    let Ok(wall_age) = u64::try_from(around.now.wall_ms.saturating_sub(first.at.wall_ms)) else {
        return false;
    };
    if around.clock_behind {
        return false;
    }
    let boot_age = if first.epoch >= around.boot_since {
        match around.now.boot_ms.checked_sub(first.at.boot_ms) {
            Some(age) => age,
            None => return false,
        }
    } else {
        // The machine booted since, so at least its whole uptime has passed.
        around.now.boot_ms
    };
    let age = wall_age.max(boot_age);
    age.saturating_add(timeout_ms)
        .saturating_add(margin_ms(window_ms))
        < window_ms
}

/// The pause before question or attempt `n` (1 for the first repetition): doubled each time, up to
/// the longest.
pub fn backoff_ms(first_ms: u64, longest_ms: u64, n: u32) -> u64 {
    let doublings = n.saturating_sub(1).min(62);
    first_ms.saturating_mul(1 << doublings).min(longest_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(wall_ms: i64, boot_ms: u64, boot_since: u32) -> Surroundings {
        Surroundings {
            now: Moment { wall_ms, boot_ms },
            boot_since: Epoch(boot_since),
            clock_behind: false,
            reconciler: None,
        }
    }

    const FIRST: FirstIntent = FirstIntent {
        at: Moment {
            wall_ms: 1_000_000,
            boot_ms: 50_000,
        },
        epoch: Epoch(3),
    };

    #[test]
    fn fault_d7_a_key_is_sent_again_only_inside_its_window() {
        let cases = [
            // (wall age, boot age, timeout, inside a window of 100 s with its margin of 1 s)
            (0, 0, 10_000, true),
            (88_999, 0, 10_000, true),
            (89_000, 0, 10_000, false),
            (0, 88_999, 10_000, true),
            (0, 89_000, 10_000, false),
            (0, 0, 99_000, false),
            (-1, 0, 10_000, false),
        ];
        for (wall, boot, timeout, inside) in cases {
            let now = around(1_000_000 + wall, 50_000 + boot, 1);
            assert_eq!(
                inside_window(FIRST, 100_000, timeout, &now),
                inside,
                "{wall} {boot} {timeout}"
            );
        }
    }

    #[test]
    fn fault_c2_a_clock_behind_the_journal_counts_as_expired() {
        let mut now = around(1_000_001, 50_001, 1);
        assert!(inside_window(FIRST, 100_000, 1_000, &now));
        now.clock_behind = true;
        assert!(!inside_window(FIRST, 100_000, 1_000, &now));
        // Same boot, yet the boot clock went backwards: not to be trusted either.
        assert!(!inside_window(
            FIRST,
            100_000,
            1_000,
            &around(1_000_001, 49_999, 1)
        ));
    }

    #[test]
    fn after_a_reboot_the_uptime_is_a_lower_bound_of_the_age() {
        assert!(inside_window(
            FIRST,
            100_000,
            1_000,
            &around(1_000_500, 10_000, 4)
        ));
        assert!(!inside_window(
            FIRST,
            100_000,
            1_000,
            &around(1_000_500, 98_500, 4)
        ));
    }

    #[test]
    fn backoff_doubles_up_to_its_limit() {
        let pauses: Vec<_> = (1..=9).map(|n| backoff_ms(1_000, 60_000, n)).collect();
        assert_eq!(
            pauses,
            [
                1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000
            ]
        );
        assert_eq!(backoff_ms(u64::MAX, u64::MAX, 70), u64::MAX);
    }
}
