//! A guard that comes late, after recovery has taken over, runs nothing.

use std::time::Duration;

use intendant_reconcilers::command::{AttemptLock, CommandSpec, Ending};
use serde_json::json;

use crate::place::{LONG, Opened, Place, attempt, file, gone, lives, run, until};

/// The command with a guard that begins only when a file `go` stands there, as if the machine had
/// been slow. Its process id is in `guard.pid`.
fn with_slow_guard(place: &Place) -> (CommandSpec, Opened) {
    let tool = place.script("pay.sh", "#!/bin/sh\ntouch ran\n");
    let mut spec = place.spec_of(["./pay.sh"]);
    let folder = place.folder.path().display();
    let guard = spec.place.program.display();
    spec.place.program = place.script(
        "slow-guard",
        &format!(
            "#!/bin/sh\necho $$ >{folder}/guard.pid\n\
             while [ ! -e {folder}/go ]; do sleep 0.01; done\nexec {guard} \"$@\"\n"
        ),
    );
    (spec, Opened::watch(&tool))
}

/// Drops a call whose guard has its order and has not begun.
async fn drop_before_the_guard_begins(place: &Place, spec: &CommandSpec) {
    let (cx, arguments) = (attempt(1), json!({}));
    let call = run(spec, &cx, &arguments, LONG);
    let cut = tokio::time::timeout(Duration::from_millis(200), call).await;
    assert!(cut.is_err(), "it must not have ended: {cut:?}");
    assert!(lives(place.pid("guard.pid")));
}

fn let_the_guard_go(place: &Place) {
    std::fs::write(place.path("go"), "").unwrap();
    let guard = place.pid("guard.pid");
    until("the guard's end", || (!lives(guard)).then_some(()));
}

#[tokio::test]
async fn trial_b16_a_late_guard_finds_its_engine_gone_and_runs_nothing() {
    let place = Place::new();
    let (spec, tool) = with_slow_guard(&place);
    drop_before_the_guard_begins(&place, &spec).await;
    // Nothing holds the lock, so recovery may ask now. What it is told must stay true.
    gone(&place.lock(1)).await;
    let_the_guard_go(&place);
    assert!(!tool.seen(), "the command was begun");
    assert!(!place.path("ran").exists());
    assert!(!place.lock(1).exists(), "a lock file stayed behind");
}

#[tokio::test]
async fn trial_b16_a_late_guard_finds_the_lock_taken_and_runs_nothing() {
    let place = Place::new();
    let (spec, tool) = with_slow_guard(&place);
    drop_before_the_guard_begins(&place, &spec).await;
    let recovery = AttemptLock::try_take(&place.lock(1)).unwrap().unwrap();
    let_the_guard_go(&place);
    assert!(!tool.seen(), "the command was begun");
    assert!(!place.path("ran").exists());
    drop(recovery);
}

#[tokio::test]
async fn a_late_guard_whose_engine_waits_runs_its_command() {
    let place = Place::new();
    let (spec, tool) = with_slow_guard(&place);
    let (cx, arguments) = (attempt(1), json!({}));
    let (finished, ()) = tokio::join!(run(&spec, &cx, &arguments, LONG), async {
        file(place.path("guard.pid")).await;
        std::fs::write(place.path("go"), "").unwrap();
    });
    assert!(matches!(finished.ending, Ending::Ended(_)), "{finished:?}");
    assert!(tool.seen());
    assert!(place.path("ran").exists());
}

#[tokio::test]
async fn a_held_lock_keeps_an_attempt_from_starting() {
    let place = Place::new();
    let held = AttemptLock::try_take(&place.lock(1)).unwrap().unwrap();
    let spec = place.spec("touch ran");
    let (cx, arguments) = (attempt(1), json!({}));
    let finished = run(&spec, &cx, &arguments, LONG).await;
    assert_eq!(finished.ending, Ending::LockHeld);
    assert!(!place.path("ran").exists());
    assert!(place.lock(1).exists(), "the holder's file was removed");

    // Another attempt has a lock of its own, and this one may begin once it is free.
    let other = run(&spec, &attempt(2), &arguments, LONG).await;
    assert!(matches!(other.ending, Ending::Ended(_)));
    drop(held);
    let finished = run(&spec, &cx, &arguments, LONG).await;
    assert!(matches!(finished.ending, Ending::Ended(_)));
    assert!(place.path("ran").exists());
}

/// Cuts a call at many moments, from before its guard has begun until after its command has ended,
/// and takes over at once. Whatever the command wrote was written before the takeover.
#[tokio::test]
async fn fault_d9_after_a_takeover_at_any_moment_nothing_acts() {
    let place = Place::new();
    let spec = place.spec("echo a >>acts; sleep 0.01; echo b >>acts; sleep 0.01; echo c >>acts");
    let arguments = json!({});
    let mut seen = Vec::new();
    for number in 0..60_u32 {
        let cx = attempt(number);
        let moment = Duration::from_millis(u64::from(number));
        let call = run(&spec, &cx, &arguments, LONG);
        // Ended or cut: both are moments to look at.
        let _ = tokio::time::timeout(moment, call).await;
        gone(&place.lock(number)).await;
        let acts = std::fs::read_to_string(place.path("acts")).unwrap_or_default();
        seen.push(acts.len());
        // The next attempt begins at once; were anything of this one left, it would act under it.
        std::fs::write(place.path(&format!("acts.{number}")), &acts).unwrap();
        let _ = std::fs::remove_file(place.path("acts"));
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(
        !place.path("acts").exists(),
        "something acted after its end"
    );
    assert!(
        seen.contains(&0),
        "no cut fell before the command: {seen:?}"
    );
    assert!(seen.contains(&6), "no cut fell after it: {seen:?}");
    assert!(seen.iter().all(|bytes| *bytes <= 6), "{seen:?}");
}
