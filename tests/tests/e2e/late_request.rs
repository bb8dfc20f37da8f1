//! A request that left a dead process arrives after the reconciler was asked: one effect.

use std::time::{Duration, Instant};

use intendant_tests::program::{Program, until};
use intendant_tests::scene::Scene;
use intendant_tests::stub::{Manner, Question, Stub};
use intendant_tests::stub_job::StubJob;

use crate::CLIENT;

/// A target that holds the first request back, and the program killed while it waits for it.
fn killed_with_a_request_on_its_way(scene: &Scene, job: &StubJob, question: Question) -> Held {
    let stub = Stub::new(Manner {
        question,
        hold: true,
        ..Manner::GOOD
    });
    let file = job.write(scene, CLIENT, &stub);
    let running = Program::new(scene).arg("run").arg(&file).start();
    until("the request is on its way", || stub.held() == 1);
    let since = Instant::now();
    assert_eq!(running.kill().signal(), Some(9));
    stub.behave(|manner| manner.hold = false);
    assert_eq!(stub.effects().len(), 0);
    Held { stub, file, since }
}

struct Held {
    stub: Stub,
    file: std::path::PathBuf,
    since: Instant,
}

impl Held {
    /// Lets the request through once it is so old.
    fn let_through_after(&self, age: Duration) {
        std::thread::sleep(age.saturating_sub(self.since.elapsed()));
        self.stub.let_through();
    }
}

/// The reconciler voids the slot, the engine runs attempt 2, and then attempt 1 arrives.
fn claimed_then_let_through(age: Duration) {
    let scene = Scene::new("late-claimed", format!("held back for {age:?}"));
    let held = killed_with_a_request_on_its_way(&scene, &StubJob::default(), Question::Claim);
    let done = Program::new(&scene)
        .arg("run")
        .arg(&held.file)
        .run()
        .expect(0)
        .json();
    assert_eq!(done["actions"]["done"], 1);
    let effects = held.stub.effects();
    assert_eq!(effects.len(), 1);
    assert_eq!(effects[0].attempt, 2, "attempt 1 is still on its way");
    assert!(!held.stub.requests_of("ask").is_empty());

    held.let_through_after(age);
    assert_eq!(
        held.stub.effects(),
        effects,
        "one effect, whatever arrives late"
    );
    let keys = held.stub.requests_of("call");
    assert_eq!(keys.len(), 2);
    assert_eq!(keys[0].key, keys[1].key);
    let again = Program::new(&scene)
        .arg("run")
        .arg(&held.file)
        .run()
        .expect(0)
        .json();
    assert_eq!(again["actions"]["replayed"], 1);
    assert_eq!(held.stub.effects(), effects);
}

#[test]
fn fault_d1_p3_a_request_held_back_for_4_s_has_one_effect() {
    claimed_then_let_through(Duration::from_secs(4));
}

#[test]
fn fault_d1_p3_a_request_held_back_for_45_s_has_one_effect() {
    claimed_then_let_through(Duration::from_secs(45));
}

/// The other order: the request arrives before the question, which then finds it.
#[test]
fn fault_d1_p2_a_request_that_arrives_before_the_question_is_found() {
    let scene = Scene::new("late-first", "");
    let held = killed_with_a_request_on_its_way(&scene, &StubJob::default(), Question::Claim);
    held.stub.let_through();
    assert_eq!(held.stub.effects().len(), 1);
    let done = Program::new(&scene)
        .arg("run")
        .arg(&held.file)
        .run()
        .expect(0)
        .json();
    assert_eq!(done["actions"]["reconciled"], 1);
    assert_eq!(held.stub.requests_of("call").len(), 1);
    assert_eq!(held.stub.effects().len(), 1);
}

/// A reconciler that only looked must not re-arm, whether it says that it saw nothing or claims,
/// without a closure, that there will be nothing.
#[test]
fn fault_d1_p3_an_answer_without_closure_parks_and_the_late_request_is_the_one_effect() {
    for question in [Question::Look, Question::Careless] {
        let scene = Scene::new("late-looked", format!("{question:?}"));
        let job = StubJob {
            closure: None,
            tool: "asks = { attempts = 2, first = \"100ms\", max = \"100ms\" }",
            ..StubJob::default()
        };
        let held = killed_with_a_request_on_its_way(&scene, &job, question);
        let waiting = Program::new(&scene)
            .arg("run")
            .arg(&held.file)
            .run()
            .expect(3)
            .json();
        assert_eq!(waiting["actions"]["parked"], 1, "{question:?}");
        assert_eq!(held.stub.requests_of("ask").len(), 2, "{question:?}");
        held.stub.let_through();
        assert_eq!(held.stub.effects().len(), 1, "{question:?}");
        assert_eq!(held.stub.requests_of("call").len(), 1, "{question:?}");

        // A person finds it at the target and says so.
        let pending = Program::new(&scene).arg("pending").run().expect(0).json();
        let intent = pending["items"][0]["intent"].as_str().unwrap().to_owned();
        let found = held.stub.effects()[0].output.to_string();
        let _ = Program::new(&scene)
            .args(["resolve", &intent, "--executed", "--output", &found])
            .args(["--reason", "found at the target"])
            .run()
            .expect(0);
        let done = Program::new(&scene)
            .arg("run")
            .arg(&held.file)
            .run()
            .expect(0)
            .json();
        assert_eq!(done["actions"]["done"], 1, "{question:?}");
        assert_eq!(held.stub.effects().len(), 1, "{question:?}");
    }
}
