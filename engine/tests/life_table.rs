//! Every state of an action's life × every event (DESIGN section 5), as a table.
//!
//! A row is a state, a column an event; a cell is the state after it, `·` where the state stays,
//! `✗` where the event does not fit and nothing may be written.
#![allow(clippy::unwrap_used)]

use intendant::action::doubt::{AskRule, Surroundings};
use intendant::action::life::{Event, Life, Next, attempt_of};
use intendant_journal::format::entry::{
    ActionEntry, ActionRef, Answer, AnsweredEntry, ApprovalEntry, AttemptRef, Body, Closure,
    Decision, Epoch, Intent, Key, Moment, OperatorNote, Outcome, OutcomeEntry, Payload,
    RecoveryClass, Resolution, ResolvedEntry, ScopePath, Verdict, Verification, VerifiedEntry,
};

const EPOCH: Epoch = Epoch(1);
const HOUR_MS: u64 = 3_600_000;

fn around() -> Surroundings {
    Surroundings {
        now: Moment {
            wall_ms: 1_000_000,
            boot_ms: 1_000_000,
        },
        boot_since: EPOCH,
        clock_behind: false,
        reconciler: Some(AskRule {
            asks_max: 2,
            backoff_first_ms: 1_000,
            backoff_max_ms: 60_000,
        }),
    }
}

fn attempt(n: u32) -> AttemptRef {
    let action = ActionRef {
        path: ScopePath("pay/x".into()),
        generation: 1,
    };
    AttemptRef { action, attempt: n }
}

fn note() -> OperatorNote {
    OperatorNote {
        who: "uid:7".into(),
        reason: "seen".into(),
        request: "q".into(),
    }
}

fn intent(class: RecoveryClass, closure: Option<Closure>) -> Intent {
    Intent {
        key: Key([9; 16]),
        class,
        timeout_ms: 60_000,
        closure,
        attempts_max: 3,
        backoff_first_ms: 1_000,
        backoff_max_ms: 60_000,
    }
}

fn decided(n: u32, verdict: Verdict, intent: Option<Intent>) -> Event {
    let decision = Decision {
        verdict,
        reasons: vec!["because".into()],
        policy_version: "p".into(),
    };
    Event::Decided(ActionEntry {
        attempt: attempt(n),
        proposal: None,
        decision,
        intent,
    })
}

fn replied(n: u32, outcome: Outcome) -> Event {
    Event::Replied(OutcomeEntry {
        attempt: attempt(n),
        outcome,
        log: None,
    })
}

fn answered(n: u32, answer: Answer) -> Event {
    Event::Answered(AnsweredEntry {
        attempt: attempt(n),
        answer,
    })
}

fn resolved(n: u32, resolution: Resolution) -> Event {
    Event::Resolved(ResolvedEntry {
        attempt: attempt(n),
        resolution,
        note: note(),
    })
}

fn json() -> Payload {
    Payload::Json("1".into())
}

const EVENTS: [&str; 22] = [
    "allow",
    "deny",
    "ask_person",
    "yes",
    "no",
    "succeeded",
    "unusable",
    "not_executed",
    "failed",
    "unknown",
    "interrupted",
    "ask",
    "executed",
    "never_will",
    "burned",
    "still_running",
    "not_seen",
    "no_answer",
    "p_executed",
    "p_never_ran",
    "p_gave_up",
    "verify_failed",
];

/// The event of that name for attempt `n`, as the kernel, tool, reconciler or person would send it
/// to an action of that class.
fn event(name: &str, n: u32, class: RecoveryClass) -> Event {
    let closure = Some(Closure::AbortClaim);
    match name {
        "allow" => decided(n, Verdict::Allow, Some(intent(class, closure))),
        "deny" => decided(n, Verdict::Deny, None),
        "ask_person" => decided(n, Verdict::RequireApproval, None),
        "yes" | "no" => Event::Approval(ApprovalEntry {
            attempt: attempt(n),
            approved: name == "yes",
            note: note(),
        }),
        "succeeded" => replied(n, Outcome::Succeeded(json())),
        "unusable" => replied(
            n,
            Outcome::Unusable {
                raw: Payload::Bytes(vec![1]),
                why: "w".into(),
            },
        ),
        "not_executed" => replied(
            n,
            Outcome::NotExecuted {
                why: "w".into(),
                retry_at: None,
            },
        ),
        "failed" => replied(n, Outcome::Failed { why: "w".into() }),
        "unknown" => replied(n, Outcome::Unknown { why: "w".into() }),
        "interrupted" => replied(n, Outcome::Interrupted { why: "w".into() }),
        "ask" => Event::Ask(attempt(n)),
        "executed" => answered(
            n,
            Answer::Executed {
                output: json(),
                evidence: json(),
            },
        ),
        "never_will" => answered(
            n,
            Answer::NeverWill {
                closure: Closure::AbortClaim,
                burned: false,
                evidence: None,
            },
        ),
        "burned" => answered(
            n,
            Answer::NeverWill {
                closure: Closure::AbortClaim,
                burned: true,
                evidence: None,
            },
        ),
        "still_running" => answered(
            n,
            Answer::Running {
                retry_after_ms: 500,
            },
        ),
        "not_seen" => answered(
            n,
            Answer::NotSeen {
                as_of: "then".into(),
            },
        ),
        "no_answer" => answered(n, Answer::Unknown { why: "w".into() }),
        "p_executed" => resolved(n, Resolution::Executed(json())),
        "p_never_ran" => resolved(n, Resolution::NeverRan),
        "p_gave_up" => resolved(n, Resolution::GaveUp),
        "verify_failed" => Event::Verified(VerifiedEntry {
            attempt: attempt(n),
            verification: Verification::Failed,
            why: "w".into(),
        }),
        other => panic!("no event is called {other}"),
    }
}

/// Each row's state: its name in the table, the tool's class, and the events that lead to it.
const STATES: [(&str, RecoveryClass, &[(&str, u32)]); 17] = {
    use RecoveryClass::{Idempotent, Opaque, ReadOnly, Reconcilable};
    const WINDOW: RecoveryClass = Idempotent { window_ms: HOUR_MS };
    [
        ("proposed", Reconcilable, &[]),
        ("awaiting", Reconcilable, &[("ask_person", 1)]),
        ("approved", Reconcilable, &[("ask_person", 1), ("yes", 1)]),
        ("running/recon", Reconcilable, &[("allow", 1)]),
        ("running/opaque", Opaque, &[("allow", 1)]),
        ("running/idem", WINDOW, &[("allow", 1)]),
        ("running/read", ReadOnly, &[("allow", 1)]),
        (
            "waiting",
            Reconcilable,
            &[("allow", 1), ("not_executed", 1)],
        ),
        ("doubt/recon", Reconcilable, &[("allow", 1), ("unknown", 1)]),
        (
            "doubt/asking",
            Reconcilable,
            &[("allow", 1), ("unknown", 1), ("ask", 1)],
        ),
        ("doubt/idem", WINDOW, &[("allow", 1), ("unknown", 1)]),
        (
            "parked",
            Reconcilable,
            &[
                ("allow", 1),
                ("unknown", 1),
                ("ask", 1),
                ("no_answer", 1),
                ("ask", 1),
                ("not_seen", 1),
            ],
        ),
        ("succeeded", Reconcilable, &[("allow", 1), ("succeeded", 1)]),
        ("unusable", Reconcilable, &[("allow", 1), ("unusable", 1)]),
        ("failed", Reconcilable, &[("allow", 1), ("failed", 1)]),
        ("denied", Reconcilable, &[("deny", 1)]),
        (
            "given_up",
            Reconcilable,
            &[("allow", 1), ("unknown", 1), ("p_gave_up", 1)],
        ),
    ]
};

fn build(class: RecoveryClass, path: &[(&str, u32)]) -> Life {
    let mut life = Life::new();
    for (name, n) in path {
        life = life
            .step(event(name, *n, class), EPOCH, &around())
            .expect(name)
            .life;
    }
    life
}

fn row(name: &str) -> (Life, RecoveryClass) {
    let (_, class, path) = STATES
        .iter()
        .find(|(state, _, _)| *state == name)
        .expect(name);
    (build(*class, path), *class)
}

/// The attempt an event speaks of in a state: the one that is due for decisions, else the current.
fn due(life: &Life, event: &str) -> u32 {
    let doubt = matches!(life.state(), intendant::action::life::State::InDoubt(_));
    match event {
        "allow" | "deny" | "ask_person" if doubt => life.attempt() + 1,
        _ => life.attempt(),
    }
}

fn actual() -> String {
    let mut table = String::new();
    for (state, class, path) in STATES {
        let life = build(class, path);
        for name in EVENTS {
            let cell = match life.step(event(name, due(&life, name), class), EPOCH, &around()) {
                Err(_) => "✗".to_owned(),
                Ok(step) if step.life.state_name() == life.state_name() => "·".to_owned(),
                Ok(step) => step.life.state_name().to_owned(),
            };
            table.push_str(&format!("{state} + {name} = {cell}\n"));
        }
    }
    table
}

#[test]
fn every_state_times_every_event() {
    let expected = include_str!("life_table.txt");
    let actual = actual();
    for (expected, actual) in expected.lines().zip(actual.lines()) {
        assert_eq!(actual, expected);
    }
    assert_eq!(actual.lines().count(), expected.lines().count());
    assert_eq!(actual.lines().count(), STATES.len() * EVENTS.len());
}

#[test]
fn a_step_is_exactly_the_fold_of_its_facts() {
    for (_, class, path) in STATES {
        let life = build(class, path);
        for name in EVENTS {
            let Ok(step) = life.step(event(name, due(&life, name), class), EPOCH, &around()) else {
                continue;
            };
            let folded = step.facts.iter().fold(life.clone(), |life, fact| {
                assert!(attempt_of(fact).is_some());
                life.apply(fact, around().now, EPOCH)
                    .expect("a fact of a step fits")
            });
            assert_eq!(folded, step.life, "{name}");
        }
    }
}

#[test]
fn p3_settled_stays_settled_whatever_comes() {
    for state in ["succeeded", "unusable", "failed", "denied", "given_up"] {
        let (life, class) = row(state);
        for name in EVENTS.into_iter().filter(|name| *name != "verify_failed") {
            if let Ok(step) = life.step(event(name, due(&life, name), class), EPOCH, &around()) {
                assert_eq!(step.life, life, "{state} + {name}");
                assert_eq!(step.next, Next::Nothing);
            }
        }
    }
}

#[test]
fn fault_d5_a_late_reply_that_contradicts_is_an_incident_and_changes_nothing() {
    let (failed, class) = row("failed");
    let step = failed
        .step(event("succeeded", 1, class), EPOCH, &around())
        .unwrap();
    assert!(matches!(
        step.facts[..],
        [Body::LateReply(_), Body::Incident(_)]
    ));
    let (succeeded, class) = row("succeeded");
    let step = succeeded
        .step(event("failed", 1, class), EPOCH, &around())
        .unwrap();
    assert!(matches!(
        step.facts[..],
        [Body::LateReply(_), Body::Incident(_)]
    ));
    let step = succeeded
        .step(event("succeeded", 1, class), EPOCH, &around())
        .unwrap();
    assert!(matches!(step.facts[..], [Body::LateReply(_)]));
}

#[test]
fn contradicting_answers_park_the_action_before_its_next_attempt() {
    let (asking, class) = row("doubt/asking");
    let closed = asking
        .step(event("never_will", 1, class), EPOCH, &around())
        .unwrap()
        .life;
    for name in ["succeeded", "executed"] {
        let step = closed
            .step(event(name, 1, class), EPOCH, &around())
            .unwrap();
        assert!(
            matches!(step.facts[..], [_, Body::Incident(_), Body::Parked(_)]),
            "{name}"
        );
        assert_eq!((step.life.state_name(), step.life.attempt()), ("parked", 1));
        assert!(
            step.life
                .step(event("allow", 2, class), EPOCH, &around())
                .is_err()
        );
    }
}

#[test]
fn o6_not_seen_and_unknown_never_lead_to_another_attempt() {
    let (asking, class) = row("doubt/asking");
    for name in ["not_seen", "no_answer", "still_running"] {
        let step = asking
            .step(event(name, 1, class), EPOCH, &around())
            .unwrap();
        assert!(
            matches!(step.next, Next::Ask { .. }),
            "{name}: {:?}",
            step.next
        );
        assert!(
            step.life
                .step(event("allow", 2, class), EPOCH, &around())
                .is_err(),
            "{name}"
        );
    }
}

#[test]
fn never_will_without_the_declared_closure_counts_as_unknown() {
    let class = RecoveryClass::Reconcilable;
    for declared in [None, Some(Closure::Fence)] {
        let mut life = Life::new();
        for event in [
            decided(1, Verdict::Allow, Some(intent(class, declared))),
            event("unknown", 1, class),
            event("ask", 1, class),
            event("never_will", 1, class),
        ] {
            life = life.step(event, EPOCH, &around()).unwrap().life;
        }
        assert_eq!(life.state_name(), "in doubt", "{declared:?}");
        assert!(
            life.step(event("allow", 2, class), EPOCH, &around())
                .is_err()
        );
    }
}

#[test]
fn a_refusal_of_a_later_attempt_parks_what_is_in_doubt_and_denies_what_is_closed() {
    let (doubt, class) = row("doubt/idem");
    let step = doubt
        .step(event("deny", 2, class), EPOCH, &around())
        .unwrap();
    assert_eq!((step.life.state_name(), step.life.attempt()), ("parked", 1));
    let (asking, class) = row("doubt/asking");
    let closed = asking
        .step(event("never_will", 1, class), EPOCH, &around())
        .unwrap()
        .life;
    let step = closed
        .step(event("deny", 2, class), EPOCH, &around())
        .unwrap();
    assert_eq!(step.life.state_name(), "denied");
}

#[test]
fn interruptions_do_not_use_up_the_attempts_of_a_retry_rule() {
    let class = RecoveryClass::ReadOnly;
    let mut life = Life::new();
    for n in 1..=20 {
        life = life
            .step(event("allow", n, class), EPOCH, &around())
            .unwrap()
            .life;
        let step = life
            .step(event("interrupted", n, class), EPOCH, &around())
            .unwrap();
        assert_eq!(
            step.next,
            Next::Decide {
                attempt: n + 1,
                at_wall_ms: around().now.wall_ms
            }
        );
        life = step.life;
    }
    for n in 21..=22 {
        life = life
            .step(event("allow", n, class), EPOCH, &around())
            .unwrap()
            .life;
        life = life
            .step(event("unknown", n, class), EPOCH, &around())
            .unwrap()
            .life;
        assert_eq!(life.state_name(), "in doubt");
    }
    life = life
        .step(event("allow", 23, class), EPOCH, &around())
        .unwrap()
        .life;
    life = life
        .step(event("unknown", 23, class), EPOCH, &around())
        .unwrap()
        .life;
    assert_eq!(
        life.state_name(),
        "failed",
        "three attempts counted, and it has no effect"
    );
}

#[test]
fn p4_an_attempt_under_another_key_is_refused() {
    let (waiting, class) = row("waiting");
    let mut other = intent(class, Some(Closure::AbortClaim));
    other.key = Key([1; 16]);
    assert!(
        waiting
            .step(decided(2, Verdict::Allow, Some(other)), EPOCH, &around())
            .is_err()
    );
}

#[test]
fn outside_its_window_an_idempotent_attempt_is_asked_about_or_parked_never_sent() {
    let (doubt, _) = row("doubt/idem");
    let mut late = around();
    late.now.wall_ms += HOUR_MS as i64;
    assert!(matches!(doubt.next(&late), Next::Ask { attempt: 1, .. }));
    late.reconciler = None;
    assert!(matches!(doubt.next(&late), Next::Park { attempt: 1, .. }));
}

#[test]
fn not_executed_says_nothing_of_an_earlier_attempt_that_may_still_act() {
    // Attempt 1 is in doubt, attempt 2 was refused by the target: the doubt stays.
    let (doubt, class) = row("doubt/idem");
    let again = doubt
        .step(event("allow", 2, class), EPOCH, &around())
        .unwrap()
        .life;
    let step = again
        .step(event("not_executed", 2, class), EPOCH, &around())
        .unwrap();
    assert_eq!(
        (step.life.state_name(), step.life.attempt()),
        ("in doubt", 2)
    );
    // Inside the window it may go out again, after it nobody sends it.
    assert!(matches!(step.next, Next::Decide { attempt: 3, .. }));
    let mut late = around();
    late.now.wall_ms += HOUR_MS as i64;
    assert!(matches!(
        step.life.next(&late),
        Next::Ask { attempt: 2, .. }
    ));
    late.reconciler = None;
    assert!(matches!(
        step.life.next(&late),
        Next::Park { attempt: 2, .. }
    ));
    // A refusal parks it, used-up attempts do not fail it.
    let denied = step
        .life
        .step(event("deny", 3, class), EPOCH, &around())
        .unwrap();
    assert_eq!(denied.life.state_name(), "parked");
    let third = step
        .life
        .step(event("allow", 3, class), EPOCH, &around())
        .unwrap()
        .life;
    let last = third
        .step(event("not_executed", 3, class), EPOCH, &around())
        .unwrap();
    assert_eq!(last.life.state_name(), "in doubt");
}

#[test]
fn a_yes_that_comes_after_the_window_does_not_send_the_key_again() {
    let (doubt, class) = row("doubt/idem");
    let waits = doubt
        .step(event("ask_person", 2, class), EPOCH, &around())
        .unwrap()
        .life;
    let mut late = around();
    late.now.wall_ms += HOUR_MS as i64;
    let step = waits.step(event("yes", 2, class), EPOCH, &late).unwrap();
    assert_eq!((step.life.state_name(), step.life.attempt()), ("parked", 1));
}

#[test]
fn p8_a_crash_between_question_and_answer_leaves_every_way_open() {
    // Asked, and the process died: a new opening may run again, ask again or park.
    let (doubt, class) = row("doubt/idem");
    let asking = doubt
        .step(event("ask", 1, class), EPOCH, &around())
        .unwrap()
        .life;
    let step = asking
        .step(event("allow", 2, class), EPOCH, &around())
        .unwrap();
    assert_eq!(step.life.state_name(), "running");
    let late_answer = step
        .life
        .step(event("executed", 1, class), EPOCH, &around())
        .unwrap();
    assert_eq!(late_answer.life, step.life, "evidence only");
    let (asking, _) = row("doubt/asking");
    let parked = Body::Parked(intendant_journal::format::entry::ParkedEntry {
        attempt: attempt(1),
        why: "nobody can be asked any more".into(),
    });
    let parked = asking.apply(&parked, around().now, EPOCH).unwrap();
    assert_eq!(parked.state_name(), "parked");
}
