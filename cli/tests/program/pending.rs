//! What `pending` and `show` say of an action, state by state.

use crate::world::{RECONCILABLE, World, wait};

/// The one item of this state, once it is there.
fn item(world: &World, state: &str) -> serde_json::Value {
    let mut found = None;
    wait(&format!("something is {state}"), || {
        let ran = world.json(&["pending"]);
        if ran.code != 0 {
            return false;
        }
        let pending = ran.json();
        let items = pending["items"].as_array().unwrap();
        found = items.iter().find(|item| item["state"] == state).cloned();
        found.is_some()
    });
    found.unwrap()
}

/// The key that the tool was given.
fn key_given(world: &World, id: &str) -> String {
    let called = std::fs::read_to_string(world.path(&format!("called.{id}"))).unwrap();
    called.split_whitespace().nth(1).unwrap().to_owned()
}

#[test]
fn an_action_that_awaits_approval_is_told_by_its_row_and_its_coming_key() {
    let tool = "recovery = \"opaque\"\napproval = \"always\"";
    let world = World::new(tool, &[("c d", 1)]);
    world.run().ends(3);
    let item = item(&world, "awaiting_approval");
    assert_eq!(item["intent"], "pay/pay/c%20d#1");
    assert_eq!(item["action"], "pay/pay/c%20d");
    assert_eq!(item["attempt"], 1);
    assert_eq!(item["run"], "pay");
    assert_eq!(item["tool"], "pay");
    assert_eq!(item["item_key"], "c d");
    assert!(item["next"]["at"].is_null());
    let shown = world.json(&["show", "pay/pay/c%20d#1"]).ends(0).json();
    assert_eq!(shown["idempotency_key"], item["idempotency_key"]);
    world.intendant(&["approve", "pay/pay/c%20d#1"]).ends(0);
    world.run().ends(0);
    assert_eq!(item["idempotency_key"], key_given(&world, "c d").as_str());
}

#[test]
fn the_pause_before_another_attempt_is_a_timer_that_is_due_by_itself() {
    let tool = "recovery = \"opaque\"\nexit_codes = { not_executed = [75] }\n\
                retry = { attempts = 3, first = \"1h\", max = \"1h\" }";
    let world = World::new(tool, &[("a", 1)]);
    let pay =
        "#!/bin/sh\necho \"$INTENDANT_ATTEMPT $INTENDANT_IDEMPOTENCY_KEY\" >> called.a\nexit 75\n";
    world.script("pay.sh", pay);
    let running = world.start();
    let live = item(&world, "waiting_timer");
    assert_eq!(live["item_key"], "a");
    assert_eq!(live["idempotency_key"], key_given(&world, "a").as_str());
    // Both are RFC 3339 in UTC, so that they compare as text.
    assert!(
        live["next"]["at"].as_str() > live["since"].as_str(),
        "{live}"
    );
    running.kill();
    let stopped = item(&world, "waiting_timer");
    assert_eq!(stopped["intent"], live["intent"]);
    let next = stopped["next"]["what"].as_str().unwrap();
    assert!(next.starts_with("at the next start"), "{next}");
    assert_eq!(world.calls("a").0, 1);
}

#[test]
fn a_question_that_is_out_is_told_as_reconciling_and_as_in_doubt_once_the_asker_is_gone() {
    let world = World::new(RECONCILABLE, &[("a", 1), ("b", 2)]);
    world.cut_at_a();
    let ask = "#!/bin/sh\nwhile [ ! -e answer ]; do sleep 0.05; done\necho '{\"never_will\":{}}'\n";
    world.script("ask.sh", ask);
    let running = world.start();
    let asked = item(&world, "reconciling");
    assert_eq!(asked["intent"], "pay/pay/a#1");
    assert_eq!(asked["idempotency_key"], key_given(&world, "a").as_str());
    let shown = world.json(&["show", "pay/pay/a#1"]).ends(0).json();
    assert_eq!(shown["state"], "reconciling");
    running.kill();
    item(&world, "in_doubt");
    let shown = world.json(&["show", "pay/pay/a#1"]).ends(0).json();
    assert_eq!(shown["state"], "in doubt");
    world.write("answer", "");
    world.let_go("a");
    assert_eq!(world.run().ends(0).json()["actions"]["done"], 2);
}

#[test]
fn the_end_of_what_an_attempt_wrote_to_standard_error_is_shown() {
    let world = World::new(RECONCILABLE, &[("a", 1)]);
    let noisy = "#!/bin/sh\nhead -c 36864 /dev/zero | tr '\\0' x >&2\n\
                 head -c 65536 /dev/zero | tr '\\0' y >&2\necho '{\"receipt\":\"r\"}'\n";
    world.script("pay.sh", noisy);
    world.run().ends(0);
    let logs = &world.json(&["show", "pay/pay/a#1"]).ends(0).json()["logs"];
    assert_eq!(logs.as_array().unwrap().len(), 1);
    assert_eq!(logs[0]["attempt"], 1);
    assert_eq!(logs[0]["text"], "y".repeat(65_536));
    let people = world.intendant(&["show", "pay/pay/a#1"]).ends(0).out;
    assert!(people.contains("standard error of attempt 1:\nyyy"));
    // The run as a whole names what it does not read.
    let run = world.json(&["show", "pay"]).ends(0).json();
    let named = &run["actions_list"][0]["logs"][0]["text"]["blob"];
    assert_eq!(named["bytes"], 65_536);
}
