//! Which blob files an entry names.

use super::entry::{Answer, BlobRef, Body, End, Entry, Outcome, OutcomeEntry, Payload, Resolution};

/// The blobs without which an entry cannot be read in full, in order. What is known to be lost
/// ([`Payload::Lost`]) is not among them.
#[must_use]
pub fn named_blobs(entry: &Entry) -> Vec<BlobRef> {
    let mut payloads = Vec::new();
    match &entry.body {
        Body::PassStarted(started) => payloads.push(&started.input),
        Body::Action(action) => {
            payloads.extend(action.proposal.as_ref().map(|proposal| &proposal.arguments));
        }
        Body::Outcome(outcome) | Body::LateReply(outcome) => of_outcome(outcome, &mut payloads),
        Body::Answered(answered) => match &answered.answer {
            Answer::Executed { output, evidence } => payloads.extend([output, evidence]),
            Answer::NeverWill { evidence, .. } => payloads.extend(evidence),
            Answer::Running { .. } | Answer::NotSeen { .. } | Answer::Unknown { .. } => {}
        },
        Body::Resolved(resolved) => match &resolved.resolution {
            Resolution::Executed(output) => payloads.push(output),
            Resolution::NeverRan | Resolution::GaveUp => {}
        },
        Body::SignalReceived(signal) => payloads.push(&signal.payload),
        Body::PassEnded(ended) => match &ended.end {
            End::Completed(value) => payloads.push(value),
            End::Failed(_) | End::Cancelled(_) => {}
        },
        Body::Opened(_)
        | Body::Asking(_)
        | Body::Approval(_)
        | Body::Parked(_)
        | Body::Verified(_)
        | Body::TimerSet(_)
        | Body::TimerFired(_)
        | Body::SignalAwaited(_)
        | Body::Noted(_)
        | Body::CancelRequested(_)
        | Body::RetryRequested(_)
        | Body::Incident(_)
        | Body::IncidentAcknowledged(_) => {}
    }
    payloads.into_iter().filter_map(of_payload).collect()
}

fn of_outcome<'a>(outcome: &'a OutcomeEntry, payloads: &mut Vec<&'a Payload>) {
    match &outcome.outcome {
        Outcome::Succeeded(output) => payloads.push(output),
        Outcome::Unusable { raw, .. } => payloads.push(raw),
        Outcome::NotExecuted { .. }
        | Outcome::Failed { .. }
        | Outcome::Unknown { .. }
        | Outcome::Interrupted { .. } => {}
    }
    payloads.extend(&outcome.log);
}

fn of_payload(payload: &Payload) -> Option<BlobRef> {
    match payload {
        Payload::JsonBlob(blob) | Payload::BytesBlob(blob) => Some(*blob),
        Payload::Json(_) | Payload::Bytes(_) | Payload::Lost(_) => None,
    }
}
