//! One sync of the log fails while several items run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use intendant_journal::format::entry::{Body, Sequence};
use intendant_journal::format::mark;
use intendant_journal::scan;
use intendant_tests::moments::Moments;
use intendant_tests::program::Program;
use intendant_tests::scene::Scene;
use intendant_tests::stub::{Manner, Stub};
use intendant_tests::stub_job::StubJob;

use crate::CLIENT;

/// The last sequence that a sync was known to have covered, by the mark; and every intent in the
/// log, durable or not, by key and attempt.
fn durable_and_intents(scene: &Scene) -> (Sequence, BTreeMap<(String, u32), Sequence>) {
    let mut intents = BTreeMap::new();
    let report = scan::scan(scene.data(), |recorded| {
        if let Body::Action(action) = &recorded.entry.body
            && let Some(intent) = &action.intent
        {
            let name = (intent.key.to_string(), action.attempt.attempt);
            intents.insert(name, recorded.sequence);
        }
    })
    .unwrap();
    let bytes = fs::read(scene.path("data/mark")).unwrap();
    let slots = bytes.chunks_exact(mark::SLOT_BYTES);
    let durable = slots.filter_map(|slot| mark::read_slot(slot.try_into().unwrap(), report.id));
    (durable.max().unwrap(), intents)
}

/// What is open says so, and that the storage failed.
fn assert_told(scene: &Scene) {
    let pending = Program::new(scene).arg("pending").run().expect(0).json();
    assert_eq!(pending["engine"], "stopped");
    let alarms = pending["alarms"].as_array();
    assert!(alarms.is_some_and(|alarms| !alarms.is_empty()), "{pending}");
}

#[test]
fn trial_b10_a_failed_sync_at_the_very_start_is_told_and_a_restart_finishes() {
    for good_syncs in 0..4 {
        let scene = Scene::new("failing-first-syncs", format!("{good_syncs} good syncs"));
        let stub = Stub::new(Manner::GOOD);
        let job = StubJob {
            rows: 3,
            ..StubJob::default()
        };
        let file = job.write(&scene, CLIENT, &stub);
        let run = || Program::new(&scene).arg("run").arg(&file);
        let failing = format!("disk::group_sync::before={good_syncs}*off->1*return(eio)");
        let failed = run().fail_points(&failing).run().expect(6).json();
        assert!(failed["error"]["remedy"].is_string(), "{failed}");
        assert_told(&scene);
        let done = run().run().expect(0).json();
        assert_eq!(done["actions"]["done"], 3, "{done}");
        assert_eq!(stub.effects().len(), 3);
        let pending = Program::new(&scene).arg("pending").run().expect(0).json();
        assert!(pending.get("alarms").is_none(), "{pending}");
    }
}

#[test]
fn trial_b10_fault_a5_p1_p6_after_a_failed_sync_no_effect_starts_and_a_restart_finishes() {
    let mut moments = Moments::new(0x5eed_0010);
    let rows = 40;
    let mut in_the_failed_group = 0;
    for round in 0..5 {
        let good_syncs = moments.within(4, 18);
        let repeat = format!("INTENDANT_SEED={} round {round}", moments.seed());
        let scene = Scene::new("failing-sync", repeat);
        let stub = Stub::new(Manner::GOOD);
        let job = StubJob {
            rows,
            ..StubJob::default()
        };
        let file = job.write(&scene, CLIENT, &stub);
        let run = || Program::new(&scene).arg("run").arg(&file);
        let failing = format!("disk::group_sync::before={good_syncs}*off->1*return(eio)");
        let failed = run().fail_points(&failing).run().expect(6);
        let error = &failed.json()["error"];
        assert!(!error["remedy"].as_str().unwrap().is_empty(), "{error}");

        // The failed sync would have made these durable; nothing of them may have been sent.
        let (durable, intents) = durable_and_intents(&scene);
        in_the_failed_group += intents.values().filter(|intent| **intent > durable).count();
        let calls = stub.requests_of("call");
        assert!(
            !calls.is_empty() && calls.len() < rows as usize,
            "the moment is no moment"
        );
        for call in &calls {
            let intent = intents.get(&(call.key.clone(), call.attempt));
            let intent = intent.unwrap_or_else(|| panic!("sent without an intent: {call:?}"));
            assert!(
                *intent <= durable,
                "sent on the strength of a failed sync: {call:?}"
            );
        }

        // Health is red: whoever looks is told why the engine stopped.
        let pending = || Program::new(&scene).arg("pending").run().expect(0).json();
        let red = pending();
        assert_eq!(red["engine"], "stopped");
        let alarm = red["alarms"][0].as_str().unwrap_or_else(|| panic!("{red}"));
        assert!(alarm.contains("sync"), "{alarm}");

        let done = run().run().expect(0).json();
        assert_eq!(done["state"], "completed");
        assert_eq!(
            pending().get("alarms"),
            None,
            "what failed before did not fail now"
        );
        let effects = stub.effects();
        let keys: BTreeSet<_> = effects.iter().map(|e| &e.body).collect();
        assert_eq!((effects.len(), keys.len()), (rows as usize, rows as usize));
    }
    assert!(
        in_the_failed_group > 0,
        "no intent was ever in a failed group"
    );
}
