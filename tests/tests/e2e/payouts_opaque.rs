//! The payouts job with a tool about which nothing is known: what was cut waits for a person.

use std::collections::BTreeSet;

use intendant_tests::campaign;
use intendant_tests::moments::Moments;
use intendant_tests::payouts::{Payouts, Variation};
use intendant_tests::program::Program;
use intendant_tests::scene::Scene;

#[test]
fn p2_p3_p9_opaque_payouts_park_and_none_is_doubled_until_a_person_resolves_each() {
    let mut moments = Moments::new(0x5eed_0002);
    let scene = Scene::new(
        "payouts-opaque",
        format!("INTENDANT_SEED={}", moments.seed()),
    );
    let payouts = Payouts::new(
        &scene,
        &Variation {
            opaque: true,
            concurrency: 2,
            before: "0.005".into(),
            after: "0.005".into(),
            ..Variation::default()
        },
    );
    let run = || Program::new(&scene).arg("run").arg(payouts.job());

    let landed = campaign::kill(&scene, &payouts, &mut moments, 50);
    let waiting = run().run().expect(3).json();
    assert_eq!(waiting["state"], "waiting");
    payouts.ledger().assert_none_doubled(payouts.asked());
    let marks = payouts.marks();
    let cut: BTreeSet<String> = marks.begun.difference(&marks.ended).cloned().collect();
    assert!(
        cut.len() >= 30 && landed.before_effect >= 10 && landed.after_effect >= 10,
        "{landed:?}"
    );
    assert!(landed.between >= 5, "{landed:?}");
    assert_eq!(marks.again.len(), 0, "{:?}", marks.again);

    // Each attempt that was cut is named. (So are those whose tool ended and was not heard.)
    let pending = Program::new(&scene).arg("pending").run().expect(0).json();
    assert_eq!(pending["schema"], 1);
    assert_eq!(pending["engine"], "stopped");
    let items = pending["items"].as_array().unwrap();
    assert_eq!(waiting["actions"]["parked"], items.len());
    let mut named = BTreeSet::new();
    for item in items {
        assert_eq!(item["state"], "parked", "{item}");
        assert_eq!(
            (&item["run"], &item["tool"]),
            (&"payouts".into(), &"pay".into())
        );
        assert_eq!(item["attempt"], 1);
        assert!(!item["why"].as_str().unwrap().is_empty(), "{item}");
        named.insert(format!("{}.1", item["idempotency_key"].as_str().unwrap()));
    }
    assert_eq!(named.len(), items.len());
    assert!(named.is_superset(&cut), "{:?}", cut.difference(&named));

    // A person looks into the ledger and settles each.
    let ledger = payouts.ledger();
    let mut paid = 0;
    for item in items {
        let (intent, key) = (
            item["intent"].as_str().unwrap(),
            item["idempotency_key"].as_str(),
        );
        let key = key.unwrap();
        let resolve =
            Program::new(&scene).args(["resolve", intent, "--reason", "seen in the ledger"]);
        let resolved = if ledger.has_paid(key, 1) {
            paid += 1;
            let output = format!(r#"{{"receipt":"{key}-1"}}"#);
            resolve.arg("--executed").arg("--output").arg(output).run()
        } else {
            resolve.arg("--never-ran").run()
        };
        let _ = resolved.expect(0);
    }
    assert!(
        paid >= 10 && items.len() - paid >= 10,
        "{paid} of {}",
        items.len()
    );

    let done = run().run().expect(0).json();
    assert_eq!(done["state"], "completed");
    payouts.ledger().assert_exact(payouts.asked());
    let pending = Program::new(&scene).arg("pending").run().expect(0).json();
    assert_eq!(pending["items"].as_array().map(Vec::len), Some(0));
}
