//! The durable append that consumes permits: the intent record is itself the consumption, so no
//! crash can fall between the two.

use std::time::Duration;

use intendant_journal::error::AppendError;
use intendant_journal::face::{Appended, Batch};
use intendant_journal::format::entry::{Body, Entry, Outcome, Payload};

use super::Kernel;
use super::permit::{Armed, Permit};

/// Entries to be made durable together, and the permits that they consume.
#[derive(Default)]
pub struct Commit {
    entries: Vec<Entry>,
    permits: Vec<Permit>,
}

impl Commit {
    /// Adds a fact that starts no effect.
    ///
    /// # Panics
    /// If the entry holds an intent: those are added with their permit.
    pub fn fact(&mut self, entry: Entry) {
        assert!(
            !matches!(&entry.body, Body::Action(action) if action.intent.is_some()),
            "an intent is recorded only by consuming its permit"
        );
        self.entries.push(entry);
    }

    /// Adds the entry that is the consumption of a permit.
    ///
    /// # Panics
    /// If the entry is not the intent of exactly this permit.
    pub fn intent(&mut self, permit: Permit, entry: Entry) {
        let Body::Action(action) = &entry.body else {
            panic!("a permit is consumed by an intent, not by another fact");
        };
        assert_eq!(
            action.intent.as_ref(),
            Some(&permit.intent),
            "a permit consumed by another intent"
        );
        assert_eq!(
            action.attempt, permit.attempt,
            "a permit consumed for another attempt"
        );
        assert_eq!(
            entry.run.as_deref(),
            Some(permit.run.as_str()),
            "a permit consumed by another run"
        );
        self.entries.push(entry);
        self.permits.push(permit);
    }

    /// True if there is nothing to make durable.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entries, in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

impl Commit {
    /// Splits a commit that would not fit in one batch, in order. Entries are only ever parted
    /// where the bound demands it.
    pub(crate) fn split(self, bytes_max: usize) -> Vec<Commit> {
        let mut parts: Vec<Commit> = Vec::new();
        let mut permits = self.permits.into_iter();
        let mut room = 0;
        for entry in self.entries {
            let bytes = about_bytes(&entry);
            if parts.is_empty() || bytes > room {
                parts.push(Commit::default());
                room = bytes_max;
            }
            room = room.saturating_sub(bytes);
            let part = parts.last_mut().expect("a part was just pushed");
            if matches!(&entry.body, Body::Action(action) if action.intent.is_some()) {
                part.permits.extend(permits.next());
            }
            part.entries.push(entry);
        }
        assert!(permits.next().is_none(), "each permit has its intent");
        parts
    }
}

/// About how many bytes an entry takes in the log.
fn about_bytes(entry: &Entry) -> usize {
    let payload = |payload: &Payload| match payload {
        Payload::Json(text) => text.len(),
        Payload::Bytes(bytes) => bytes.len(),
        Payload::JsonBlob(_) | Payload::BytesBlob(_) | Payload::Lost(_) => 40,
    };
    let payloads = match &entry.body {
        Body::Action(action) => action
            .proposal
            .as_ref()
            .map_or(0, |p| payload(&p.arguments)),
        Body::Outcome(entry) | Body::LateReply(entry) => {
            entry.log.as_ref().map_or(0, payload)
                + match &entry.outcome {
                    Outcome::Succeeded(output) => payload(output),
                    Outcome::Unusable { raw, .. } => payload(raw),
                    _ => 0,
                }
        }
        Body::SignalReceived(signal) => payload(&signal.payload),
        Body::PassStarted(pass) => payload(&pass.input),
        _ => 0,
    };
    payloads + 512
}

impl Kernel {
    /// Makes a commit durable and gives back what its permits became.
    ///
    /// # Errors
    /// [`AppendError`]: no permit of the commit will ever open the door.
    pub async fn commit(&self, commit: Commit) -> Result<(Appended, Vec<Armed>), AppendError> {
        let Commit { entries, permits } = commit;
        let batch = Batch {
            entries,
            starts_effects: !permits.is_empty(),
        };
        let appended = self.log.append(batch).await?;
        let armed = permits
            .into_iter()
            .map(|permit| Armed {
                run: permit.run,
                attempt: permit.attempt,
                proposal: permit.proposal,
                key: permit.intent.key,
                timeout: Duration::from_millis(permit.intent.timeout_ms),
            })
            .collect();
        Ok((appended, armed))
    }
}
