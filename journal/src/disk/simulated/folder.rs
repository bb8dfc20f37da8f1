//! One simulated folder: names, durable apart from the files they stand for.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use super::fate::Fate;

/// Which file or folder a name stands for.
pub(super) type NodeId = u64;

/// A change of a folder that no sync of it has covered.
#[derive(Clone, Debug)]
enum Change {
    Put {
        name: OsString,
        node: NodeId,
    },
    Take {
        name: OsString,
    },
    /// Of the two names always exactly one stands for the node: a renaming is atomic.
    Move {
        from: OsString,
        to: OsString,
        node: NodeId,
    },
}

/// Invariant: applying all of `unsynced` to `durable` gives `seen`.
#[derive(Clone, Debug, Default)]
pub(super) struct Folder {
    durable: BTreeMap<OsString, NodeId>,
    seen: BTreeMap<OsString, NodeId>,
    unsynced: Vec<Change>,
}

fn apply(names: &mut BTreeMap<OsString, NodeId>, change: &Change) {
    match change {
        Change::Put { name, node } => {
            names.insert(name.clone(), *node);
        }
        Change::Take { name } => {
            names.remove(name);
        }
        Change::Move { from, to, node } => {
            // What bears the old name by now may be another file.
            if names.get(from) == Some(node) {
                names.remove(from);
            }
            names.insert(to.clone(), *node);
        }
    }
}

impl Folder {
    pub(super) fn get(&self, name: &OsStr) -> Option<NodeId> {
        self.seen.get(name).copied()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &OsString> {
        self.seen.keys()
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.seen.values().copied()
    }

    /// True if a name of this folder stands for the node, or may after a power cut.
    pub(super) fn may_name(&self, node: NodeId) -> bool {
        self.durable.values().any(|id| *id == node)
            || self.seen.values().any(|id| *id == node)
            || self.unsynced.iter().any(|change| match change {
                Change::Put { node: id, .. } | Change::Move { node: id, .. } => *id == node,
                Change::Take { .. } => false,
            })
    }

    fn change(&mut self, change: Change) {
        apply(&mut self.seen, &change);
        self.unsynced.push(change);
    }

    pub(super) fn put(&mut self, name: OsString, node: NodeId) {
        self.change(Change::Put { name, node });
    }

    pub(super) fn take(&mut self, name: OsString) {
        self.change(Change::Take { name });
    }

    pub(super) fn rename(&mut self, from: OsString, to: OsString, node: NodeId) {
        self.change(Change::Move { from, to, node });
    }

    pub(super) fn sync(&mut self) {
        self.durable = self.seen.clone();
        self.unsynced.clear();
    }

    /// What a power cut decides about.
    pub(super) fn open_changes(&self) -> impl Iterator<Item = String> {
        self.unsynced.iter().map(|change| match change {
            Change::Put { name, .. } => format!("new name {}", name.display()),
            Change::Take { name } => format!("removal of {}", name.display()),
            Change::Move { from, to, .. } => {
                format!("renaming of {} to {}", from.display(), to.display())
            }
        })
    }

    /// The folder after a power cut; takes one fate for each of [`Folder::open_changes`].
    pub(super) fn cut(&self, fates: &mut impl FnMut() -> Fate) -> Self {
        let mut names = self.durable.clone();
        for change in &self.unsynced {
            if fates().keeps() {
                apply(&mut names, change);
            }
        }
        Self {
            durable: names.clone(),
            seen: names,
            unsynced: Vec::new(),
        }
    }
}
