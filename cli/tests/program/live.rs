//! Commands while the engine runs: they reach it through its socket.

use rustix::process::Signal;

use crate::world::{RECONCILABLE, World, wait};

#[test]
fn reading_commands_see_what_runs() {
    let world = World::new(RECONCILABLE, &[("a", 1), ("b", 2)]);
    world.hold("a");
    let running = world.start();
    world.wait_called("a");
    wait("b has ended", || world.calls("b").1 == 1);

    let pending = world.pending();
    assert_eq!(pending["engine"], "live");
    let item = &pending["items"][0];
    assert_eq!(item["intent"], "pay/pay/a#1");
    assert_eq!(item["run"], "pay");
    assert_eq!(item["action"], "pay/pay/a");
    assert_eq!(item["attempt"], 1);
    assert_eq!(item["tool"], "pay");
    assert_eq!(item["item_key"], "a");
    assert_eq!(item["state"], "running");
    assert_eq!(item["idempotency_key"].as_str().unwrap().len(), 32);
    assert!(item["since"].as_str().unwrap().ends_with('Z'));
    assert!(!item["why"].as_str().unwrap().is_empty());
    assert!(!item["next"]["what"].as_str().unwrap().is_empty());
    assert!(item["next"]["at"].is_null());
    assert!(
        world
            .intendant(&["pending"])
            .ends(0)
            .out
            .contains("pay/pay/a#1")
    );

    let runs = world.json(&["runs"]).ends(0).json();
    assert_eq!(runs["runs"][0]["state"], "running");
    let explained = world.json(&["explain", "pay/pay/a#1"]).ends(0).json();
    let words = explained["explain"].as_str().unwrap();
    assert!(words.contains("its reconciler is asked"), "{words}");
    let shown = world.json(&["show", "pay"]).ends(0).json();
    assert_eq!(shown["actions_list"].as_array().unwrap().len(), 2);
    let tail = world.json(&["tail", "pay"]).ends(0).json();
    assert!(tail["entries"].as_array().unwrap().len() >= 3);
    world.json(&["verify"]).ends(0);
    let doctor = world.json(&["doctor"]).ends(0).json();
    let owner = doctor["findings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|finding| finding["what"] == "owner")
        .unwrap();
    assert!(
        owner["found"].as_str().unwrap().contains("answers"),
        "{owner}"
    );

    // An attempt that runs is not in doubt: nobody can settle or ask about it.
    let refused = world
        .json(&["resolve", "pay/pay/a#1", "--never-ran", "--reason", "x"])
        .ends(2);
    assert_eq!(refused.json()["error"]["code"], "not_in_doubt");
    let refused = world.json(&["reconcile", "pay/pay/a#1"]).ends(2);
    assert_eq!(refused.json()["error"]["code"], "not_in_doubt");

    let second = world.run().ends(5);
    let message = second.json()["error"]["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(message.contains(&running.pid().to_string()), "{message}");

    world.let_go("a");
    assert_eq!(running.ends().ends(0).json()["actions"]["done"], 2);
    assert!(
        !world.data().join("engine.sock").exists(),
        "the socket is gone with its engine"
    );
}

#[test]
fn the_socket_is_for_its_owner_alone_and_a_stale_one_is_replaced() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new(RECONCILABLE, &[("a", 1)]);
    world.hold("a");
    let socket = world.data().join("engine.sock");
    let running = world.start();
    world.wait_called("a");
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    running.kill();
    assert!(socket.exists(), "left behind by the kill");
    // The stale socket is no live engine.
    assert_eq!(world.pending()["engine"], "stopped");
    world.let_go("a");
    world.run().ends(0);
}

#[test]
fn where_the_path_is_too_long_the_socket_is_in_the_runtime_folder() {
    let world = World::new(RECONCILABLE, &[("a", 1)]);
    world.hold("a");
    let long = world.path(&"x".repeat(120));
    let data = long.to_str().unwrap();
    let running = world
        .command(&[
            "--data",
            data,
            "run",
            "job.toml",
            "--segment-bytes",
            "65536",
        ])
        .spawn();
    let mut running = running.unwrap();
    world.wait_called("a");
    let pending = world.json(&["--data", data, "pending"]).ends(0).json();
    assert_eq!(pending["engine"], "live");
    let sockets = std::fs::read_dir(world.path("runtime")).unwrap().count();
    assert_eq!(sockets, 1);
    world.let_go("a");
    assert!(running.wait().unwrap().success());
    assert_eq!(std::fs::read_dir(world.path("runtime")).unwrap().count(), 0);
}

#[test]
fn a_stop_signal_starts_nothing_new_and_lets_what_runs_end() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let world = World::new(RECONCILABLE, &[("a", 1), ("b", 2), ("c", 3)]);
        for id in ["a", "b", "c"] {
            world.hold(id);
        }
        let mut running = world.start();
        world.wait_called("a");
        world.wait_called("b");
        running.signal(signal);
        running.wait_says("stopping");
        world.let_go("a");
        world.let_go("b");
        let stopped = running.ends().ends(code);
        let json = stopped.json();
        assert_eq!(json["state"], "waiting", "{json}");
        assert_eq!(world.calls("a").1, 1);
        world.let_go("c");
        let done = world.run().ends(0).json();
        assert_eq!(done["actions"]["done"], 3);
        assert_eq!(world.calls("a"), (1, 1));
    }
}

#[test]
fn a_second_signal_stops_at_once_and_leaves_the_action_in_doubt() {
    let world = World::new(RECONCILABLE, &[("a", 1)]);
    world.hold("a");
    let mut running = world.start();
    world.wait_called("a");
    running.signal(Signal::TERM);
    running.wait_says("stopping");
    running.signal(Signal::TERM);
    let stopped = running.ends().ends(143).json();
    assert_eq!(stopped["error"]["code"], "stopped", "{stopped}");
    assert!(!stopped["error"]["remedy"].as_str().unwrap().is_empty());
    assert_eq!(world.state("pay/pay/a#1"), "in_doubt");
    // The reconciler says that it never happened, so it is done anew under the same key.
    world.let_go("a");
    world.run().ends(0);
    let called = std::fs::read_to_string(world.path("called.a")).unwrap();
    let keys: std::collections::HashSet<_> = called
        .lines()
        .map(|line| line.split(' ').next_back())
        .collect();
    assert_eq!((called.lines().count(), keys.len()), (2, 1));
    assert_eq!(world.calls("a").1, 1);
}

#[test]
fn a_live_run_is_cancelled_through_its_socket() {
    let world = World::new(RECONCILABLE, &[("a", 1), ("b", 2), ("c", 3)]);
    for id in ["a", "b", "c"] {
        world.hold(id);
    }
    let running = world.start();
    world.wait_called("a");
    world.wait_called("b");
    let done = world
        .json(&["cancel", "pay", "--reason", "wrong file"])
        .ends(0)
        .json();
    assert!(done["message"].as_str().unwrap().contains("asked to end"));
    world.let_go("a");
    world.let_go("b");
    let ended = running.ends().ends(1).json();
    assert_eq!(ended["state"], "failed");
    assert!(ended["why"].as_str().unwrap().contains("wrong file"));
    assert_eq!(world.calls("c"), (0, 0));
    let runs = world.json(&["runs"]).ends(0).json();
    assert_eq!(runs["runs"][0]["state"], "cancelled");
}

#[test]
fn tail_follows_a_live_engine() {
    let world = World::new(RECONCILABLE, &[("a", 1)]);
    world.hold("a");
    let running = world.start();
    world.wait_called("a");
    let mut tail = world
        .command(&["tail", "pay", "--follow", "--json"])
        .spawn()
        .unwrap();
    let out = tail.stdout.take().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(out));
    let mut next = move || -> serde_json::Value {
        serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap()
    };
    assert_eq!(next()["what"], "pass_started");
    assert_eq!(next()["what"], "intent");
    world.let_go("a");
    assert_eq!(next()["what"], "outcome");
    assert_eq!(next()["what"], "pass_ended");
    tail.kill().unwrap();
    tail.wait().unwrap();
    running.ends().ends(0);
}
