//! The idempotency key: what an action is, seen from its target (promise P4).
//!
//! Version, attempt, epoch and row order are not in it, so a restored or redeployed engine makes
//! the same keys. Every part is length-prefixed, so two different actions never hash the same
//! bytes.

use intendant_journal::format::entry::{ActionRef, JournalId, Key};
use sha2::{Digest as _, Sha256};

/// Separates these hashes from every other use of SHA-256.
const DOMAIN: &[u8] = b"intendant/idempotency-key/1";

/// The key of an action: the first 128 bits of SHA-256 over (domain tag, journal id, run id,
/// generation, scope path).
pub fn key(journal: JournalId, run: &str, action: &ActionRef) -> Key {
    let mut hash = Sha256::new();
    let generation = action.generation.to_le_bytes();
    for part in [
        DOMAIN,
        &journal.0,
        run.as_bytes(),
        &generation,
        action.path.0.as_bytes(),
    ] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let mut key = [0; 16];
    key.copy_from_slice(&hash.finalize()[..16]);
    Key(key)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use intendant_journal::format::entry::ScopePath;

    use super::*;

    fn action(path: &str, generation: u32) -> ActionRef {
        ActionRef {
            path: ScopePath(path.to_owned()),
            generation,
        }
    }

    #[test]
    fn p4_no_two_actions_of_any_runs_share_a_key() {
        let mut seen = HashMap::new();
        for journal in [JournalId([1; 16]), JournalId([2; 16])] {
            for run in ["a", "ab", "b", "a1"] {
                for path in ["pay/x", "pay/y", "pay", "0", "1", "0/0", "00", "b/pay"] {
                    for generation in 1..4 {
                        let key = key(journal, run, &action(path, generation));
                        let twin = seen.insert(key, (journal, run, path, generation));
                        assert_eq!(twin, None, "{run} {path} {generation}");
                    }
                }
            }
        }
        assert_eq!(seen.len(), 2 * 4 * 8 * 3);
    }

    #[test]
    fn p4_the_key_is_pinned_for_ever() {
        let key = key(JournalId([7; 16]), "payouts", &action("pay/p-0001", 1));
        assert_eq!(key.to_string(), PINNED);
    }

    /// Computed once by an independent program: SHA-256 over each part behind its length as eight
    /// little-endian bytes, first 16 bytes.
    const PINNED: &str = "ddf88b7ca14c6c79b33dc93b95c1480c";
}
