//! The hash chain: each entry's value covers the one before it and the entry's stored bytes.
//!
//! value = SHA-256(value before ‖ payload as stored ‖ sequence ‖ epoch), integers little-endian.
//! The value before the first entry comes from the journal's id, so that no two journals share a
//! chain. Values are not stored with entries but recomputed; each segment's head holds the value
//! that its predecessor ended with.

use sha2::{Digest as _, Sha256};

use super::entry::{Digest, Epoch, JournalId, Sequence};

const GENESIS_TAG: &[u8] = b"intendant journal chain, version 1\0";

/// The value before the first entry of a journal.
#[must_use]
pub fn genesis(journal: JournalId) -> Digest {
    let mut hasher = Sha256::new();
    hasher.update(GENESIS_TAG);
    hasher.update(journal.0);
    Digest(hasher.finalize().into())
}

/// The value after an entry.
#[must_use]
pub fn next(before: Digest, payload: &[u8], sequence: Sequence, epoch: Epoch) -> Digest {
    let mut hasher = Sha256::new();
    hasher.update(before.0);
    hasher.update(payload);
    let mut place = [0; 12];
    place[..8].copy_from_slice(&sequence.0.to_le_bytes());
    place[8..].copy_from_slice(&epoch.0.to_le_bytes());
    hasher.update(place);
    Digest(hasher.finalize().into())
}
