//! Trial B16: an effect is duplicated after the worker crashed. The target performs the effect at
//! once and replies 5 s later; the engine is stopped in between.

use std::path::PathBuf;
use std::time::Duration;

use intendant_tests::program::{Program, Running, until};
use intendant_tests::scene::Scene;
use intendant_tests::stub::{Arbitration, Manner, Question, Reply, Stub};
use intendant_tests::stub_job::StubJob;
use rustix::process::Signal;

use crate::CLIENT;

/// The target counts every call as an effect: nothing but the engine keeps it at one.
fn effect_without_reply(scene: &Scene, job: &StubJob) -> (Stub, PathBuf, Running) {
    let stub = Stub::new(Manner {
        arbitration: Arbitration::None,
        reply: Reply::After(Duration::from_secs(5)),
        question: Question::Look,
        hold: false,
    });
    let file = job.write(scene, CLIENT, &stub);
    let running = Program::new(scene).arg("run").arg(&file).start();
    until("the effect happened", || stub.effects().len() == 1);
    (stub, file, running)
}

fn looked_up() -> StubJob {
    StubJob {
        closure: None,
        ..StubJob::default()
    }
}

/// Stops it at once: a first signal asks for a clean stop, the second ends it.
fn terminate_at_once(running: &mut Running) {
    until("it is stopped", || {
        running.signal(Signal::TERM);
        std::thread::sleep(Duration::from_millis(100));
        running.has_ended()
    });
}

fn the_first_result_is_found(scene: &Scene, stub: &Stub, file: &PathBuf) {
    let done = Program::new(scene)
        .arg("run")
        .arg(file)
        .run()
        .expect(0)
        .json();
    assert_eq!(done["state"], "completed");
    assert_eq!(done["actions"]["reconciled"], 1);
    assert_eq!(stub.effects().len(), 1);
    let show = Program::new(scene)
        .args(["show", StubJob::RUN])
        .run()
        .expect(0)
        .json();
    assert_eq!(
        show["actions_list"][0]["output"]["id"], "effect-1",
        "{show}"
    );
}

fn it_waits_for_a_person(scene: &Scene, stub: &Stub, file: &PathBuf) {
    let waiting = Program::new(scene)
        .arg("run")
        .arg(file)
        .run()
        .expect(3)
        .json();
    assert_eq!(waiting["state"], "waiting");
    assert_eq!(waiting["actions"]["parked"], 1);
    assert_eq!(stub.requests_of("call").len(), 1);
    assert_eq!(stub.effects().len(), 1);
}

#[test]
fn trial_b16_sigkill_with_reconciler_ends_with_the_first_result() {
    let scene = Scene::new("b16-kill", "");
    let (stub, file, running) = effect_without_reply(&scene, &looked_up());
    assert_eq!(running.kill().signal(), Some(9));
    the_first_result_is_found(&scene, &stub, &file);
}

#[test]
fn trial_b16_sigterm_with_reconciler_ends_with_the_first_result() {
    let scene = Scene::new("b16-term", "");
    let (stub, file, mut running) = effect_without_reply(&scene, &looked_up());
    terminate_at_once(&mut running);
    let _ = running.wait().expect(143);
    the_first_result_is_found(&scene, &stub, &file);
}

#[test]
fn trial_b16_sigkill_without_reconciler_waits_for_a_person() {
    let scene = Scene::new("b16-opaque-kill", "");
    let (stub, file, running) = effect_without_reply(&scene, &StubJob::opaque());
    assert_eq!(running.kill().signal(), Some(9));
    it_waits_for_a_person(&scene, &stub, &file);
}

#[test]
fn trial_b16_sigterm_without_reconciler_waits_for_a_person() {
    let scene = Scene::new("b16-opaque-term", "");
    let (stub, file, mut running) = effect_without_reply(&scene, &StubJob::opaque());
    terminate_at_once(&mut running);
    let _ = running.wait().expect(143);
    it_waits_for_a_person(&scene, &stub, &file);
}

/// A clean stop hears the reply that comes within the grace period.
#[test]
fn trial_b16_sigterm_once_waits_for_the_reply() {
    let scene = Scene::new("b16-grace", "");
    let job = StubJob {
        rows: 2,
        concurrency: 1,
        ..StubJob::opaque()
    };
    let (stub, file, mut running) = effect_without_reply(&scene, &job);
    running.signal(Signal::TERM);
    let _ = running.wait().expect(143);
    assert_eq!(stub.requests_of("call").len(), 1, "nothing new was started");
    stub.behave(|manner| manner.reply = Reply::Send);
    let done = Program::new(&scene)
        .arg("run")
        .arg(&file)
        .run()
        .expect(0)
        .json();
    assert_eq!(done["actions"]["done"], 2);
    assert_eq!(done["actions"]["replayed"], 1);
    assert_eq!(stub.effects().len(), 2);
}
