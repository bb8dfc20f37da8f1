//! Recorded facts in words.

use intendant_journal::format::entry::{AttemptRef, Body, Outcome, Recorded, Resolution, Verdict};

use super::plan::end_name;
use super::report::HistoryLine;
use super::view::{rfc3339, rfc3339_ms};
use crate::action::life::answer_words;

/// One recorded fact for people.
pub fn history_line(recorded: &Recorded) -> HistoryLine {
    let (what, detail) = words(&recorded.entry.body);
    HistoryLine {
        sequence: recorded.sequence.0,
        epoch: recorded.epoch.0,
        at: rfc3339(recorded.entry.at),
        run: recorded.entry.run.clone().unwrap_or_default(),
        what: what.to_owned(),
        detail,
    }
}

fn attempt_words(attempt: &AttemptRef) -> String {
    match attempt.action.generation {
        1 => format!("{}#{}", attempt.action.path, attempt.attempt),
        n => format!("{}~{n}#{}", attempt.action.path, attempt.attempt),
    }
}

fn words(body: &Body) -> (&'static str, String) {
    match body {
        Body::Opened(opened) => (
            "opened",
            format!("by process {} ({})", opened.pid, opened.program),
        ),
        Body::PassStarted(pass) => (
            "pass_started",
            format!(
                "pass {} of workflow {} version {}",
                pass.pass, pass.workflow, pass.version
            ),
        ),
        Body::Action(entry) => {
            let attempt = attempt_words(&entry.attempt);
            let reasons = match entry.decision.reasons.as_slice() {
                [] => String::new(),
                reasons => format!(" ({})", reasons.join("; ")),
            };
            match (&entry.decision.verdict, &entry.intent) {
                (_, Some(intent)) => (
                    "intent",
                    format!("{attempt} may run under key {}{reasons}", intent.key),
                ),
                (Verdict::RequireApproval, _) => {
                    ("approval_required", format!("{attempt}{reasons}"))
                }
                (Verdict::Repair(change), _) => ("repair", format!("{attempt}: {change}{reasons}")),
                _ => ("denied", format!("{attempt}{reasons}")),
            }
        }
        Body::Outcome(entry) => (
            "outcome",
            format!(
                "{} {}",
                attempt_words(&entry.attempt),
                outcome_words(&entry.outcome)
            ),
        ),
        Body::LateReply(entry) => (
            "late_reply",
            format!(
                "{} {} (evidence only)",
                attempt_words(&entry.attempt),
                outcome_words(&entry.outcome)
            ),
        ),
        Body::Asking(attempt) => (
            "asking",
            format!("the reconciler about {}", attempt_words(attempt)),
        ),
        Body::Answered(entry) => (
            "answered",
            format!(
                "{}: {}",
                attempt_words(&entry.attempt),
                answer_words(&entry.answer)
            ),
        ),
        Body::Approval(entry) => {
            let word = if entry.approved {
                "approved"
            } else {
                "refused"
            };
            (
                word,
                format!(
                    "{} by {}: {}",
                    attempt_words(&entry.attempt),
                    entry.note.who,
                    entry.note.reason
                ),
            )
        }
        Body::Parked(entry) => (
            "parked",
            format!("{}: {}", attempt_words(&entry.attempt), entry.why),
        ),
        Body::Resolved(entry) => {
            let found = match entry.resolution {
                Resolution::Executed(_) => "executed",
                Resolution::NeverRan => "never ran (a person's claim)",
                Resolution::GaveUp => "given up",
            };
            (
                "resolved",
                format!(
                    "{} as {found} by {}: {}",
                    attempt_words(&entry.attempt),
                    entry.note.who,
                    entry.note.reason
                ),
            )
        }
        Body::Verified(entry) => (
            "verified",
            format!(
                "{}: {:?}: {}",
                attempt_words(&entry.attempt),
                entry.verification,
                entry.why
            ),
        ),
        Body::TimerSet(timer) => (
            "timer_set",
            format!("{} due {}", timer.path, rfc3339_ms(timer.due_wall_ms)),
        ),
        Body::TimerFired(path) => ("timer_fired", path.to_string()),
        Body::SignalAwaited(wait) => (
            "signal_awaited",
            format!("{:?} at {}", wait.name, wait.path),
        ),
        Body::SignalReceived(signal) => (
            "signal_received",
            format!("{:?} from {}", signal.name, signal.note.who),
        ),
        Body::Noted(note) => (
            "noted",
            format!("{} at {}: {}", note.what, note.path, note.value),
        ),
        Body::CancelRequested(note) => (
            "cancel_requested",
            format!("by {}: {}", note.who, note.reason),
        ),
        Body::RetryRequested(retry) => (
            "retry_requested",
            format!(
                "{} action(s) by {}: {}",
                retry.actions.len(),
                retry.note.who,
                retry.note.reason
            ),
        ),
        Body::PassEnded(ended) => (
            "pass_ended",
            format!("pass {} {}", ended.pass, end_name(&ended.end)),
        ),
        Body::Incident(incident) => ("incident", incident.what.clone()),
        Body::IncidentAcknowledged(seen) => (
            "incident_acknowledged",
            format!("{} by {}", seen.sequence, seen.note.who),
        ),
    }
}

fn outcome_words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Succeeded(_) => "succeeded".to_owned(),
        Outcome::Unusable { why, .. } => format!("succeeded, output unusable: {why}"),
        Outcome::NotExecuted { why, .. } => format!("was not executed: {why}"),
        Outcome::Failed { why } => format!("failed: {why}"),
        Outcome::Unknown { why } => format!("is in doubt: {why}"),
        Outcome::Interrupted { why } => format!("was interrupted: {why}"),
    }
}
