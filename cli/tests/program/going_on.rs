//! The same command again: new rows, a changed job, a raised version, a retry.

use crate::world::{OPAQUE, PAY, RECONCILABLE, World};

#[test]
fn a_job_that_ended_takes_new_rows_and_skips_known_ones() {
    let world = World::new(RECONCILABLE, &[("a", 1)]);
    world.run().ends(0);
    world.rows(&[("b", 2), ("a", 1)]);
    let done = world.run().ends(0).json();
    assert_eq!(done["actions"]["done"], 2);
    assert_eq!(done["actions"]["replayed"], 1);
    assert_eq!((world.calls("a"), world.calls("b")), ((1, 1), (1, 1)));
    // A known key with other arguments names its row.
    world.rows(&[("b", 2), ("a", 7)]);
    let error = &world.run().ends(7).json()["error"];
    let message = error["message"].as_str().unwrap();
    assert_eq!(error["code"], "row_conflict");
    assert!(
        message.contains("rows.csv:3") && message.contains("\"a\""),
        "{message}"
    );
}

#[test]
fn rows_added_while_a_run_is_open_are_done_by_the_same_command() {
    let world = World::new(RECONCILABLE, &[("a", 1)]);
    world.hold("a");
    let running = world.start();
    world.wait_called("a");
    running.kill();
    world.let_go("a");
    world.rows(&[("a", 1), ("b", 2)]);
    let done = world.run().ends(0).json();
    assert_eq!(done["actions"]["done"], 2);
    let runs = world.json(&["runs"]).ends(0).json();
    assert_eq!(runs["runs"][0]["pass"], 2);
}

#[test]
fn a_job_that_changed_while_open_is_refused_until_its_version_is_raised() {
    let world = World::new(OPAQUE, &[("a", 1), ("b", 2)]);
    world.cut_at_a();
    let job = std::fs::read_to_string(world.path("job.toml")).unwrap();
    let changed = job.replace(
        "run = [\"./pay.sh\"]",
        "run = [\"./pay.sh\"]\ntimeout = \"7s\"",
    );
    world.write("job.toml", &changed);
    let error = &world.run().ends(7).json()["error"];
    assert_eq!(error["code"], "job_changed");
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("tool.pay.timeout"),
        "{error}"
    );

    world.write("job.toml", &changed.replace("version = 1", "version = 2"));
    let parked = world.run().ends(3).json();
    assert_eq!(parked["actions"]["parked"], 1, "{parked}");
    assert_eq!(parked["actions"]["done"], 1, "{parked}");
    world
        .json(&[
            "resolve",
            "pay/pay/a#1",
            "--executed",
            "--output",
            "{\"receipt\":\"x\"}",
            "--reason",
            "seen",
        ])
        .ends(0);
    world.run().ends(0);
    world.write("job.toml", &changed);
    assert_eq!(
        world.run().ends(7).json()["error"]["code"],
        "version_lowered"
    );
}

#[test]
fn what_was_begun_keeps_its_arguments_when_a_raised_version_changes_them() {
    let world = World::new(RECONCILABLE, &[("a", 1)]);
    world.run().ends(0);
    let job = std::fs::read_to_string(world.path("job.toml")).unwrap();
    let changed = job
        .replace("version = 1", "version = 2")
        .replace("cents = \"{{ row.cents }}\"", "cents = 99");
    world.write("job.toml", &changed);
    world.rows(&[("a", 1), ("b", 2)]);
    let done = world.run().ends(0).json();
    assert_eq!(done["actions"]["done"], 2);
    assert_eq!(world.calls("a"), (1, 1));
    let cents = |id: &str| {
        let shown = world
            .json(&["show", &format!("pay/pay/{id}#1")])
            .ends(0)
            .json();
        shown["arguments"]["cents"].as_u64().unwrap()
    };
    assert_eq!((cents("a"), cents("b")), (1, 99));
}

#[test]
fn an_error_stops_new_items_and_a_retry_makes_a_new_action() {
    let world = World::new(
        "recovery = \"opaque\"\nexit_codes = { failed = [10] }",
        &[("a", 1), ("b", 2), ("c", 3)],
    );
    let job = std::fs::read_to_string(world.path("job.toml")).unwrap();
    world.write(
        "job.toml",
        &job.replace("concurrency = 2", "concurrency = 1"),
    );
    world.script(
        "pay.sh",
        &PAY.replace("while", "[ $id = b ] && [ ! -e mended ] && exit 10\nwhile"),
    );
    let ended = world.run().ends(1).json();
    assert_eq!(ended["actions"]["failed"], 1);
    assert_eq!(ended["actions"]["done"], 1);
    assert!(
        ended["why"].as_str().unwrap().contains("pay/b failed"),
        "{ended}"
    );
    assert_eq!(world.calls("c"), (0, 0));
    // Started again, it says so and does nothing.
    world.run().ends(1);
    assert_eq!(world.calls("b").0, 1);

    world.write("mended", "");
    let said = world
        .json(&["retry", "pay", "--item", "b", "--reason", "mended"])
        .ends(0)
        .json();
    assert!(
        said["message"].as_str().unwrap().contains("1 new action"),
        "{said}"
    );
    let done = world.run().ends(0).json();
    assert_eq!(done["actions"]["done"], 3);
    let called = std::fs::read_to_string(world.path("called.b")).unwrap();
    let keys: std::collections::HashSet<&str> = called.lines().collect();
    assert_eq!(keys.len(), 2, "a new action has a new key");
    world.json(&["show", "pay/pay/b~2#1"]).ends(0);
}

#[test]
fn on_error_continue_does_the_others_and_later_steps_read_outputs() {
    let world = World::new("", &[("a", 1), ("b", 2)]);
    world.write(
        "job.toml",
        r#"
[job]
name = "two"
[tool.pay]
input = { id = "string", cents = "integer" }
output = { receipt = "string" }
run = ["./pay.sh"]
exit_codes = { failed = [10] }
recovery = "opaque"
[tool.note]
input = { receipt = "string" }
run = ["./note.sh"]
recovery = "opaque"
[tool.sum]
input = { count = "integer" }
run = ["./sum.sh"]
recovery = "opaque"
[[step]]
name = "pay"
tool = "pay"
for_each = "rows.csv"
key = "{{ row.id }}"
args = { id = "{{ row.id }}", cents = "{{ row.cents }}" }
on_error = "continue"
[[step]]
name = "note"
tool = "note"
for_each = "rows.csv"
key = "{{ row.id }}"
args = { receipt = "{{ steps.pay.output.receipt }}" }
on_error = "continue"
[[step]]
name = "sum"
tool = "sum"
args = { count = "{{ steps.note.output | length }}" }
"#,
    );
    world.script("note.sh", "#!/bin/sh\ncat >> noted\n");
    world.script("sum.sh", "#!/bin/sh\ncat > summed\necho 7\n");
    world.script(
        "pay.sh",
        &PAY.replace("while", "[ $id = b ] && exit 10\nwhile"),
    );
    let ended = world.run().ends(1).json();
    assert_eq!(ended["run"], "two");
    assert_eq!(ended["actions"]["done"], 3, "{ended}");
    assert_eq!(ended["actions"]["failed"], 1, "{ended}");
    let noted = std::fs::read_to_string(world.path("noted")).unwrap();
    assert_eq!(noted.trim(), "{\"receipt\":\"r-a\"}");
    let summed = std::fs::read_to_string(world.path("summed")).unwrap();
    assert_eq!(summed.trim(), "{\"count\":1}");
}

#[test]
fn other_open_runs_are_left_alone_and_counted() {
    let world = World::new(OPAQUE, &[("a", 1)]);
    world.hold("a");
    let running = world.start();
    world.wait_called("a");
    running.kill();
    world.let_go("a");
    let other = world
        .json(&["run", "job.toml", "--run-id", "other"])
        .ends(0)
        .json();
    assert_eq!(other["other_open_runs"], 1);
    assert_eq!(world.state("pay/pay/a#1"), "in_doubt");
    world
        .json(&["signal", "pay", "hello", "--payload", "{\"x\":1}"])
        .ends(0);
    world.json(&["signal", "other", "hello"]).ends(2);
    let tail = world.json(&["tail", "pay"]).ends(0).json()["entries"].to_string();
    assert!(tail.contains("signal_received"), "{tail}");
}
