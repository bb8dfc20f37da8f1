//! From the state of runs to what operators are shown: pure, and the same for a live engine and a
//! stopped journal.

use intendant_journal::face::IntentLog;
use intendant_journal::format::entry::{
    AttemptRef, Body, JournalId, Moment, Outcome, Recorded, RecoveryClass, Sequence,
};

use super::history::history_line;
use super::plan::end_name;
use super::report::{
    ActionCounts, ActionDetail, AttemptLog, HistoryLine, Next as NextLine, PendingItem, RunDetail,
    RunLine,
};
use crate::action::doubt::Surroundings;
use crate::action::id::{IntentId, action_id};
use crate::action::key::key;
use crate::action::life::{Next, Settled, SettledBy, State, closure_name};
use crate::engine::status::{RunEnd, RunStatus};
use crate::payload::show;
use crate::run::state::{Action, RunState};

/// Why an attempt that runs by the record and has no engine is in doubt.
const STOPPED: &str = "the engine stopped while the attempt ran";

/// Gives the surroundings for the actions of a tool.
pub type Around<'a> = &'a dyn Fn(&str) -> Surroundings;

/// A moment as RFC 3339, by the wall clock, in UTC.
pub fn rfc3339(at: Moment) -> String {
    rfc3339_ms(at.wall_ms)
}

pub(super) fn rfc3339_ms(wall_ms: i64) -> String {
    match jiff::Timestamp::from_millisecond(wall_ms) {
        Ok(time) => format!("{time:.3}"),
        Err(_) => format!("{wall_ms} ms since 1970"),
    }
}

/// Counts of the actions of a run that an engine drives. Those that had settled by
/// `started_after` count as replayed.
pub fn counts(state: &RunState, started_after: Sequence) -> ActionCounts {
    counts_of(state, started_after, true)
}

/// What runs without an engine does not run: it is in doubt.
fn counts_of(state: &RunState, started_after: Sequence, live: bool) -> ActionCounts {
    let mut counts = ActionCounts::default();
    for action in state.actions.iter().filter(|action| action.current) {
        if action.settled_at.is_some_and(|at| at <= started_after) {
            counts.replayed += 1;
        }
        match action.life.state() {
            State::Settled(Settled::Succeeded { by, .. }) => {
                counts.done += 1;
                if *by == SettledBy::Reconciler {
                    counts.reconciled += 1;
                }
            }
            State::Settled(Settled::Unusable { .. } | Settled::Failed { .. }) => counts.failed += 1,
            State::Settled(Settled::Denied { .. }) => counts.denied += 1,
            State::Settled(Settled::GivenUp { .. }) => counts.given_up += 1,
            State::InDoubt(_) => counts.in_doubt += 1,
            State::Running { .. } if !live => counts.in_doubt += 1,
            State::Parked { .. } => counts.parked += 1,
            State::AwaitingApproval { .. } => counts.awaiting_approval += 1,
            State::Proposed
            | State::Approved { .. }
            | State::Running { .. }
            | State::Waiting { .. } => {
                counts.running += 1;
            }
        }
    }
    counts
}

/// One line of a list of runs. A run without a status is driven by no engine.
pub fn run_line(state: &RunState, status: Option<&RunStatus>, started_after: Sequence) -> RunLine {
    run_line_of(state, status, started_after, status.is_some())
}

/// As [`run_line`], for a reader who knows only whether an engine is at work.
pub fn run_line_read(state: &RunState, live: bool) -> RunLine {
    run_line_of(state, None, Sequence(0), live)
}

fn run_line_of(
    state: &RunState,
    status: Option<&RunStatus>,
    started_after: Sequence,
    live: bool,
) -> RunLine {
    let word = match (&state.end, status) {
        (Some(end), _) => end_name(end),
        (None, Some(RunStatus::Ended(RunEnd::Completed(_)))) => "completed",
        (None, Some(RunStatus::Ended(RunEnd::Failed(_)))) => "failed",
        (None, Some(RunStatus::Ended(RunEnd::Cancelled(_)))) => "cancelled",
        (None, Some(RunStatus::Halted(_))) => "diverged",
        (None, Some(RunStatus::NeedsPerson)) => "waiting",
        (None, Some(_)) => "running",
        (None, None) => "waiting",
    };
    RunLine {
        run: state.run.clone(),
        workflow: state.pass.workflow.clone(),
        version: state.pass.version,
        pass: state.pass.pass,
        state: word.to_owned(),
        started: rfc3339(state.first_at),
        updated: rfc3339(state.last_at),
        actions: counts_of(state, started_after, live),
    }
}

/// What of a run has not ended. `live` says whether an engine drives it now.
pub fn pending_of(state: &RunState, live: bool, around: Around<'_>) -> Vec<PendingItem> {
    let mut items = Vec::new();
    if state.end.is_none() {
        items.extend(
            state
                .unsettled()
                .map(|action| pending_action(state, action, live, around)),
        );
        let waits = state.cancelled.is_none();
        for (path, timer) in state
            .timers
            .iter()
            .filter(|(_, timer)| waits && !timer.fired)
        {
            items.push(waiting(
                state,
                &path.0,
                "waiting_timer",
                timer.set_at,
                "a timer of its workflow",
                NextLine {
                    what: "it wakes its workflow".to_owned(),
                    at: Some(rfc3339_ms(timer.due_wall_ms)),
                },
            ));
        }
        for (path, wait) in state
            .waits
            .iter()
            .filter(|(_, wait)| waits && wait.took.is_none())
        {
            let why = format!("its workflow waits for signal {:?}", wait.name);
            let what = format!("intendant signal {} {}", state.run, wait.name);
            items.push(waiting(
                state,
                &path.0,
                "waiting_signal",
                wait.since,
                &why,
                NextLine { what, at: None },
            ));
        }
    }
    for (sequence, incident) in &state.incidents {
        let intent = incident
            .attempt
            .as_ref()
            .map_or(state.run.clone(), |attempt| name(&state.run, attempt));
        let mut item = waiting(
            state,
            "",
            "incident",
            incident.at,
            &incident.what,
            NextLine {
                what: format!("look at it, then acknowledge incident {sequence}"),
                at: None,
            },
        );
        item.intent = intent;
        items.push(item);
    }
    items
}

fn name(run: &str, attempt: &AttemptRef) -> String {
    IntentId {
        run: run.to_owned(),
        attempt: attempt.clone(),
    }
    .to_string()
}

fn waiting(
    state: &RunState,
    path: &str,
    word: &str,
    since: Moment,
    why: &str,
    next: NextLine,
) -> PendingItem {
    PendingItem {
        intent: format!("{}/{path}", state.run),
        run: state.run.clone(),
        action: format!("{}/{path}", state.run),
        attempt: 0,
        tool: String::new(),
        item_key: None,
        idempotency_key: String::new(),
        state: word.to_owned(),
        since: rfc3339(since),
        why: why.to_owned(),
        next,
    }
}

fn pending_action(
    state: &RunState,
    action: &Action,
    live: bool,
    around: Around<'_>,
) -> PendingItem {
    let around = around(&action.proposal.tool);
    let attempt = AttemptRef {
        action: action.of.clone(),
        attempt: action.life.attempt(),
    };
    let (word, why) = match action.life.state() {
        State::Running { .. } if live => ("running", "its tool runs".to_owned()),
        State::Running { .. } => ("in_doubt", STOPPED.to_owned()),
        State::AwaitingApproval { .. } => (
            "awaiting_approval",
            "a person must say yes first".to_owned(),
        ),
        State::InDoubt(doubt) if doubt.asking && live => ("reconciling", doubt.why.clone()),
        State::InDoubt(doubt) => (
            "in_doubt",
            match &doubt.last_answer {
                Some(answer) => format!("{}; last answer: {answer}", doubt.why),
                None => doubt.why.clone(),
            },
        ),
        State::Parked { why, .. } => ("parked", why.clone()),
        State::Waiting { .. } => ("waiting_timer", "its next attempt is due later".to_owned()),
        State::Proposed | State::Approved { .. } => {
            ("running", "it is about to be decided".to_owned())
        }
        State::Settled(_) => unreachable!("settled actions are not pending"),
    };
    let intent = name(&state.run, &attempt);
    PendingItem {
        next: next_line(&intent, action, live, &around),
        intent,
        run: state.run.clone(),
        action: action_id(&state.run, &action.of),
        attempt: attempt.attempt,
        tool: action.proposal.tool.clone(),
        item_key: action.of.path.0.split_once('/').map(|(_, key)| plain(key)),
        idempotency_key: action
            .life
            .intent()
            .map_or(String::new(), |intent| intent.key.to_string()),
        state: word.to_owned(),
        since: rfc3339(action.since),
        why,
    }
}

/// Adds the key to items of actions that have no intent yet: it is known before.
pub fn add_keys(items: &mut [PendingItem], journal: JournalId) {
    for item in items {
        if item.idempotency_key.is_empty()
            && !item.tool.is_empty()
            && let Ok(id) = item.intent.parse::<IntentId>()
        {
            item.idempotency_key = key(journal, &id.run, &id.attempt.action).to_string();
        }
    }
}

/// A segment of a path as it was before it was percent-encoded.
fn plain(segment: &str) -> String {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let code = behind
            .get(..2)
            .filter(|_| *first == b'%')
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| segment.to_owned())
}

fn next_line(intent: &str, action: &Action, live: bool, around: &Surroundings) -> NextLine {
    let when = |at: i64| (live && at > around.now.wall_ms).then(|| rfc3339_ms(at));
    let at_start = if live { "" } else { "at the next start: " };
    let (what, at) = match (action.life.state(), action.life.next(around)) {
        (State::Running { .. }, _) if live => {
            ("its tool answers, or its timeout ends it".to_owned(), None)
        }
        (State::Running { .. }, _) => (
            format!("{at_start}{}", after_interruption(action, around)),
            None,
        ),
        (State::AwaitingApproval { .. }, _) => {
            (format!("intendant approve {intent} (or deny)"), None)
        }
        (_, Next::Person | Next::Park { .. }) => (
            format!(
                "intendant resolve {intent} --executed --output JSON | --never-ran | --give-up \
                 --reason TEXT"
            ),
            None,
        ),
        (_, Next::Ask { at_wall_ms, .. }) => (
            format!("{at_start}its reconciler is asked"),
            when(at_wall_ms),
        ),
        (
            _,
            Next::Decide {
                attempt,
                at_wall_ms,
            },
        ) => (
            format!("{at_start}attempt {attempt} starts under the same key"),
            when(at_wall_ms),
        ),
        (_, Next::Run { .. } | Next::Nothing) => ("nothing".to_owned(), None),
    };
    NextLine { what, at }
}

/// What a restart does with an attempt that was cut while it ran.
fn after_interruption(action: &Action, around: &Surroundings) -> String {
    let cut = intendant_journal::format::entry::OutcomeEntry {
        attempt: AttemptRef {
            action: action.of.clone(),
            attempt: action.life.attempt(),
        },
        outcome: Outcome::Interrupted {
            why: STOPPED.into(),
        },
        log: None,
    };
    let epoch = action.intended_in;
    let fact = Body::Outcome(cut);
    match action
        .life
        .apply(&fact, around.now, epoch)
        .map(|life| life.next(around))
    {
        Ok(Next::Ask { .. }) => "its reconciler is asked whether it happened".to_owned(),
        Ok(Next::Decide { attempt, .. }) => {
            format!("attempt {attempt} starts under the same key, as its tool declares safe")
        }
        Ok(Next::Park { why, .. }) => format!("it is parked for a person: {why}"),
        _ => "nothing".to_owned(),
    }
}

/// What a restart would do with an action, in one sentence.
pub fn explain(action: &Action, live: bool, around: &Surroundings) -> String {
    match action.life.state() {
        State::Settled(_) => format!(
            "it is {}; a restart replays that and runs nothing",
            action.life.state_name()
        ),
        State::Running { .. } if live => format!(
            "it runs; if the engine is cut now, {}",
            after_interruption(action, around)
        ),
        State::Running { .. } => after_interruption(action, around),
        State::AwaitingApproval { .. } => "it goes on waiting for a yes or no".to_owned(),
        _ => next_line("it", action, false, around)
            .what
            .trim_start_matches("at the next start: ")
            .to_owned(),
    }
}

/// One run in full.
pub fn run_detail(
    state: &RunState,
    history: &[Recorded],
    status: Option<&RunStatus>,
    started_after: Sequence,
    live: bool,
    around: Around<'_>,
    log: Option<&dyn IntentLog>,
) -> RunDetail {
    let result = match &state.end {
        Some(intendant_journal::format::entry::End::Completed(payload)) => Some(show(log, payload)),
        Some(
            intendant_journal::format::entry::End::Failed(why)
            | intendant_journal::format::entry::End::Cancelled(why),
        ) => Some(why.clone().into()),
        None => match status {
            Some(RunStatus::Halted(halt)) => Some(halt.to_string().into()),
            _ => None,
        },
    };
    let mut histories: std::collections::HashMap<_, Vec<HistoryLine>> =
        std::collections::HashMap::new();
    let mut logs: std::collections::HashMap<_, Vec<AttemptLog>> = std::collections::HashMap::new();
    for recorded in history {
        if let Some(attempt) = crate::action::life::attempt_of(&recorded.entry.body) {
            histories
                .entry(attempt.action.clone())
                .or_default()
                .push(history_line(recorded));
        }
        if let Body::Outcome(entry) | Body::LateReply(entry) = &recorded.entry.body
            && let Some(kept) = &entry.log
        {
            // Not read: those of a whole run may be larger than what fits in an answer.
            let log = AttemptLog {
                attempt: entry.attempt.attempt,
                text: show(None, kept),
            };
            logs.entry(entry.attempt.action.clone())
                .or_default()
                .push(log);
        }
    }
    let actions_list = state
        .actions
        .iter()
        .map(|action| {
            let around = around(&action.proposal.tool);
            let history = histories.remove(&action.of).unwrap_or_default();
            ActionDetail {
                logs: logs.remove(&action.of).unwrap_or_default(),
                ..action_detail(state, action, history, live, &around, log)
            }
        })
        .collect();
    RunDetail {
        line: run_line_of(state, status, started_after, live),
        result,
        actions_list,
    }
}

fn action_detail(
    state: &RunState,
    action: &Action,
    history: Vec<HistoryLine>,
    live: bool,
    around: &Surroundings,
    log: Option<&dyn IntentLog>,
) -> ActionDetail {
    let intent = action.life.intent();
    let (output, why) = match action.life.state() {
        State::Settled(Settled::Succeeded { output, .. }) => (Some(show(log, output)), None),
        State::Settled(Settled::Unusable { raw, why, .. }) => {
            (Some(show(log, raw)), Some(why.clone()))
        }
        State::Settled(Settled::Failed { why, .. } | Settled::GivenUp { why, .. }) => {
            (None, Some(why.clone()))
        }
        State::Settled(Settled::Denied { reasons }) => (None, Some(reasons.join("; "))),
        State::Parked { why, .. } => (None, Some(why.clone())),
        State::InDoubt(doubt) => (None, Some(doubt.why.clone())),
        State::Running { .. } if !live => (None, Some(STOPPED.to_owned())),
        _ => (None, None),
    };
    let key = match (intent, log) {
        (Some(intent), _) => intent.key.to_string(),
        (None, Some(log)) => key(log.id(), &state.run, &action.of).to_string(),
        (None, None) => String::new(),
    };
    let word = match action.life.state() {
        // Nothing runs and nobody asks without an engine.
        State::Running { .. } | State::InDoubt(_) if !live => "in doubt",
        _ => action.life.state_name(),
    };
    ActionDetail {
        action: action_id(&state.run, &action.of),
        attempt: action.life.attempt(),
        tool: action.proposal.tool.clone(),
        tool_version: action.proposal.tool_version,
        arguments: show(log, &action.proposal.arguments),
        digest: action.proposal.digest.to_string(),
        idempotency_key: key,
        recovery: intent.map_or(String::new(), |intent| class_name(intent.class)),
        closure: intent
            .and_then(|intent| intent.closure)
            .map(|closure| closure_name(closure).to_owned()),
        state: word.to_owned(),
        output,
        why,
        explain: explain(action, live, around),
        logs: Vec::new(),
        history,
    }
}

/// A recovery class as job files write it.
pub fn class_name(class: RecoveryClass) -> String {
    match class {
        RecoveryClass::ReadOnly => "read_only".to_owned(),
        RecoveryClass::Idempotent { window_ms } => {
            format!("idempotent, window {} s", window_ms / 1_000)
        }
        RecoveryClass::Reconcilable => "reconcilable".to_owned(),
        RecoveryClass::Opaque => "opaque".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_as_their_rows_have_them() {
        for key in ["a", "c/d e", "50%", "%41", "ä", ""] {
            assert_eq!(plain(&crate::action::id::segment(key)), key);
        }
        // What no encoder writes is left as it is.
        for odd in ["%", "%4", "%zz", "%ff", "a%2"] {
            assert_eq!(plain(odd), odd);
        }
    }
}
