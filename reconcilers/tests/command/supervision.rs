//! Nothing that a command started outlives what supervises it (fault D9).

use std::future::Future;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use intendant::tool::json::{AttemptContext, RawOutput};
use intendant_reconcilers::command::{AttemptLock, CommandSpec, Ending};
use serde_json::json;

use crate::place::{LONG, Place, attempt, call, file, gone, lives, run, until};

/// Starts a process that has left the command's session and parent, says so in `far.pid`, and acts
/// a second later.
const DOUBLE_FORK: &str = "(setsid sh -c 'echo $$ >far.pid; sleep 1; echo late >effect' &) ; \
     while [ ! -s far.pid ]; do sleep 0.01; done";

/// The same, and it has given up every descriptor, the lock's too.
const DOUBLE_FORK_CLOSED: &str = "(setsid sh -c 'echo $$ >far.pid; sleep 1; echo late >effect' \
     0<&- 1>&- 2>&- 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- &) ; \
     while [ ! -s far.pid ]; do sleep 0.01; done";

/// Runs the command until `ready`, then drops the call.
async fn run_until(spec: &CommandSpec, cx: &AttemptContext, ready: impl Future<Output = ()>) {
    let arguments = json!({});
    tokio::select! {
        finished = run(spec, cx, &arguments, LONG) => panic!("ended early: {finished:?}"),
        () = ready => {}
    }
}

#[tokio::test]
async fn fault_d9_a_dropped_call_kills_what_slipped_away() {
    for script in [DOUBLE_FORK, DOUBLE_FORK_CLOSED] {
        let place = Place::new();
        let spec = place.spec(&format!("{script}; echo $$ >pid; sleep 600"));
        run_until(&spec, &attempt(1), file(place.path("pid"))).await;
        gone(&place.lock(1)).await;
        assert!(!lives(place.pid("pid")));
        assert!(!lives(place.pid("far.pid")));
        assert!(!place.path("effect").exists(), "{script}");
    }
}

#[tokio::test]
async fn fault_d9_an_answer_means_that_nothing_runs_any_more() {
    for script in [DOUBLE_FORK, DOUBLE_FORK_CLOSED] {
        let place = Place::new();
        let reply = call(&place.spec(&format!("{script}; echo 1"))).await;
        assert_eq!(reply.result, Ok(RawOutput::Text(b"1\n".to_vec())));
        assert!(!lives(place.pid("far.pid")), "{script}");
        assert!(!place.path("effect").exists(), "{script}");
        assert!(!place.lock(1).exists());
    }
}

#[tokio::test]
async fn fault_d9_a_whole_forest_is_killed() {
    let place = Place::new();
    // Each level leaves its parent's session and ignores what can be ignored.
    place.script(
        "grow.sh",
        "#!/bin/sh\ntrap '' TERM HUP INT\necho $$ >>pids\n\
         if [ $1 -gt 0 ]; then setsid ./grow.sh $(($1-1)) & setsid ./grow.sh $(($1-1)) & fi\n\
         sleep 600 & wait\n",
    );
    let spec = place.spec_of(["./grow.sh", "4"]);
    let pids = place.path("pids");
    let read = {
        let pids = pids.clone();
        move || -> Vec<i32> {
            let text = std::fs::read_to_string(&pids).unwrap_or_default();
            text.lines().map(|line| line.parse().unwrap()).collect()
        }
    };
    let grown = {
        let read = read.clone();
        async move {
            tokio::task::spawn_blocking(move || {
                until("31 processes", || (read().len() == 31).then_some(()));
            })
            .await
            .unwrap();
        }
    };
    run_until(&spec, &attempt(1), grown).await;
    gone(&place.lock(1)).await;
    for pid in read() {
        assert!(!lives(pid), "{pid} outlived its attempt");
    }
}

/// Plays both parts: the test, and the engine that it starts and kills.
#[test]
fn fault_d9_trial_b16_an_engine_that_is_killed_takes_its_commands_along() {
    const ENGINE: &str = "TEST_ENGINE_FOLDER";
    const NAME: &str =
        "supervision::fault_d9_trial_b16_an_engine_that_is_killed_takes_its_commands_along";
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();

    if let Some(folder) = std::env::var_os(ENGINE) {
        let mut spec = Place::new().spec(&format!("{DOUBLE_FORK}; echo $$ >pid; sleep 600"));
        spec.cwd = folder.clone().into();
        spec.place.attempts = Path::new(&folder).join("attempts");
        let finished = runtime.block_on(run(&spec, &attempt(1), &json!({}), LONG));
        panic!("the engine was to be killed before: {finished:?}");
    }

    for signal in ["-KILL", "-TERM"] {
        let place = Place::new();
        let mut engine = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME])
            .env(ENGINE, place.folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let (tool, far) = (place.pid("pid"), place.pid("far.pid"));
        assert!(lives(tool));
        assert!(!AttemptLock::is_gone(&place.lock(1)).unwrap());
        let killed = Command::new("kill")
            .args([signal, &engine.id().to_string()])
            .status()
            .unwrap();
        assert!(killed.success());
        engine.wait().unwrap();
        runtime.block_on(gone(&place.lock(1)));
        assert!(!lives(tool) && !lives(far));
        assert!(!place.path("effect").exists());
        assert!(!place.lock(1).exists());
    }
}

#[tokio::test]
async fn a_killed_guard_leaves_the_lock_taken_until_the_last_process_is_gone() {
    let place = Place::new();
    // The command's parent is its guard. Whoever kills it is a stranger.
    let spec = place.spec(
        "echo $PPID >guard.pid; (setsid sh -c 'echo $$ >far.pid; while [ ! -e go ]; do sleep 0.01; done' &); \
         echo $$ >pid; exec sleep 600",
    );
    let arguments = json!({});
    let cx = attempt(1);
    let finished = tokio::select! {
        finished = run(&spec, &cx, &arguments, LONG) => finished,
        () = async {
            file(place.path("pid")).await;
            file(place.path("far.pid")).await;
            kill(place.pid("guard.pid"));
            std::future::pending::<()>().await;
        } => unreachable!(),
    };
    assert!(
        matches!(finished.ending, Ending::GuardLost(_)),
        "{:?}",
        finished.ending
    );
    let (tool, far) = (place.pid("pid"), place.pid("far.pid"));
    assert!(lives(far));
    assert!(!AttemptLock::is_gone(&place.lock(1)).unwrap());

    // Neither a second execution nor a question begins while it lives.
    let again = run(&spec, &cx, &arguments, LONG).await;
    assert_eq!(again.ending, Ending::LockHeld);

    kill(tool);
    until("the tool's end", || (!lives(tool)).then_some(()));
    let waiting = tokio::spawn({
        let lock = place.lock(1);
        async move { gone(&lock).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished(), "one of its processes still lives");
    std::fs::write(place.path("go"), "").unwrap();
    waiting.await.unwrap();
    assert!(!lives(far));
}

#[tokio::test]
async fn a_ctrl_c_at_the_terminal_does_not_reach_guard_and_command() {
    let place = Place::new();
    let spec = place.spec("cut -d' ' -f5 /proc/$$/stat; cut -d' ' -f5 /proc/$PPID/stat");
    let reply = call(&spec).await;
    let Ok(RawOutput::Text(text)) = reply.result else {
        panic!("{reply:?}");
    };
    let text = String::from_utf8(text).unwrap();
    let groups: Vec<i32> = text.lines().map(|line| line.parse().unwrap()).collect();
    let own = rustix::process::getpgrp().as_raw_nonzero().get();
    assert_eq!(groups.len(), 2);
    assert!(
        !groups.contains(&own),
        "{groups:?} with the engine in {own}"
    );
    assert_ne!(groups[0], groups[1]);
}

#[test]
fn a_guard_started_by_hand_says_what_it_is() {
    let output = Command::new(env!("CARGO_BIN_EXE_intendant-guard"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("this is the guard"), "{said}");
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}
