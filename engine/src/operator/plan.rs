//! From a change that somebody asks for to the facts that record it: pure, and the same for a live
//! engine and a stopped journal.

use intendant_journal::format::canonical;
use intendant_journal::format::entry::{
    ApprovalEntry, AttemptRef, Body, End, IncidentAcknowledged, OperatorNote, Payload, Resolution,
    ResolvedEntry, RetryRequested, Sequence, SignalReceived,
};
use serde_json::Value;

use super::command::{Change, Refusal, Request, Settle};
use crate::action::id::IntentId;
use crate::action::life::{Settled, State};
use crate::run::state::{Action, Answered, RunState, words_of};

/// What is to be recorded for a change.
#[derive(Clone, PartialEq, Debug)]
pub struct Planned {
    /// The fact.
    pub fact: Body,
    /// What will be true once it is durable.
    pub message: String,
    /// What the operator should know.
    pub warnings: Vec<String>,
}

/// What a change comes to.
#[derive(Clone, PartialEq, Debug)]
pub enum Plan {
    /// It is to be recorded.
    Record(Box<Planned>),
    /// The same request was answered before.
    Replayed(Answered),
}

/// Checks a tool's output against its declared schema.
pub type CheckOutput<'a> = &'a (dyn Fn(&str, &Value) -> Result<(), String> + Sync);

/// The run that a change is about.
///
/// # Errors
/// [`Refusal`] if it names an attempt in a way that cannot be read.
pub fn run_of(change: &Change) -> Result<String, Refusal> {
    match change {
        Change::Approve { intent } | Change::Deny { intent } | Change::Resolve { intent, .. } => {
            Ok(parse(intent)?.run)
        }
        Change::Signal { run, .. }
        | Change::Cancel { run }
        | Change::Retry { run, .. }
        | Change::Acknowledge { run, .. } => Ok(run.clone()),
    }
}

/// Plans a change to a run.
///
/// # Errors
/// [`Refusal`]: nothing is to be recorded.
pub fn plan(
    state: &RunState,
    request: &Request,
    check_output: CheckOutput<'_>,
) -> Result<Plan, Refusal> {
    if let Some(answered) = state.requests.get(&request.request) {
        let asked = asked_words(&request.change)?;
        if answered.what != asked {
            let message = format!(
                "request id {:?} was used for something else: {:?}, not {asked:?}",
                request.request, answered.what
            );
            return Err(refusal(
                "request_conflict",
                message,
                "give this request an id of its own",
            ));
        }
        return Ok(Plan::Replayed(answered.clone()));
    }
    let note = OperatorNote {
        who: request.who.clone(),
        reason: request.reason.clone(),
        request: request.request.clone(),
    };
    let planned = match &request.change {
        Change::Approve { intent } => approval(state, intent, true, note)?,
        Change::Deny { intent } => approval(state, intent, false, note)?,
        Change::Resolve { intent, resolution } => {
            resolve(state, intent, resolution, note, check_output)?
        }
        Change::Signal { name, payload, .. } => signal(state, name, payload, note)?,
        Change::Cancel { .. } => {
            open(state)?;
            let message = format!(
                "run {} is asked to end; running actions finish, nothing new starts",
                state.run
            );
            Planned {
                fact: Body::CancelRequested(note),
                message,
                warnings: Vec::new(),
            }
        }
        Change::Retry { item, .. } => retry(state, item.as_deref(), note)?,
        Change::Acknowledge { sequence, .. } => {
            let sequence = Sequence(*sequence);
            if !state.incidents.contains_key(&sequence) {
                return Err(refusal(
                    "not_found",
                    format!("run {} has no open incident {sequence}", state.run),
                    "see `intendant pending`",
                ));
            }
            let fact = Body::IncidentAcknowledged(IncidentAcknowledged { sequence, note });
            Planned {
                fact,
                message: format!("incident {sequence} is acknowledged"),
                warnings: Vec::new(),
            }
        }
    };
    Ok(Plan::Record(Box::new(planned)))
}

/// What is asked for, in the words by which the record knows it.
fn asked_words(change: &Change) -> Result<String, Refusal> {
    let of = |intent: &str| parse(intent).map(|id| words_of(&id.attempt));
    Ok(match change {
        Change::Approve { intent } => format!("approve {}", of(intent)?),
        Change::Deny { intent } => format!("deny {}", of(intent)?),
        Change::Resolve { intent, resolution } => {
            let word = match resolution {
                Settle::Executed { .. } => "executed",
                Settle::NeverRan => "never-ran",
                Settle::GiveUp => "give-up",
            };
            format!("resolve {word} {}", of(intent)?)
        }
        Change::Signal { name, .. } => format!("signal {name}"),
        Change::Cancel { .. } => "cancel".to_owned(),
        Change::Retry { .. } => "retry".to_owned(),
        Change::Acknowledge { sequence, .. } => format!("acknowledge {sequence}"),
    })
}

fn parse(intent: &str) -> Result<IntentId, Refusal> {
    intent
        .parse()
        .map_err(|why: String| refusal("bad_id", why, "copy the id from `intendant pending`"))
}

fn refusal(code: &str, message: String, remedy: &str) -> Refusal {
    Refusal {
        code: code.to_owned(),
        message,
        remedy: remedy.to_owned(),
    }
}

fn open(state: &RunState) -> Result<(), Refusal> {
    match &state.end {
        None => Ok(()),
        Some(_) => Err(refusal(
            "ended",
            format!("run {} has ended", state.run),
            "see `intendant show`",
        )),
    }
}

/// The action an id names, and the attempt, which must be its current one.
fn current<'a>(state: &'a RunState, intent: &str) -> Result<(&'a Action, AttemptRef), Refusal> {
    let id = parse(intent)?;
    let action = state.action_of(&id.attempt.action).ok_or_else(|| {
        refusal(
            "not_found",
            format!("no action is called {intent}"),
            "see `intendant pending`, or `intendant show RUN`",
        )
    })?;
    if action.life.attempt() != id.attempt.attempt {
        let message = format!(
            "{intent} is not the current attempt: {} is, and it is {}",
            action.life.attempt(),
            action.life.state_name()
        );
        return Err(refusal(
            "not_current",
            message,
            "look at it again with `intendant pending`",
        ));
    }
    Ok((action, id.attempt))
}

fn approval(
    state: &RunState,
    intent: &str,
    approved: bool,
    note: OperatorNote,
) -> Result<Planned, Refusal> {
    let (action, attempt) = current(state, intent)?;
    if !matches!(action.life.state(), State::AwaitingApproval { .. }) {
        let message = format!(
            "{intent} does not await approval: it is {}",
            action.life.state_name()
        );
        return Err(refusal("not_awaiting", message, "see `intendant show`"));
    }
    let message = format!(
        "{intent} is {}",
        if approved { "approved" } else { "refused" }
    );
    let fact = Body::Approval(ApprovalEntry {
        attempt,
        approved,
        note,
    });
    Ok(Planned {
        fact,
        message,
        warnings: Vec::new(),
    })
}

fn resolve(
    state: &RunState,
    intent: &str,
    settle: &Settle,
    note: OperatorNote,
    check_output: CheckOutput<'_>,
) -> Result<Planned, Refusal> {
    let (action, attempt) = current(state, intent)?;
    if !matches!(
        action.life.state(),
        State::InDoubt(_) | State::Parked { .. }
    ) {
        let message = format!(
            "{intent} is not in doubt: it is {}",
            action.life.state_name()
        );
        return Err(refusal(
            "not_in_doubt",
            message,
            "only an attempt in doubt can be resolved",
        ));
    }
    let mut warnings = Vec::new();
    let (resolution, message) = match settle {
        Settle::Executed { output } => {
            check_output(&action.proposal.tool, output).map_err(|why| {
                let message = format!(
                    "the output does not fit what {:?} declares: {why}",
                    action.proposal.tool
                );
                refusal(
                    "schema",
                    message,
                    "give the output that the tool would have printed",
                )
            })?;
            let text = canonical::to_text(output).map_err(|why| {
                refusal(
                    "schema",
                    format!("the output: {why}"),
                    "give one JSON value",
                )
            })?;
            (
                Resolution::Executed(Payload::Json(text)),
                format!("{intent} is settled as executed"),
            )
        }
        Settle::NeverRan => {
            let closure = action.life.intent().and_then(|intent| intent.closure);
            if closure.is_none() {
                warnings.push(format!(
                    "nothing guarantees that attempt {} will not still arrive: its tool declares no closure. This is recorded as your claim",
                    attempt.attempt
                ));
            }
            (
                Resolution::NeverRan,
                format!(
                    "{intent} is settled as never ran; attempt {} may start",
                    attempt.attempt + 1
                ),
            )
        }
        Settle::GiveUp => (
            Resolution::GaveUp,
            format!("{intent} is given up; its call returns GivenUp"),
        ),
    };
    let fact = Body::Resolved(ResolvedEntry {
        attempt,
        resolution,
        note,
    });
    Ok(Planned {
        fact,
        message,
        warnings,
    })
}

fn signal(
    state: &RunState,
    name: &str,
    payload: &Value,
    note: OperatorNote,
) -> Result<Planned, Refusal> {
    open(state)?;
    let text = canonical::to_text(payload).map_err(|why| {
        refusal(
            "bad_payload",
            format!("the signal's payload: {why}"),
            "give one JSON value",
        )
    })?;
    let fact = Body::SignalReceived(SignalReceived {
        name: name.to_owned(),
        payload: Payload::Json(text),
        note,
    });
    Ok(Planned {
        fact,
        message: format!("signal {name} is recorded for run {}", state.run),
        warnings: Vec::new(),
    })
}

fn retry(state: &RunState, item: Option<&str>, note: OperatorNote) -> Result<Planned, Refusal> {
    if state.end.is_none() {
        let message = format!("run {} has not ended", state.run);
        return Err(refusal(
            "open",
            message,
            "let it end first: `intendant run` goes on with it, `intendant pending` says what it waits for",
        ));
    }
    let wanted = item.map(crate::action::id::segment);
    let mut actions = Vec::new();
    let mut warnings = Vec::new();
    for action in state.actions.iter().filter(|action| action.current) {
        let key = action.of.path.0.rsplit('/').next();
        if wanted.as_deref().is_some_and(|wanted| key != Some(wanted)) {
            continue;
        }
        let path = &action.of.path;
        match action.life.settled() {
            Some(Settled::Failed { .. } | Settled::Denied { .. }) => {}
            // What happened, or may have, is only ever done anew where a person names it.
            Some(Settled::Unusable { .. }) if wanted.is_some() => warnings.push(format!(
                "{path}: its effect HAS happened, only its output was unusable; the new action has a new key and will do it again"
            )),
            Some(Settled::GivenUp { .. }) if wanted.is_some() => warnings.push(format!(
                "{path}: its effect may have happened; the new action has a new key and may do it again"
            )),
            _ => continue,
        }
        actions.push(action.of.clone());
    }
    if actions.is_empty() {
        let what = item.map_or(String::new(), |item| format!(" with key {item:?}"));
        let message = format!(
            "run {} has no action{what} that failed or was denied",
            state.run
        );
        return Err(refusal(
            "not_found",
            message,
            "see `intendant show RUN`; what was given up or gave unusable output is retried only with --item KEY",
        ));
    }
    let message = format!(
        "{} new action(s) will be made when run {} is started again",
        actions.len(),
        state.run
    );
    Ok(Planned {
        fact: Body::RetryRequested(RetryRequested { actions, note }),
        message,
        warnings,
    })
}

/// The words for how a pass ended.
pub fn end_name(end: &End) -> &'static str {
    match end {
        End::Completed(_) => "completed",
        End::Failed(_) => "failed",
        End::Cancelled(_) => "cancelled",
    }
}
