//! Approval: asked for, given, refused; on a live engine and on a stopped journal.

use crate::world::{World, wait};

const APPROVED: &str = "recovery = \"opaque\"\napproval = \"always\"";

#[test]
fn nothing_runs_before_a_yes_and_the_yes_can_be_sent_again() {
    let world = World::new(APPROVED, &[("a", 1), ("b", 2)]);
    let waits = world.run().ends(3).json();
    assert_eq!(waits["state"], "waiting");
    assert_eq!(waits["actions"]["awaiting_approval"], 2);
    assert_eq!(world.calls("a"), (0, 0));
    let pending = world.pending();
    let item = &pending["items"][0];
    assert_eq!(item["state"], "awaiting_approval");
    assert!(
        item["next"]["what"]
            .as_str()
            .unwrap()
            .contains("intendant approve pay/pay/a#1")
    );

    let approve = |request: &str| {
        let args = [
            "approve",
            "pay/pay/a#1",
            "--reason",
            "ok",
            "--request-id",
            request,
        ];
        world.json(&args)
    };
    let done = approve("r-1").ends(0).json();
    assert_eq!(done["replayed"], false);
    assert_eq!(done["request"], "r-1");
    assert!(done["sequence"].as_u64().unwrap() > 0);
    let again = approve("r-1").ends(0).json();
    assert_eq!(again["replayed"], true);
    assert_eq!(again["sequence"], done["sequence"]);
    // Another request finds that nothing awaits it.
    assert_eq!(
        approve("r-2").ends(2).json()["error"]["code"],
        "not_awaiting"
    );

    world
        .json(&["deny", "pay/pay/b#1", "--reason", "closed account"])
        .ends(0);
    let ended = world.run().ends(1).json();
    assert_eq!(ended["state"], "failed");
    assert_eq!(ended["actions"]["done"], 1);
    assert_eq!(ended["actions"]["denied"], 1);
    assert_eq!((world.calls("a"), world.calls("b")), ((1, 1), (0, 0)));
    let shown = world.json(&["show", "pay/pay/b#1"]).ends(0).json();
    assert!(
        shown["why"].as_str().unwrap().contains("closed account"),
        "{shown}"
    );
    let spoken = &shown["history"].as_array().unwrap().last().unwrap()["detail"];
    assert!(spoken.as_str().unwrap().contains("uid:"), "{spoken}");
}

#[test]
fn a_live_engine_takes_a_yes_through_its_socket() {
    let world = World::new(APPROVED, &[("a", 1), ("b", 2)]);
    world.hold("a");
    world.run().ends(3);
    world.intendant(&["approve", "pay/pay/a#1"]).ends(0);
    let running = world.start();
    world.wait_called("a");
    wait("b awaits", || {
        world.state("pay/pay/b#1") == "awaiting_approval"
    });
    assert_eq!(world.pending()["engine"], "live");
    let said = world.intendant(&["approve", "pay/pay/b#1"]).ends(0).out;
    assert!(said.contains("pay/pay/b#1 is approved"), "{said}");
    assert!(said.contains("request "), "{said}");
    wait("b has run", || world.calls("b").1 == 1);
    world.let_go("a");
    assert_eq!(running.ends().ends(0).json()["actions"]["done"], 2);
}
