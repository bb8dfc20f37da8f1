//! Trial B55: the same key with a different body.

use intendant_tests::program::{Program, until};
use intendant_tests::scene::Scene;
use intendant_tests::stub::{Arbitration, Manner, Reply, Stub};
use intendant_tests::stub_job::StubJob;

use crate::CLIENT;

#[test]
fn trial_b55_p4_a_send_after_a_restart_carries_the_recorded_bytes() {
    let scene = Scene::new("b55", "");
    let stub = Stub::new(Manner {
        arbitration: Arbitration::Key,
        reply: Reply::Never,
        ..Manner::GOOD
    });
    let job = StubJob {
        env: &["ORDER_TIME", "ORDER_NOISE"],
        rows: 3,
        concurrency: 2,
        ..StubJob::idempotent()
    };
    let file = job.write(&scene, CLIENT, &stub);
    // Each start has another time and another random value, as a shell line around it gives them.
    let start = |time: &str, noise: &str| {
        Program::new(&scene)
            .env("ORDER_TIME", time)
            .env("ORDER_NOISE", noise)
            .arg("run")
            .arg(&file)
    };
    let first = start("2026-11-30T09:00:00Z", "aaaa").start();
    until("two effects happened", || stub.effects().len() == 2);
    assert_eq!(first.kill().signal(), Some(9));
    let second = start("2026-11-30T09:05:00Z", "bbbb").start();
    until("both were sent again", || {
        stub.requests_of("call").len() == 4
    });
    assert_eq!(second.kill().signal(), Some(9));

    stub.behave(|manner| manner.reply = Reply::Send);
    let done = start("2026-11-30T09:10:00Z", "cccc").run().expect(0).json();
    assert_eq!(done["actions"]["done"], 3);
    assert_eq!(stub.refused(), 0, "one key came with two bodies");
    assert_eq!(stub.effects().len(), 3);
    for call in stub.requests_of("call") {
        // The row that came last too: what a run may read is fixed at its first start.
        assert!(call.body.contains("09:00:00Z"), "{}", call.body);
        assert!(call.body.contains("aaaa"), "{}", call.body);
    }
    assert_eq!(stub.requests_of("call").len(), 7);
}
