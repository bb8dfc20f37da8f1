//! A clean stop: nothing new starts, running actions get their grace, what is left says so.

use std::time::Duration;

use intendant_tests::program::{Program, until};
use intendant_tests::scene::Scene;
use intendant_tests::stub::{Manner, Stub};
use intendant_tests::stub_job::StubJob;
use rustix::process::Signal;

use crate::CLIENT;

const ROWS: usize = 6;
const AT_ONCE: usize = 2;

fn job() -> StubJob {
    StubJob {
        rows: ROWS as u32,
        concurrency: AT_ONCE as u32,
        ..StubJob::default()
    }
}

fn held() -> Stub {
    Stub::new(Manner {
        hold: true,
        ..Manner::GOOD
    })
}

/// Every row's effect happened once, under a key of its own.
fn assert_each_once(stub: &Stub) {
    let effects = stub.effects();
    let mut bodies: Vec<_> = effects.iter().map(|effect| &effect.body).collect();
    let mut keys: Vec<_> = effects.iter().map(|effect| &effect.key).collect();
    bodies.sort();
    bodies.dedup();
    keys.sort();
    keys.dedup();
    assert_eq!(
        (effects.len(), bodies.len(), keys.len()),
        (ROWS, ROWS, ROWS)
    );
}

/// Ctrl-C reaches the whole group of a terminal's foreground; the tools must not die of it.
fn running_actions_finish(signal: Signal, code: i32) {
    let scene = Scene::new("graceful", "");
    let stub = held();
    let file = job().write(&scene, CLIENT, &stub);
    let mut running = Program::new(&scene).arg("run").arg(&file).start();
    until("two actions run", || stub.held() == AT_ONCE);
    running.signal_group(signal);
    until("the stop is under way", || {
        running.said().contains("stopping") || running.has_ended()
    });
    assert!(!running.has_ended(), "no grace was given");
    let pending = Program::new(&scene).arg("pending").run().expect(0).json();
    assert_eq!(pending["engine"], "live", "a stopping engine still answers");
    assert_eq!(
        pending["items"].as_array().map(Vec::len),
        Some(AT_ONCE),
        "{pending}"
    );
    stub.let_through();
    let _ = running.wait().expect(code);
    assert_eq!(
        stub.requests_of("call").len(),
        AT_ONCE,
        "something new was started"
    );
    assert_eq!(stub.effects().len(), AT_ONCE);

    stub.behave(|manner| manner.hold = false);
    let done = Program::new(&scene)
        .arg("run")
        .arg(&file)
        .run()
        .expect(0)
        .json();
    assert_eq!(done["actions"]["done"], ROWS);
    assert_eq!(done["actions"]["replayed"], AT_ONCE);
    assert_eq!(
        stub.requests_of("ask").len(),
        0,
        "they had been heard to their end"
    );
    assert_each_once(&stub);
}

#[test]
fn ctrl_c_lets_running_actions_finish_and_starts_nothing_new() {
    running_actions_finish(Signal::INT, 130);
}

#[test]
fn sigterm_lets_running_actions_finish_and_starts_nothing_new() {
    running_actions_finish(Signal::TERM, 143);
}

#[test]
fn p3_a_second_signal_stops_at_once_and_what_is_left_is_in_doubt() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let scene = Scene::new("graceful-twice", format!("{signal:?}"));
        let stub = held();
        let file = job().write(&scene, CLIENT, &stub);
        let mut running = Program::new(&scene).arg("run").arg(&file).start();
        until("two actions run", || stub.held() == AT_ONCE);
        until("it is stopped", || {
            running.signal(signal);
            std::thread::sleep(Duration::from_millis(100));
            running.has_ended()
        });
        let _ = running.wait().expect(code);

        let pending = Program::new(&scene).arg("pending").run().expect(0).json();
        let items = pending["items"].as_array().unwrap();
        assert_eq!(items.len(), AT_ONCE, "{pending}");
        for item in items {
            assert_eq!(item["state"], "in_doubt", "{item}");
            assert!(!item["next"]["what"].as_str().unwrap().is_empty(), "{item}");
        }
        stub.behave(|manner| manner.hold = false);
        let _ = Program::new(&scene).arg("run").arg(&file).run().expect(0);
        // What was on its way at the stop arrives last.
        stub.let_through();
        assert_each_once(&stub);
    }
}
