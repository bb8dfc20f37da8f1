//! Which crashes a crash point meets: a kill, and power cuts that keep different parts.

use intendant_journal::disk::simulated::{Fate, Unsynced};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

/// How the machine or the process ends.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Crash {
    /// The process dies; what it wrote is there for the next one, synced or not.
    Kill,
    /// The power goes; one fate for each change that was not synced.
    Cut(Vec<Fate>),
}

/// Changes up to which all combinations of fates are tried.
const ALL_UP_TO: usize = 3;

/// A source of chance that gives the same for the same seed.
pub(crate) fn random(seed: u64) -> TestRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}

/// A number below another one.
pub(crate) fn chance(random: &mut TestRng, below: usize) -> usize {
    (random.next_u64() % below as u64) as usize
}

/// The crashes at a point with these unsynced changes: exhaustive for few changes, else the extremes,
/// each change alone lost, kept and torn, and `more` combinations by chance.
pub(crate) fn crashes(unsynced: &[Unsynced], more: usize, random: &mut TestRng) -> Vec<Crash> {
    let mut all = vec![Crash::Kill];
    if unsynced.len() <= ALL_UP_TO {
        let mut rows: Vec<Vec<Fate>> = vec![Vec::new()];
        for change in unsynced {
            let fates = fates(change, random);
            rows = rows
                .iter()
                .flat_map(|row| fates.iter().map(|fate| [row.as_slice(), &[*fate]].concat()))
                .collect();
        }
        all.extend(rows.into_iter().map(Crash::Cut));
        return all;
    }
    let same = |fate: Fate| vec![fate; unsynced.len()];
    all.push(Crash::Cut(same(Fate::Lost)));
    all.push(Crash::Cut(same(Fate::Whole)));
    for at in 0..unsynced.len() {
        for (others, this) in [(Fate::Lost, Fate::Whole), (Fate::Whole, Fate::Lost)] {
            let mut row = same(others);
            row[at] = this;
            all.push(Crash::Cut(row));
        }
        for torn in fates(&unsynced[at], random).into_iter().skip(2) {
            for others in [Fate::Lost, Fate::Whole] {
                let mut row = same(others);
                row[at] = torn;
                all.push(Crash::Cut(row));
            }
        }
    }
    for _ in 0..more {
        let row = unsynced.iter().map(|change| {
            let fates = fates(change, random);
            fates[chance(random, fates.len())]
        });
        all.push(Crash::Cut(row.collect()));
    }
    all
}

/// Different fates of one change: lost, whole, and for a write some that tear it.
fn fates(change: &Unsynced, random: &mut TestRng) -> Vec<Fate> {
    let mut fates = vec![Fate::Lost, Fate::Whole];
    if change.bytes > 0 {
        let bytes = change.bytes as u64;
        fates.push(Fate::Prefix((1 + random.next_u64() % bytes) as u32));
        fates.push(Fate::Bytes(random.next_u64()));
    }
    if change.bytes > 512 {
        fates.push(Fate::Sectors(!1));
        fates.push(Fate::Sectors(
            u128::from(random.next_u64()) << 64 | u128::from(random.next_u64()),
        ));
    }
    fates
}
