//! A job from its start to its end, and every reading command on its stopped journal.

use crate::world::{RECONCILABLE, World};

fn done() -> World {
    let world = World::new(RECONCILABLE, &[("a", 1), ("b", 2), ("c/d", 3)]);
    world.run().ends(0);
    world
}

#[test]
fn a_job_runs_once_and_says_so_the_second_time() {
    let world = World::new(RECONCILABLE, &[("a", 1), ("b", 2), ("c/d", 3)]);
    let first = world.run().ends(0).json();
    assert_eq!(first["run"], "pay");
    assert_eq!(first["state"], "completed");
    assert_eq!(first["actions"]["done"], 3);
    for none in [
        "replayed",
        "reconciled",
        "failed",
        "denied",
        "given_up",
        "in_doubt",
        "parked",
    ] {
        assert_eq!(first["actions"][none], 0, "{none}");
    }
    assert!(first["elapsed_s"].as_f64().unwrap() > 0.0);
    assert!(first["syncs"].as_u64().unwrap() >= 3);
    assert_eq!(first["epoch"], 1);

    let second = world.run().ends(0).json();
    assert_eq!(second["state"], "completed");
    assert_eq!(second["actions"]["replayed"], 3);
    assert_eq!(second["epoch"], 2);
    assert_eq!(world.calls("a"), (1, 1));

    let people = world.intendant(&["run", "job.toml"]).ends(0);
    assert!(
        people.out.contains("there was nothing to do"),
        "{}",
        people.out
    );
}

#[test]
fn another_run_id_is_another_run_with_other_keys() {
    let world = done();
    world
        .json(&["run", "job.toml", "--run-id", "pay-2"])
        .ends(0);
    let called = std::fs::read_to_string(world.path("called.a")).unwrap();
    let keys: std::collections::HashSet<&str> = called.lines().collect();
    assert_eq!(keys.len(), 2);
    let runs = world.json(&["runs"]).ends(0).json();
    let names: Vec<_> = runs["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| &run["run"])
        .collect();
    assert_eq!(names, ["pay", "pay-2"]);
    for bad in ["a/b", "", "a b"] {
        world.json(&["run", "job.toml", "--run-id", bad]).ends(2);
    }
}

#[test]
fn reading_commands_on_a_stopped_journal_change_nothing() {
    let world = done();
    let before = journal_bytes(&world);

    let pending = world.pending();
    assert_eq!(pending["schema"], 1);
    assert_eq!(pending["engine"], "stopped");
    assert!(pending["as_of_sequence"].as_u64().unwrap() >= 5);
    assert_eq!(pending["items"], serde_json::json!([]));
    let people = world.intendant(&["pending"]).ends(0).out;
    assert!(people.contains("nothing is pending"), "{people}");

    let runs = world.json(&["runs"]).ends(0).json();
    assert_eq!(runs["runs"][0]["state"], "completed");
    assert_eq!(runs["runs"][0]["actions"]["done"], 3);
    assert!(world.intendant(&["runs"]).ends(0).out.contains("completed"));

    let run = world.json(&["show", "pay"]).ends(0).json();
    assert_eq!(run["actions_list"].as_array().unwrap().len(), 3);
    assert!(
        world
            .intendant(&["show", "pay"])
            .ends(0)
            .out
            .contains("pay/pay/c%2Fd#1")
    );

    let action = world.json(&["show", "pay/pay/a#1"]).ends(0).json();
    assert_eq!(
        action["arguments"],
        serde_json::json!({"id": "a", "cents": 1})
    );
    assert_eq!(action["output"], serde_json::json!({"receipt": "r-a"}));
    assert_eq!(action["recovery"], "reconcilable");
    assert_eq!(action["closure"], "abort_claim");
    assert_eq!(action["history"][0]["what"], "intent");
    world.intendant(&["show", "pay/pay/a#1"]).ends(0);

    let explained = world.json(&["explain", "pay/pay/a#1"]).ends(0).json();
    assert_eq!(explained["state"], "succeeded");
    assert!(explained["explain"].as_str().unwrap().contains("replays"));

    let tail = world.json(&["tail", "pay"]).ends(0).json();
    assert_eq!(tail["entries"][0]["what"], "pass_started");
    let last = tail["entries"].as_array().unwrap().last().unwrap();
    assert_eq!(last["what"], "pass_ended");
    let all = world.intendant(&["tail"]).ends(0).out;
    assert!(all.lines().next().unwrap().contains("opened"), "{all}");
    assert!(
        world
            .intendant(&["tail", "--after", "100000"])
            .ends(0)
            .out
            .contains("no such entries")
    );

    let verified = world.json(&["verify"]).ends(0).json();
    assert_eq!(verified["valid"], true);
    assert_eq!(verified["last_sequence"], pending["as_of_sequence"]);
    assert_eq!(verified["chain_head"].as_str().unwrap().len(), 64);
    assert!(
        world
            .intendant(&["verify"])
            .ends(0)
            .out
            .starts_with("valid")
    );

    assert_eq!(journal_bytes(&world), before, "a reading command wrote");

    let doctor = world.json(&["doctor"]).ends(0).json();
    assert_eq!(doctor["healthy"], true);
    let looked: Vec<_> = doctor["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["what"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        looked,
        [
            "journal",
            "clock",
            "record",
            "owner",
            "space",
            "sync",
            "signing key",
            "guard"
        ]
    );
    assert_eq!(
        journal_bytes(&world),
        before,
        "doctor left something behind"
    );
}

/// All files of the journal's folder with their content.
fn journal_bytes(world: &World) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![world.data()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = std::fs::read(&path).unwrap();
                found.push((path, bytes));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_failed_storage_is_told_until_the_next_start() {
    let world = done();
    world.write(
        "data/last-failure",
        "at 2026-11-30T09:00:00Z the journal's storage failed: EIO\n",
    );
    let alarms = world.pending()["alarms"].to_string();
    assert!(alarms.contains("EIO"), "{alarms}");
    let people = world.intendant(&["pending"]).ends(0).out;
    assert!(people.starts_with("ALARM: "), "{people}");
    let doctor = world.json(&["doctor"]).ends(0).json().to_string();
    assert!(doctor.contains("EIO"), "{doctor}");
    world.run().ends(0);
    assert!(world.pending().get("alarms").is_none());
}

#[test]
fn what_is_not_there_is_not_found() {
    let world = done();
    for args in [
        vec!["show", "nope"],
        vec!["tail", "nope"],
        vec!["tail", "nope", "--follow"],
        vec!["show", "pay/pay/zz#1"],
        vec!["show", "pay/pay/a#2"],
        vec!["explain", "pay/pay/a#0"],
        vec!["approve", "pay/pay/zz#1"],
        vec!["approve", "nonsense"],
        vec!["cancel", "nope"],
        vec!["reconcile", "pay/pay/zz#1"],
        vec!["retry", "pay"],
    ] {
        let ran = world.json(&args).ends(2);
        let error = &ran.json()["error"];
        assert!(!error["code"].as_str().unwrap().is_empty());
        assert!(
            !error["remedy"].as_str().unwrap().is_empty(),
            "{args:?}: {error}"
        );
    }
}

#[test]
fn bad_usage_is_exit_code_2() {
    let world = World::new("", &[]);
    for args in [
        vec!["fly"],
        vec!["run"],
        vec!["resolve", "a/b#1", "--reason", "x"],
        vec!["resolve", "a/b#1", "--executed", "--reason", "x"],
        vec!["resolve", "a/b#1", "--never-ran"],
        vec![
            "resolve",
            "a/b#1",
            "--never-ran",
            "--give-up",
            "--reason",
            "x",
        ],
        vec!["deny", "a/b#1"],
        vec!["run", "job.toml", "--segment-bytes", "1000"],
    ] {
        let error = &world.json(&args).ends(2).json()["error"];
        assert_eq!(error["code"], "usage", "{args:?}");
        world.intendant(&args).ends(2);
    }
    assert!(!world.data().exists(), "nothing was started");
    world.intendant(&["--help"]).ends(0);
    world.intendant(&["--version"]).ends(0);
}
