//! A question about an attempt in doubt of a run that nobody drives: it is asked, the answer is
//! recorded, and nothing else starts.

use intendant_journal::face::Batch;
use intendant_journal::format::entry::{Body, Entry};

use super::Shared;
use crate::action::doubt::Surroundings;
use crate::action::id::{IntentId, action_id};
use crate::action::life::{Event, Life, State, answer_words};
use crate::operator::command::Refusal;
use crate::operator::direct::note_cut;
use crate::run::state::{Action, RunState};
use crate::tool::json::AttemptContext;
use crate::workflow::question;

fn refusal(code: &str, message: String, remedy: &str) -> Refusal {
    Refusal {
        code: code.to_owned(),
        message,
        remedy: remedy.to_owned(),
    }
}

fn unreadable(why: impl std::fmt::Display) -> Refusal {
    refusal("unreadable", why.to_string(), "see `intendant verify`")
}

/// Asks, and gives the answer in words.
pub(super) async fn ask(shared: &Shared, id: &IntentId) -> Result<String, Refusal> {
    let log = shared.log.as_ref();
    let name = id.to_string();
    let history = log.history(&id.run).map_err(unreadable)?;
    let mut state = RunState::fold(&id.run, &history)
        .map_err(unreadable)?
        .ok_or_else(|| {
            let message = format!("there is no run {:?}", id.run);
            refusal("not_found", message, "see `intendant runs`")
        })?;
    let cut = note_cut(&mut state, &name, log, shared.clock.now());
    let action = in_doubt(&state, id)?;
    let tool = action.proposal.tool.clone();
    let no_reconciler = || {
        let message = format!("{tool:?} has no reconciler");
        refusal(
            "no_reconciler",
            message,
            "settle it with `intendant resolve`",
        )
    };
    let registered = shared.kernel.declared(&tool).ok_or_else(no_reconciler)?;
    let reconciler = registered.reconciler.clone().ok_or_else(no_reconciler)?;
    let text = crate::payload::text(log, &action.proposal.arguments).map_err(unreadable)?;
    let arguments = serde_json::from_str(&text).map_err(unreadable)?;
    let intent = action.life.intent().ok_or_else(|| {
        refusal(
            "not_in_doubt",
            format!("{name} was never begun"),
            "see `intendant show`",
        )
    })?;
    let timeout = registered.contract.reconcile_timeout;
    let closure = intent.closure;
    let mut cx = AttemptContext {
        run: id.run.clone(),
        action: action_id(&id.run, &id.attempt.action),
        attempt: id.attempt.attempt,
        epoch: log.epoch().0,
        key: intent.key,
        deadline: std::time::SystemTime::now() + timeout,
    };
    if tokio::time::timeout(timeout, registered.sender_gone(&cx))
        .await
        .is_err()
    {
        let message = format!("something that {name} started on this machine still runs");
        return Err(refusal("running", message, "ask again once it has ended"));
    }

    // The question is durable before it is asked.
    let asking = Body::Asking(id.attempt.clone());
    let now = shared.clock.now();
    let life = action
        .life
        .apply(&asking, now, log.epoch())
        .map_err(|why| illegal(&why))?;
    append(shared, id, cut.into_iter().chain([asking]).collect()).await?;
    cx.deadline = std::time::SystemTime::now() + timeout;
    let answer = question::put(reconciler, timeout, &cx, &arguments).await;
    let entry = question::record(log, Some(registered), closure, id.attempt.clone(), answer);
    let words = answer_words(&entry.answer);
    let around = Surroundings {
        now: shared.clock.now(),
        ..shared.surroundings(shared.ask_rule(&tool))
    };
    let step = life
        .step(Event::Answered(entry), log.epoch(), &around)
        .map_err(|why| illegal(&why))?;
    append(shared, id, step.facts).await?;
    Ok(said(&name, &words, &step.life))
}

fn said(name: &str, words: &str, life: &Life) -> String {
    format!(
        "{name} was asked about: {words}; it is now {}",
        life.state_name()
    )
}

fn illegal(why: &crate::action::life::Illegal) -> Refusal {
    refusal(
        "illegal",
        why.to_string(),
        "look at it again with `intendant pending`",
    )
}

/// The action whose attempt is in doubt and may be asked about.
fn in_doubt<'a>(state: &'a RunState, id: &IntentId) -> Result<&'a Action, Refusal> {
    let action = state.action_of(&id.attempt.action).ok_or_else(|| {
        let message = format!("no action is called {id}");
        refusal("not_found", message, "see `intendant pending`")
    })?;
    let attempt = id.attempt.attempt;
    match action.life.state() {
        State::InDoubt(doubt) if doubt.attempt == attempt => Ok(action),
        State::Parked {
            attempt: parked, ..
        } if *parked == attempt => Err(refusal(
            "parked",
            format!(
                "{id} is parked: its reconciler has been asked as often as it may, or it has none"
            ),
            "settle it with `intendant resolve`",
        )),
        _ => Err(refusal(
            "not_in_doubt",
            format!("{id} is not in doubt: it is {}", action.life.state_name()),
            "only an attempt in doubt can be reconciled",
        )),
    }
}

async fn append(shared: &Shared, id: &IntentId, facts: Vec<Body>) -> Result<(), Refusal> {
    let at = shared.clock.now();
    let entries = facts
        .into_iter()
        .map(|body| Entry {
            at,
            run: Some(id.run.clone()),
            body,
        })
        .collect();
    let batch = Batch {
        entries,
        starts_effects: false,
    };
    shared
        .log
        .append(batch)
        .await
        .map(|_| ())
        .map_err(|why| refusal("storage", why.to_string(), "ask again after a restart"))
}
