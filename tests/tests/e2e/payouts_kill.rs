//! The payouts job, killed at 50 moments spread over its run: every payout once.

use intendant_tests::campaign;
use intendant_tests::moments::Moments;
use intendant_tests::payouts::{Payouts, Variation};
use intendant_tests::program::Program;
use intendant_tests::scene::Scene;

#[test]
fn p1_p2_p3_p4_p8_payouts_survive_fifty_kills_each_paid_once() {
    let mut moments = Moments::new(0x5eed_0001);
    let scene = Scene::new("payouts-kill", format!("INTENDANT_SEED={}", moments.seed()));
    let payouts = Payouts::new(
        &scene,
        &Variation {
            before: "0.01".into(),
            after: "0.01".into(),
            ..Variation::default()
        },
    );
    let run = || Program::new(&scene).arg("run").arg(payouts.job());

    let landed = campaign::kill(&scene, &payouts, &mut moments, 50);
    let last = run().run().expect(0).json();
    payouts.ledger().assert_exact(payouts.asked());
    assert_eq!(last["state"], "completed");
    assert_eq!(last["actions"]["done"], 500);

    // The campaign was one: kills landed everywhere, and the reconciler had something to say.
    let marks = payouts.marks();
    assert_eq!(landed.kills, 50);
    assert!(landed.between >= 5, "{landed:?}");
    assert!(landed.before_effect >= 20, "{landed:?}");
    assert!(landed.after_effect >= 20, "{landed:?}");
    assert!(landed.before_tool >= 1, "{landed:?}");
    assert!(payouts.ledger().voids() >= 10);
    assert!(last["actions"]["reconciled"].as_u64() >= Some(20), "{last}");
    // No attempt was ever executed twice.
    assert_eq!(marks.again.len(), 0, "{:?}", marks.again);

    // Once more: done, and nothing happens.
    let before = (payouts.ledger(), payouts.marks());
    let again = run().run().expect(0).json();
    assert_eq!(again["state"], "completed");
    assert_eq!(again["actions"]["replayed"], 500);
    assert_eq!((payouts.ledger(), payouts.marks()), before);
    // The log that all this left behind is whole.
    let _ = Program::new(&scene).arg("verify").run().expect(0);
}
