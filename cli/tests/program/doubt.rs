//! An action cut by SIGKILL: what pending says, who is asked, how a person settles it.

use crate::world::{OPAQUE, RECONCILABLE, World};

/// A world whose engine was killed while the tool ran for `a`.
fn cut(tool: &str) -> World {
    let world = World::new(tool, &[("a", 1), ("b", 2)]);
    world.cut_at_a();
    world
}

const A: &str = "pay/pay/a#1";

#[test]
fn what_ran_when_the_engine_was_killed_is_in_doubt_while_stopped() {
    let world = cut(RECONCILABLE);
    assert_eq!(world.state(A), "in_doubt");
    let shown = world.json(&["show", A]).ends(0).json();
    assert_eq!(shown["state"], "in doubt", "as pending says");
    let run = world.json(&["show", "pay"]).ends(0).json();
    let runs = world.json(&["runs"]).ends(0).json();
    for counts in [&run["actions"], &runs["runs"][0]["actions"]] {
        assert_eq!(
            (&counts["in_doubt"], &counts["running"]),
            (&1.into(), &0.into())
        );
    }
    let explained = world.json(&["explain", A]).ends(0).json();
    assert_eq!(explained["state"], "in doubt");
    let words = explained["explain"].as_str().unwrap();
    assert!(words.contains("its reconciler is asked"), "{words}");
    world.let_go("a");
    let done = world.run().ends(0).json();
    assert_eq!(done["actions"]["done"], 2);
    assert_eq!(world.calls("a").1, 1, "paid once");
}

#[test]
fn a_reconciler_is_asked_on_a_stopped_journal_and_nothing_else_starts() {
    let world = cut(RECONCILABLE);
    // The target did it after all.
    world.write("paid.a", "late\n");
    let said = world.json(&["reconcile", A]).ends(0).json();
    let words = said["message"].as_str().unwrap();
    assert!(
        words.contains("executed") && words.contains("succeeded"),
        "{words}"
    );
    assert_eq!(world.state(A), "", "settled");
    let called = world.calls("a").0;
    let done = world.run().ends(0).json();
    assert_eq!(done["actions"]["reconciled"], 1);
    assert_eq!(done["actions"]["done"], 2);
    assert_eq!(world.calls("a").0, called, "not run again");
    let history = world.json(&["show", A]).ends(0).json()["history"].to_string();
    for what in ["interrupted", "asking", "answered"] {
        assert!(history.contains(what), "{what}: {history}");
    }
}

#[test]
fn never_will_on_a_stopped_journal_lets_the_next_start_run_it_again() {
    let world = cut(RECONCILABLE);
    let said = world.intendant(&["reconcile", A]).ends(0).out;
    assert!(said.contains("never"), "{said}");
    world.let_go("a");
    let done = world.run().ends(0).json();
    assert_eq!(done["actions"]["done"], 2);
    assert_eq!(world.calls("a"), (2, 1));
}

#[test]
fn an_opaque_action_is_parked_and_a_person_settles_it() {
    let world = cut(OPAQUE);
    let words = world.json(&["explain", A]).ends(0).json()["explain"].to_string();
    assert!(words.contains("parked"), "{words}");
    let parked = world.run().ends(3).json();
    assert_eq!(parked["state"], "waiting");
    assert_eq!(parked["actions"]["parked"], 1);
    assert_eq!(parked["actions"]["done"], 1, "the other branch went on");
    let pending = world.pending();
    assert_eq!(pending["items"][0]["intent"], A);
    assert_eq!(pending["items"][0]["state"], "parked");
    assert!(
        pending["items"][0]["next"]["what"]
            .as_str()
            .unwrap()
            .contains("resolve pay/pay/a#1 --executed --output JSON |")
    );
    assert_eq!(
        world.json(&["reconcile", A]).ends(2).json()["error"]["code"],
        "parked"
    );

    let executed = |output: &str| {
        world.json(&[
            "resolve",
            A,
            "--executed",
            "--output",
            output,
            "--reason",
            "seen",
        ])
    };
    assert_eq!(
        executed("{\"receipt\":7}").ends(2).json()["error"]["code"],
        "schema"
    );
    assert_eq!(
        executed("{nonsense").ends(2).json()["error"]["code"],
        "usage"
    );
    assert_eq!(
        executed("@nowhere.json").ends(2).json()["error"]["code"],
        "usage"
    );
    let other = world
        .json(&["resolve", "pay/pay/a#2", "--give-up", "--reason", "x"])
        .ends(2);
    assert_eq!(other.json()["error"]["code"], "not_current");

    world.write("output.json", "{\"receipt\": \"by hand\"}");
    executed("@output.json").ends(0);
    assert_eq!(
        executed("@output.json").ends(2).json()["error"]["code"],
        "not_in_doubt"
    );
    let done = world.run().ends(0).json();
    assert_eq!(done["actions"]["done"], 2);
    assert_eq!(world.calls("a"), (1, 0), "not run again");
    let shown = world.json(&["show", A]).ends(0).json();
    assert_eq!(shown["output"]["receipt"], "by hand");
}

#[test]
fn a_cut_action_is_settled_before_the_next_start() {
    let world = cut(OPAQUE);
    let said = world
        .json(&["resolve", A, "--give-up", "--reason", "nobody knows"])
        .ends(0)
        .json();
    assert!(said["message"].as_str().unwrap().contains("given up"));
    let ended = world.run().ends(1).json();
    assert_eq!(ended["actions"]["given_up"], 1);
    assert_eq!(world.calls("a").0, 1);
    let history = world.json(&["show", A]).ends(0).json()["history"].to_string();
    assert!(
        history.contains("interrupted"),
        "the cut is recorded too: {history}"
    );
}

#[test]
fn never_ran_is_a_persons_claim_with_a_warning_and_runs_it_again() {
    let world = cut(OPAQUE);
    world.run().ends(3);
    let ran = world
        .json(&["resolve", A, "--never-ran", "--reason", "asked the bank"])
        .ends(0);
    assert!(ran.err.contains("warning"), "{}", ran.err);
    assert!(!ran.json()["warnings"].as_array().unwrap().is_empty());
    world.let_go("a");
    world.run().ends(0);
    assert_eq!(world.calls("a"), (2, 1));
}
