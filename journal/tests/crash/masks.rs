//! Which crashes a crash point meets: a kill, and power cuts that keep different parts.

use intendant_journal::disk::simulated::{Fate, SECTOR_BYTES, Unsynced};
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

/// The crashes at a point with these unsynced changes: all combinations for few changes, else the
/// extremes, each change alone lost and kept, and `more` combinations by chance; and always each tear
/// of the last write of each file.
pub(crate) fn crashes(unsynced: &[Unsynced], more: usize, random: &mut TestRng) -> Vec<Crash> {
    let same = |fate: Fate| vec![fate; unsynced.len()];
    let alone = |at: usize, fate: Fate, others: Fate| {
        let mut row = same(others);
        row[at] = fate;
        row
    };
    let mut rows = Vec::new();
    if unsynced.len() <= ALL_UP_TO {
        rows.push(Vec::new());
        for change in unsynced {
            let fates = fates(change, random);
            let longer = |row: &Vec<Fate>| {
                let row = row.clone();
                fates
                    .iter()
                    .map(move |fate| [&*row, &[*fate]].concat())
                    .collect::<Vec<_>>()
            };
            rows = rows.iter().flat_map(longer).collect();
        }
    } else {
        rows.extend([same(Fate::Lost), same(Fate::Whole)]);
        for at in 0..unsynced.len() {
            rows.push(alone(at, Fate::Whole, Fate::Lost));
            rows.push(alone(at, Fate::Lost, Fate::Whole));
        }
        for _ in 0..more {
            let row = unsynced.iter().map(|change| {
                let fates = fates(change, random);
                fates[chance(random, fates.len())]
            });
            rows.push(row.collect());
        }
    }
    for at in last_writes(unsynced) {
        for fate in tears(&unsynced[at]) {
            rows.push(alone(at, fate, Fate::Lost));
            rows.push(alone(at, fate, Fate::Whole));
        }
    }
    let cuts = rows.into_iter().map(Crash::Cut);
    std::iter::once(Crash::Kill).chain(cuts).collect()
}

/// The last write of each file.
fn last_writes(unsynced: &[Unsynced]) -> Vec<usize> {
    let is_write = |at: &usize| unsynced[*at].bytes > 0;
    let is_last = |at: &usize| {
        let mut later = unsynced[at + 1..].iter();
        !later.any(|other| other.bytes > 0 && other.path == unsynced[*at].path)
    };
    (0..unsynced.len())
        .filter(is_write)
        .filter(is_last)
        .collect()
}

/// Sectors of a write that are lost or kept alone, and up to which it is cut, at most.
const TEARS: usize = 32;

/// A write cut behind each sector, and each sector of it alone lost and alone kept.
fn tears(change: &Unsynced) -> Vec<Fate> {
    let sectors = change.bytes.div_ceil(SECTOR_BYTES).min(TEARS);
    let cut = (1..sectors).map(|at| Fate::Prefix((at * SECTOR_BYTES) as u32));
    let alone = (0..sectors).flat_map(|at| [Fate::Sectors(!(1 << at)), Fate::Sectors(1 << at)]);
    cut.chain(alone).collect()
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
