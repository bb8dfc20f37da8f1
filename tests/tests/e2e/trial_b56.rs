//! Trial B56: a timeout is taken for a failure.

use intendant_tests::program::{Program, until};
use intendant_tests::scene::Scene;
use intendant_tests::stub::{Arbitration, Manner, Question, Reply, Stub};
use intendant_tests::stub_job::StubJob;

use crate::CLIENT;

const PATIENCE: &str = "timeout = \"1s\"\nretry = 5\nasks = { attempts = 5, first = \"50ms\", max = \
                        \"200ms\" }";

#[test]
fn trial_b56_p3_what_timed_out_is_looked_up_and_found() {
    let scene = Scene::new("b56", "");
    // Creates one resource for each call, and never answers.
    let stub = Stub::new(Manner {
        arbitration: Arbitration::None,
        reply: Reply::Never,
        question: Question::Look,
        hold: false,
    });
    let job = StubJob {
        closure: None,
        tool: PATIENCE,
        ..StubJob::default()
    };
    let file = job.write(&scene, CLIENT, &stub);
    let done = Program::new(&scene)
        .arg("run")
        .arg(&file)
        .run()
        .expect(0)
        .json();
    assert_eq!(done["actions"]["reconciled"], 1);
    assert_eq!(stub.effects().len(), 1);
    assert_eq!(stub.requests_of("call").len(), 1);
    let show = Program::new(&scene)
        .args(["show", StubJob::RUN])
        .run()
        .expect(0)
        .json();
    let action = &show["actions_list"][0];
    assert_eq!(action["output"]["id"], "effect-1");
    let history = action["history"].to_string();
    assert!(
        history.contains("executed"),
        "the history says found: {history}"
    );
}

/// Calls that time out without an effect: each later attempt comes after a question about the one
/// before, also across a restart, and what is let through at last changes nothing.
#[test]
fn trial_b56_each_later_attempt_is_preceded_by_a_question() {
    let scene = Scene::new("b56-claims", "");
    let stub = Stub::new(Manner {
        hold: true,
        ..Manner::GOOD
    });
    let job = StubJob {
        tool: PATIENCE,
        ..StubJob::default()
    };
    let file = job.write(&scene, CLIENT, &stub);
    let running = Program::new(&scene).arg("run").arg(&file).start();
    until("attempt 2 is on its way", || {
        stub.requests_of("call").len() == 2
    });
    assert_eq!(running.kill().signal(), Some(9));
    let running = Program::new(&scene).arg("run").arg(&file).start();
    until("attempt 3 is on its way", || {
        stub.requests_of("call").len() == 3
    });
    stub.behave(|manner| {
        manner.hold = false;
        manner.reply = Reply::Never;
    });
    let done = running.wait().expect(0).json();
    assert_eq!(done["actions"]["reconciled"], 1);
    stub.let_through();

    assert_eq!(stub.effects().len(), 1);
    assert_eq!(stub.effects()[0].attempt, 4);
    let requests = stub.requests();
    assert!(
        requests
            .iter()
            .all(|request| request.key == requests[0].key)
    );
    let mut next = 1;
    let mut asked = true;
    for request in &requests {
        match request.op.as_str() {
            "call" => {
                assert!(asked, "attempt {} was sent unasked", request.attempt);
                assert_eq!(request.attempt, next, "the count of attempts goes on");
                (next, asked) = (next + 1, false);
            }
            _ => {
                assert_eq!(request.attempt, next - 1);
                asked = true;
            }
        }
    }
    assert_eq!(next, 5);
}
