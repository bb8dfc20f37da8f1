//! The oracle of the payouts job: what its tools really did, read without the engine.
//!
//! A payout is one file `<key>.<attempt>` that says `run <id> <account> <cents>`; one that says
//! `void` rules an attempt out. Files that begin with a dot are leftovers of killed scripts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A payout as the job's rows ask for it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Payout {
    /// The row's id.
    pub id: String,
    /// To whom.
    pub account: String,
    /// How much.
    pub cents: String,
}

/// What a slot holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Slot {
    /// A payout made.
    Run(Payout),
    /// An attempt ruled out.
    Void,
}

/// All slots, by key and attempt.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ledger {
    /// Each key's slots by attempt.
    pub slots: BTreeMap<String, BTreeMap<u32, Slot>>,
}

/// What is wrong with a ledger. Empty if nothing is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Faults {
    /// Paid more than once, under whatever keys.
    pub doubled: Vec<String>,
    /// Not paid.
    pub missing: Vec<String>,
    /// Paid, but nobody asked for it so.
    pub extra: Vec<Payout>,
}

impl Ledger {
    /// Reads the folder; one that is not there is an empty ledger.
    ///
    /// # Panics
    /// If it holds anything but slots and leftovers.
    #[must_use]
    pub fn read(folder: &Path) -> Self {
        let mut ledger = Self::default();
        let Ok(files) = fs::read_dir(folder) else {
            return ledger;
        };
        for file in files {
            let file = file.unwrap();
            let name = file.file_name().into_string().unwrap();
            if name.starts_with('.') {
                continue;
            }
            let (key, attempt) = name
                .split_once('.')
                .unwrap_or_else(|| panic!("slot {name}"));
            let attempt: u32 = attempt.parse().unwrap_or_else(|_| panic!("slot {name}"));
            assert!(
                key.len() == 32 && key.bytes().all(|b| b"0123456789abcdef".contains(&b)),
                "slot {name}: the key is not 32 hex digits"
            );
            let content = fs::read_to_string(file.path()).unwrap();
            let slot = match content.split_whitespace().collect::<Vec<_>>()[..] {
                ["void"] => Slot::Void,
                ["run", id, account, cents] => Slot::Run(Payout {
                    id: id.into(),
                    account: account.into(),
                    cents: cents.into(),
                }),
                _ => panic!("slot {name} holds {content:?}"),
            };
            ledger
                .slots
                .entry(key.into())
                .or_default()
                .insert(attempt, slot);
        }
        ledger
    }

    /// All payouts made.
    pub fn paid(&self) -> impl Iterator<Item = &Payout> {
        self.slots
            .values()
            .flat_map(BTreeMap::values)
            .filter_map(|slot| match slot {
                Slot::Run(payout) => Some(payout),
                Slot::Void => None,
            })
    }

    /// Number of attempts ruled out.
    #[must_use]
    pub fn voids(&self) -> usize {
        let all = self.slots.values().flat_map(BTreeMap::values);
        all.filter(|slot| **slot == Slot::Void).count()
    }

    /// Whether this attempt has paid.
    #[must_use]
    pub fn has_paid(&self, key: &str, attempt: u32) -> bool {
        let slot = self.slots.get(key).and_then(|slots| slots.get(&attempt));
        matches!(slot, Some(Slot::Run(_)))
    }

    /// Compares it with what was asked for.
    #[must_use]
    pub fn faults(&self, asked: &[Payout]) -> Faults {
        let asked: BTreeMap<&str, &Payout> = asked.iter().map(|p| (p.id.as_str(), p)).collect();
        let mut faults = Faults::default();
        let mut seen = BTreeSet::new();
        for payout in self.paid() {
            if asked.get(payout.id.as_str()) != Some(&payout) {
                faults.extra.push(payout.clone());
            }
            if !seen.insert(payout.id.as_str()) {
                faults.doubled.push(payout.id.clone());
            }
        }
        let missing = asked.keys().filter(|id| !seen.contains(*id));
        faults.missing = missing.map(|id| (*id).to_owned()).collect();
        faults
    }

    /// Every payout once, none missing, none extra; and as many keys as payouts, so that no payout
    /// ever had two keys.
    ///
    /// # Panics
    /// If it is otherwise.
    #[track_caller]
    pub fn assert_exact(&self, asked: &[Payout]) {
        assert_eq!(self.faults(asked), Faults::default());
        assert_eq!(self.slots.len(), asked.len(), "more keys than payouts");
    }

    /// None paid twice, none that was not asked for.
    ///
    /// # Panics
    /// If it is otherwise.
    #[track_caller]
    pub fn assert_none_doubled(&self, asked: &[Payout]) {
        let faults = self.faults(asked);
        assert_eq!((faults.doubled, faults.extra), (vec![], vec![]));
        assert!(self.slots.len() <= asked.len(), "more keys than payouts");
    }
}

/// The payouts that a CSV file asks for.
///
/// # Panics
/// If it is none of this job.
#[must_use]
pub fn asked(csv: &Path) -> Vec<Payout> {
    let text = fs::read_to_string(csv).unwrap();
    let rows = text.lines().skip(1).map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        Payout {
            id: cells[0].into(),
            account: cells[1].into(),
            cents: cells[2].into(),
        }
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payout(id: &str) -> Payout {
        Payout {
            id: id.into(),
            account: "a".into(),
            cents: "1".into(),
        }
    }

    /// The checker itself must be able to fail.
    #[test]
    fn every_kind_of_fault_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let key = |n: u32| format!("{n:032x}");
        let put = |n: u32, attempt: u32, text: &str| {
            fs::write(folder.path().join(format!("{}.{attempt}", key(n))), text).unwrap();
        };
        let asked = [payout("p"), payout("q")];
        put(1, 1, "void\n");
        put(1, 2, "run p a 1\n");
        put(2, 1, "run q a 1\n");
        fs::write(folder.path().join(".new.x"), "run r a 1\n").unwrap();
        let good = Ledger::read(folder.path());
        good.assert_exact(&asked);
        assert_eq!((good.paid().count(), good.voids()), (2, 1));
        assert!(good.has_paid(&key(1), 2) && !good.has_paid(&key(1), 1));

        put(1, 3, "run p a 1\n");
        assert_eq!(Ledger::read(folder.path()).faults(&asked).doubled, ["p"]);
        put(1, 3, "run r a 1\n");
        assert_eq!(
            Ledger::read(folder.path()).faults(&asked).extra,
            [payout("r")]
        );
        put(1, 3, "void\n");
        put(2, 1, "void\n");
        assert_eq!(Ledger::read(folder.path()).faults(&asked).missing, ["q"]);
        put(2, 1, "run q a 2\n");
        assert_eq!(Ledger::read(folder.path()).faults(&asked).extra.len(), 1);
        put(2, 1, "run q a 1\n");
        put(3, 1, "void\n");
        let two_keys =
            std::panic::catch_unwind(|| Ledger::read(folder.path()).assert_exact(&asked));
        assert!(two_keys.is_err());
    }
}
