//! Trial B17: an idempotency key exists but nobody uses it.

use std::collections::BTreeSet;

use intendant_tests::program::{Program, until};
use intendant_tests::scene::Scene;
use intendant_tests::stub::{Arbitration, Manner, Reply, Stub};
use intendant_tests::stub_job::StubJob;

use crate::CLIENT;

const ROWS: u32 = 3;

/// Kills the program when all rows' effects have happened and none is recorded.
fn killed_between_effect_and_record(scene: &Scene, job: StubJob) -> (Stub, std::path::PathBuf) {
    let stub = Stub::new(Manner {
        arbitration: Arbitration::Key,
        reply: Reply::Never,
        ..Manner::GOOD
    });
    let job = StubJob { rows: ROWS, ..job };
    let file = job.write(scene, CLIENT, &stub);
    let running = Program::new(scene).arg("run").arg(&file).start();
    until("all effects happened", || {
        stub.effects().len() == ROWS as usize
    });
    assert_eq!(running.kill().signal(), Some(9));
    stub.behave(|manner| manner.reply = Reply::Send);
    (stub, file)
}

#[test]
fn trial_b17_p4_both_sends_carry_the_byte_same_key_and_the_target_removes_the_double() {
    let scene = Scene::new("b17-key", "");
    let (stub, file) = killed_between_effect_and_record(&scene, StubJob::idempotent());
    let done = Program::new(&scene)
        .arg("run")
        .arg(&file)
        .run()
        .expect(0)
        .json();
    assert_eq!(done["actions"]["done"], ROWS);
    assert_eq!(stub.effects().len(), ROWS as usize);
    let calls = stub.requests_of("call");
    let sends = |attempt| -> BTreeSet<(String, String)> {
        let of = calls.iter().filter(|call| call.attempt == attempt);
        of.map(|call| (call.key.clone(), call.body.clone()))
            .collect()
    };
    assert_eq!(calls.len(), 2 * ROWS as usize);
    assert_eq!(sends(1).len(), ROWS as usize, "one key a row");
    assert_eq!(
        sends(1),
        sends(2),
        "both sends carry the same key and bytes"
    );
    assert_eq!(stub.requests_of("ask").len(), 0);
}

#[test]
fn trial_b17_without_key_support_nothing_is_sent_again() {
    let scene = Scene::new("b17-opaque", "");
    let (stub, file) = killed_between_effect_and_record(&scene, StubJob::opaque());
    for _ in 0..2 {
        let waiting = Program::new(&scene)
            .arg("run")
            .arg(&file)
            .run()
            .expect(3)
            .json();
        assert_eq!(waiting["actions"]["parked"], ROWS);
        assert_eq!(stub.requests_of("call").len(), ROWS as usize);
    }
}
