//! Changes to a run that no driver has: on a stopped journal, or in an engine that does not drive
//! it. The same plan, the same life, the same facts as in a live engine.

use intendant_journal::face::{Batch, IntentLog};
use intendant_journal::format::entry::{
    Body, Entry, Moment, Outcome, OutcomeEntry, Recorded, Sequence,
};

use super::command::{Change, Done, Refusal, Request};
use super::plan::{self, CheckOutput, Plan};
use crate::action::doubt::Surroundings;
use crate::action::id::IntentId;
use crate::action::life::{Event, State, attempt_of};
use crate::clock::Clock;
use crate::run::state::RunState;

/// Carries out a change; durable when this returns.
///
/// # Errors
/// [`Refusal`]: nothing was recorded.
pub async fn change(
    log: &dyn IntentLog,
    clock: &dyn Clock,
    request: &Request,
    check_output: CheckOutput<'_>,
) -> Result<Done, Refusal> {
    let refuse = |code: &str, message: String, remedy: &str| Refusal {
        code: code.to_owned(),
        message,
        remedy: remedy.to_owned(),
    };
    let run = plan::run_of(&request.change)?;
    let history = log
        .history(&run)
        .map_err(|why| refuse("unreadable", why.to_string(), "see `intendant verify`"))?;
    let mut state = RunState::fold(&run, &history)
        .map_err(|why| refuse("unreadable", why.to_string(), "see `intendant verify`"))?
        .ok_or_else(|| {
            refuse(
                "not_found",
                format!("there is no run {run:?}"),
                "see `intendant runs`",
            )
        })?;
    let now = clock.now();
    let cut = match &request.change {
        Change::Resolve { intent, .. } => note_cut(&mut state, intent, log, now),
        _ => None,
    };
    let planned = match plan::plan(&state, request, check_output)? {
        Plan::Record(planned) => {
            let fact = crate::payload::keep_large(log, planned.fact.clone()).map_err(|why| {
                refuse("storage", why.to_string(), "free space and send it again")
            })?;
            plan::Planned { fact, ..*planned }
        }
        Plan::Replayed(answered) => {
            let message = format!("answered before ({}); nothing changed", answered.what);
            return Ok(Done {
                message,
                sequence: answered.sequence.0,
                replayed: true,
                warnings: Vec::new(),
            });
        }
    };
    let facts = match attempt_of(&planned.fact).map(|attempt| attempt.action.clone()) {
        None => vec![planned.fact],
        Some(of) => {
            let event = match planned.fact {
                Body::Approval(entry) => Event::Approval(entry),
                Body::Resolved(entry) => Event::Resolved(entry),
                fact => unreachable!("no change plans {fact:?}"),
            };
            let action = state.action_of(&of).expect("the plan found the action");
            let around = Surroundings {
                now,
                boot_since: log.boot_since(),
                clock_behind: now.wall_ms < log.last_wall_ms(),
                reconciler: None,
            };
            let step = action
                .life
                .step(event, log.epoch(), &around)
                .map_err(|why| {
                    refuse(
                        "illegal",
                        why.to_string(),
                        "look at it again with `intendant pending`",
                    )
                })?;
            step.facts
        }
    };
    let first = u64::from(cut.is_some());
    let entries = cut
        .into_iter()
        .chain(facts)
        .map(|body| Entry {
            at: now,
            run: Some(run.clone()),
            body,
        })
        .collect();
    let appended = log
        .append(Batch {
            entries,
            starts_effects: false,
        })
        .await
        .map_err(|why| {
            refuse(
                "storage",
                why.to_string(),
                "send the same request again after a restart",
            )
        })?;
    Ok(Done {
        message: planned.message,
        sequence: appended.first.0 + first,
        replayed: false,
        warnings: planned.warnings,
    })
}

/// Where nobody drives the run, an attempt that is recorded as running was cut. Folds that into the
/// state and gives the fact, which is to be recorded before what follows from it.
pub(crate) fn note_cut(
    state: &mut RunState,
    intent: &str,
    log: &dyn IntentLog,
    now: Moment,
) -> Option<Body> {
    let id: IntentId = intent.parse().ok()?;
    let action = state.action_of(&id.attempt.action)?;
    let running = State::Running {
        attempt: id.attempt.attempt,
    };
    if *action.life.state() != running {
        return None;
    }
    let why = "the engine stopped while the attempt ran".to_owned();
    let fact = Body::Outcome(OutcomeEntry {
        attempt: id.attempt,
        outcome: Outcome::Interrupted { why },
        log: None,
    });
    let recorded = Recorded {
        sequence: Sequence(log.durable().0 + 1),
        epoch: log.epoch(),
        entry: Entry {
            at: now,
            run: Some(state.run.clone()),
            body: fact.clone(),
        },
    };
    state.apply(&recorded).ok().map(|()| fact)
}
