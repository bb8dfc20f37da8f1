//! How much room is kept for the endings of what has begun.
//!
//! Every open intent reserves an outcome with a payload of the inline limit and one answer, so
//! that on a full disk whatever is running can still be recorded as ended. Intents are counted
//! from the entries themselves, so that an opening finds the same number.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::format::entry::{ActionRef, Answer, Body, Entry, Outcome};
use crate::format::segment::PAGE_BYTES;

/// Longest payload that an entry may carry inline.
pub(crate) fn inline_max_bytes(segment_bytes: u64) -> usize {
    usize::try_from(segment_bytes / 8)
        .unwrap_or(usize::MAX)
        .min(64 * 1024)
}

/// What a single outcome takes up at most, alone in its group: names, reasons and frames around
/// the payload get a page.
pub(crate) fn outcome_bytes(inline_max: usize) -> u64 {
    (inline_max.next_multiple_of(PAGE_BYTES) + PAGE_BYTES) as u64
}

/// What one open intent reserves.
pub(crate) fn reserve_bytes(inline_max: usize) -> u64 {
    outcome_bytes(inline_max) + PAGE_BYTES as u64
}

/// What an entry means for the reserve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// An intent is open from here on.
    Opens(u64),
    /// It is settled.
    Settles(u64),
}

impl Change {
    /// The change that an entry makes, if any.
    pub(crate) fn of(entry: &Entry) -> Option<Self> {
        let run = entry.run.as_deref();
        match &entry.body {
            Body::Action(action) if action.intent.is_some() => {
                Some(Self::Opens(name(run, &action.attempt.action)))
            }
            // An unknown outcome is recorded, but an answer is still to come.
            Body::Outcome(outcome)
                if !matches!(
                    outcome.outcome,
                    Outcome::Unknown { .. } | Outcome::Interrupted { .. }
                ) =>
            {
                Some(Self::Settles(name(run, &outcome.attempt.action)))
            }
            Body::Answered(answered)
                if matches!(
                    answered.answer,
                    Answer::Executed { .. } | Answer::NeverWill { .. }
                ) =>
            {
                Some(Self::Settles(name(run, &answered.attempt.action)))
            }
            Body::Resolved(resolved) => Some(Self::Settles(name(run, &resolved.attempt.action))),
            _ => None,
        }
    }
}

/// A short name for an action. Two with the same name would be counted as one, which costs nothing
/// but a little of the reserve.
fn name(run: Option<&str>, action: &ActionRef) -> u64 {
    let mut hasher = DefaultHasher::new();
    run.hash(&mut hasher);
    action.hash(&mut hasher);
    hasher.finish()
}

/// The intents that are open.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenIntents(HashSet<u64>);

impl OpenIntents {
    pub(crate) fn apply(&mut self, change: Change) {
        match change {
            Change::Opens(name) => {
                self.0.insert(name);
            }
            Change::Settles(name) => {
                self.0.remove(&name);
            }
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len() as u64
    }
}
