//! The durable append that consumes permits: the intent record is itself the consumption, so no
//! crash can fall between the two.

use std::time::Duration;

use intendant_journal::error::AppendError;
use intendant_journal::face::{Appended, Batch};
use intendant_journal::format::entry::{Answer, Body, Entry, Outcome, Payload};

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

    /// Itself in parts of about `bytes` each, in order: one batch has to fit in a segment.
    pub fn parts(self, bytes: usize) -> Vec<Self> {
        let mut parts = vec![Self::default()];
        let mut filled = 0;
        let mut permits = self.permits.into_iter();
        for entry in self.entries {
            let size = inline_bytes(&entry.body);
            if filled > 0 && filled + size > bytes {
                parts.push(Self::default());
                filled = 0;
            }
            filled += size;
            let part = parts.last_mut().expect("there is always a part");
            if matches!(&entry.body, Body::Action(action) if action.intent.is_some()) {
                part.permits
                    .push(permits.next().expect("every intent came with its permit"));
            }
            part.entries.push(entry);
        }
        parts
    }

    /// The entries, in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

/// About what a fact takes up: its payloads, and something for all else.
fn inline_bytes(body: &Body) -> usize {
    const ALL_ELSE: usize = 512;
    let of = |payload: &Payload| match payload {
        Payload::Json(text) => text.len(),
        Payload::Bytes(bytes) => bytes.len(),
        Payload::JsonBlob(_) | Payload::BytesBlob(_) | Payload::Lost(_) => 0,
    };
    let payloads = match body {
        Body::PassStarted(started) => of(&started.input),
        Body::Action(action) => action.proposal.as_ref().map_or(0, |p| of(&p.arguments)),
        Body::Outcome(outcome) => {
            let output = match &outcome.outcome {
                Outcome::Succeeded(payload) | Outcome::Unusable { raw: payload, .. } => of(payload),
                _ => 0,
            };
            output + outcome.log.as_ref().map_or(0, of)
        }
        Body::Answered(answered) => match &answered.answer {
            Answer::Executed { output, evidence } => of(output) + of(evidence),
            _ => 0,
        },
        Body::SignalReceived(signal) => of(&signal.payload),
        Body::Noted(noted) => noted.value.len(),
        _ => 0,
    };
    payloads + ALL_ELSE
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
