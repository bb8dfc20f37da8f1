//! Trials (TRIALS.md) and faults (FAULTS.md) at the level of the engine.
#![allow(clippy::unwrap_used)]

mod scripted;

use std::time::Duration;

use intendant::engine::status::RunStatus;
use intendant::engine::{Engine, StartRunError};
use intendant::operator::command::{Change, Request, Settle};
use intendant::tool::contract::Closure;
use intendant::tool::error::ToolError;
use intendant::tool::reconciler::JsonAnswer;
use intendant::workflow::{CallError, Workflow};
use intendant_journal::format::entry::{Body, Outcome};
use intendant_journal::memory::{Failure, MemoryLog};
use scripted::{Act, Target, builder, contract, log};
use serde_json::{Value, json};

/// Three calls in a loop and one in each of two branches, all with the same arguments.
async fn five_alike(mut wf: Workflow, _: Value) -> Result<u32, CallError> {
    for _ in 0..3 {
        wf.call_json("pay", &json!({"to": "ann"})).await?;
    }
    let branches = ["left", "right"].map(|name| (name.to_owned(), ()));
    let ended = wf
        .all(2, branches, |mut scope, ()| async move {
            scope.call_json("pay", &json!({"to": "ann"})).await
        })
        .await;
    ended.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(5)
}

async fn one(mut wf: Workflow, input: Value) -> Result<Value, CallError> {
    wf.call_json("pay", &input).await
}

fn request(id: &str, change: Change) -> Request {
    Request {
        who: "uid:7".into(),
        reason: "because".into(),
        request: id.into(),
        change,
    }
}

#[tokio::test]
async fn trial_b18_alike_calls_in_one_run_have_different_keys_and_keep_them() {
    let (log, target) = (log(), Target::default());
    let pay = || contract("pay").reconcilable(Closure::AbortClaim);
    target.then(Act::Succeed(json!("ok"))).then(Act::Hang);
    let first = builder(&log, pay(), &target)
        .workflow("five", 1, five_alike)
        .start()
        .await
        .unwrap();
    first.run("five", "r", json!(null)).await.unwrap();
    target.until(2).await;

    let log = log.reopen();
    let second = builder(&log, pay(), &target)
        .workflow("five", 1, five_alike)
        .start()
        .await
        .unwrap();
    let run = second.run("five", "r", json!(null)).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 5);
    let keys: std::collections::BTreeSet<_> =
        target.executions().into_iter().map(|e| e.key).collect();
    assert_eq!((target.executions().len(), keys.len()), (5, 5));
}

#[tokio::test]
async fn trial_b19_starts_with_one_id_are_one_run_one_intent_one_charge() {
    let (log, target) = (log(), Target::default());
    let engine = builder(&log, contract("pay"), &target)
        .workflow("one", 1, one)
        .start()
        .await
        .unwrap();
    let input = json!({"to": "ann"});
    let (a, b, c) = tokio::join!(
        engine.run("one", "r", &input),
        engine.run("one", "r", &input),
        engine.run("one", "r", &input)
    );
    for run in [a, b, c] {
        let run = run.unwrap();
        assert_eq!(run.id(), "r");
        assert_eq!(run.result::<Value>().await.unwrap(), json!("ok"));
    }
    let intents = log
        .entries()
        .iter()
        .filter(|r| matches!(&r.entry.body, Body::Action(a) if a.intent.is_some()))
        .count();
    assert_eq!((target.executions().len(), intents), (1, 1));
}

#[tokio::test]
async fn trial_b38_a_resent_signal_or_approval_returns_the_first_outcome_and_applies_nothing() {
    async fn wait(mut wf: Workflow, _: Value) -> Result<(u32, u32), CallError> {
        Ok((wf.signal("go").await?, wf.signal("go").await?))
    }
    let (log, target) = (log(), Target::default());
    let engine = builder(&log, contract("pay").approved_by_a_person(), &target)
        .workflow("wait", 1, wait)
        .workflow("one", 1, one)
        .start()
        .await
        .unwrap();
    let run = engine.run("wait", "r", json!(null)).await.unwrap();
    let signal = |id: &str, payload: u32| {
        request(
            id,
            Change::Signal {
                run: "r".into(),
                name: "go".into(),
                payload: json!(payload),
            },
        )
    };
    let first = engine.change(signal("s1", 1)).await.unwrap();
    let again = engine.change(signal("s1", 1)).await.unwrap();
    assert_eq!(
        (first.replayed, again.replayed, again.sequence),
        (false, true, first.sequence)
    );
    engine.change(signal("s2", 2)).await.unwrap();
    assert_eq!(run.result::<(u32, u32)>().await.unwrap(), (1, 2));

    let mut paying = engine.run("one", "p", json!({"to": "ann"})).await.unwrap();
    assert!(matches!(paying.rests().await, RunStatus::NeedsPerson));
    assert!(
        target.executions().is_empty(),
        "nothing runs before the yes"
    );
    let approve = || {
        request(
            "a1",
            Change::Approve {
                intent: "p/0#1".into(),
            },
        )
    };
    let first = engine.change(approve()).await.unwrap();
    assert_eq!(paying.result::<Value>().await.unwrap(), json!("ok"));
    let again = engine.change(approve()).await.unwrap();
    assert_eq!((again.replayed, again.sequence), (true, first.sequence));
    assert_eq!(target.executions().len(), 1);
}

#[tokio::test]
async fn trial_b41_a_second_start_with_an_id_in_use_is_a_typed_conflict() {
    let (log, target) = (log(), Target::default());
    let pay = || contract("pay").reconcilable(Closure::AbortClaim);
    target.then(Act::Hang);
    let engine = builder(&log, pay(), &target)
        .workflow("one", 1, one)
        .workflow("two", 1, one)
        .start()
        .await
        .unwrap();
    engine.run("one", "x", json!({"to": "ann"})).await.unwrap();
    target.until(1).await;
    let other_workflow = engine
        .run("two", "x", json!({"to": "ann"}))
        .await
        .err()
        .expect("a conflict");
    let other_input = engine
        .run("one", "x", json!({"to": "bob"}))
        .await
        .err()
        .expect("a conflict");
    assert!(
        matches!(&other_workflow, StartRunError::Conflict(why) if why.contains("workflow")),
        "{other_workflow}"
    );
    assert!(
        matches!(&other_input, StartRunError::Conflict(why) if why.contains("input")),
        "{other_input}"
    );

    let log = log.reopen();
    let engine = builder(&log, pay(), &target)
        .workflow("one", 1, one)
        .start()
        .await
        .unwrap();
    let run = engine.run("one", "x", json!({"to": "ann"})).await.unwrap();
    assert_eq!(run.result::<Value>().await.unwrap(), json!("ok"));
    assert_eq!(target.executions().len(), 1);
}

#[tokio::test]
async fn trial_b45_a_retry_rule_is_kept_in_plain_and_caught_calls_and_across_restarts() {
    async fn caught(mut wf: Workflow, input: Value) -> Result<bool, CallError> {
        Ok(wf.call_json("pay", &input).await.is_ok())
    }
    let refused = || Act::Fail(ToolError::NotExecuted("busy".into()));
    let input = json!({"to": "ann"});
    for workflow in ["plain", "caught"] {
        let (log, target) = (log(), Target::default());
        target.then(refused()).then(refused());
        let mut log: MemoryLog = log;
        let start = |log: MemoryLog, target: Target| async move {
            builder(&log, contract("pay"), &target)
                .workflow("plain", 1, one)
                .workflow("caught", 1, caught)
                .start()
                .await
                .unwrap()
        };
        let engine = start(log.clone(), target.clone()).await;
        engine.run(workflow, "r", &input).await.unwrap();
        for attempts in 1..3 {
            target.until(attempts).await;
            // Restart between attempts, once the answer is recorded.
            while log
                .entries()
                .iter()
                .filter(|r| matches!(r.entry.body, Body::Outcome(_)))
                .count()
                < attempts
            {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            log = log.reopen();
            let _engine = start(log.clone(), target.clone()).await;
            if attempts == 1 {
                continue;
            }
            let run = _engine.run(workflow, "r", &input).await.unwrap();
            let result: Value = run.result().await.unwrap();
            assert_ne!(result, json!(false), "the catch block is not entered");
        }
        let executions = target.executions();
        assert_eq!(
            executions.iter().map(|e| e.attempt).collect::<Vec<_>>(),
            [1, 2, 3]
        );
        let due: Vec<_> = log
            .entries()
            .iter()
            .filter_map(|r| match &r.entry.body {
                Body::Outcome(entry) => match &entry.outcome {
                    Outcome::NotExecuted {
                        retry_at: Some(due),
                        ..
                    } => Some(due.wall_ms - r.entry.at.wall_ms),
                    _ => None,
                },
                _ => None,
            })
            .collect();
        assert_eq!(due, [20, 40], "the spacing is recorded");
    }
}

#[tokio::test]
async fn trial_b55_a_resend_carries_the_recorded_bytes() {
    async fn stamped(mut wf: Workflow, _: Value) -> Result<Value, CallError> {
        let n = json!({"at": wf.now().elapsed().is_ok(), "random": wf.random(), "id": wf.uuid()});
        wf.call_json("pay", &json!({"n": n})).await
    }
    let (log, target) = (log(), Target::default());
    target.then(Act::Hang);
    let pay = || contract("pay").idempotent(Duration::from_secs(3_600));
    let first = builder(&log, pay(), &target)
        .workflow("w", 1, stamped)
        .start()
        .await
        .unwrap();
    first.run("w", "r", json!(null)).await.unwrap();
    target.until(1).await;
    let log = log.reopen();
    let second = builder(&log, pay(), &target)
        .workflow("w", 1, stamped)
        .start()
        .await
        .unwrap();
    second
        .run("w", "r", json!(null))
        .await
        .unwrap()
        .result::<Value>()
        .await
        .unwrap();
    let sent = target.executions();
    assert_eq!(sent.len(), 2);
    assert_eq!(
        (&sent[0].key, &sent[0].arguments),
        (&sent[1].key, &sent[1].arguments)
    );
    assert_eq!((sent[0].attempt, sent[1].attempt), (1, 2));
}

#[tokio::test]
async fn trial_b56_a_timeout_is_no_failure_and_each_later_attempt_is_preceded_by_a_look_up() {
    let (log, target) = (log(), Target::default());
    let pay = contract("pay")
        .reconcilable(Closure::AbortClaim)
        .timeout(Duration::from_millis(30));
    target.then(Act::HangBefore).then(Act::Hang);
    let engine = builder(&log, pay, &target)
        .workflow("one", 1, one)
        .start()
        .await
        .unwrap();
    let run = engine.run("one", "r", json!({"to": "ann"})).await.unwrap();
    assert_eq!(run.result::<Value>().await.unwrap(), json!("ok"));
    assert_eq!(target.executions().len(), 1, "one resource");
    assert_eq!(
        *target.asked.lock().unwrap(),
        [1, 2],
        "each attempt was looked up before the next"
    );
    let detail = engine.show("r").await.unwrap().unwrap();
    assert!(
        detail.actions_list[0]
            .history
            .iter()
            .any(|line| line.what == "answered" && line.detail.contains("executed"))
    );
}

#[tokio::test]
async fn p3_panics_timeouts_and_unknown_errors_leave_an_action_in_doubt() {
    for act in [
        Act::Panic,
        Act::HangBefore,
        Act::Fail(ToolError::Unknown("500".into())),
    ] {
        let (log, target) = (log(), Target::default());
        target.then(act.clone());
        let pay = contract("pay").timeout(Duration::from_millis(20));
        let engine = builder(&log, pay, &target)
            .workflow("one", 1, one)
            .start()
            .await
            .unwrap();
        let mut run = engine.run("one", "r", json!({"to": "ann"})).await.unwrap();
        assert!(
            matches!(run.rests().await, RunStatus::NeedsPerson),
            "{act:?}"
        );
        let pending = engine.pending().await.unwrap();
        assert_eq!(pending.items.len(), 1);
        assert_eq!(
            (
                pending.items[0].state.as_str(),
                pending.items[0].intent.as_str()
            ),
            ("parked", "r/0#1")
        );
        // A person settles it, with an output that the call returns.
        let settle = Change::Resolve {
            intent: "r/0#1".into(),
            resolution: Settle::Executed {
                output: json!("by hand"),
            },
        };
        engine.change(request("q", settle)).await.unwrap();
        assert_eq!(run.result::<Value>().await.unwrap(), json!("by hand"));
    }
}

#[tokio::test]
async fn p9_an_action_in_doubt_parks_itself_and_not_its_run() {
    async fn branches(mut wf: Workflow, _: Value) -> Result<u32, CallError> {
        let items = (0..6).map(|n| (n.to_string(), n));
        let ended = wf
            .all(6, items, |mut scope, n| async move {
                scope.call_json("pay", &json!({"n": n})).await?;
                scope.call_json("pay", &json!({"n": n + 100})).await
            })
            .await;
        Ok(ended.into_iter().filter(Result::is_ok).count() as u32)
    }
    let (log, target) = (log(), Target::default());
    target.then(Act::Panic);
    let engine = builder(&log, contract("pay"), &target)
        .workflow("w", 1, branches)
        .start()
        .await
        .unwrap();
    let mut run = engine.run("w", "r", json!(null)).await.unwrap();
    assert!(matches!(run.rests().await, RunStatus::NeedsPerson));
    assert_eq!(
        target.executions().len(),
        11,
        "five branches ended, the sixth waits"
    );
    let intent = engine.pending().await.unwrap().items[0].intent.clone();
    let give_up = Change::Resolve {
        intent,
        resolution: Settle::GiveUp,
    };
    engine.change(request("q", give_up)).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 5);
}

#[tokio::test]
async fn fault_d3_a_flapping_reconciler_never_leads_to_a_second_execution() {
    let answers = [
        JsonAnswer::NotSeen {
            as_of: "now".into(),
        },
        JsonAnswer::Unknown("down".into()),
        JsonAnswer::Running {
            retry_after: Duration::from_millis(1),
        },
    ];
    // Every sequence of these answers up to length three, then the truth.
    for length in 0..=3usize {
        for code in 0..3usize.pow(length as u32) {
            let (log, target) = (log(), Target::default());
            target.then(Act::Hang);
            for position in 0..length {
                target.answer(answers[code / 3usize.pow(position as u32) % 3].clone());
            }
            let pay = contract("pay")
                .reconcilable(Closure::AbortClaim)
                .timeout(Duration::from_millis(1));
            let engine = builder(&log, pay, &target)
                .workflow("one", 1, one)
                .start()
                .await
                .unwrap();
            let run = engine.run("one", "r", json!({"to": "ann"})).await.unwrap();
            assert_eq!(run.result::<Value>().await.unwrap(), json!("ok"));
            assert_eq!(target.executions().len(), 1);
        }
    }
}

#[tokio::test]
async fn asked_as_often_as_it_may_an_action_is_parked_with_the_last_answer() {
    let (log, target) = (log(), Target::default());
    target.then(Act::Hang);
    let mut pay = contract("pay")
        .reconcilable(None)
        .timeout(Duration::from_millis(1));
    pay.asks.asks_max = 3;
    // Without a closure, never_will is no more than "unknown".
    for _ in 0..3 {
        target.answer(JsonAnswer::NeverWill {
            burned: false,
            evidence: None,
        });
    }
    let engine = builder(&log, pay, &target)
        .workflow("one", 1, one)
        .start()
        .await
        .unwrap();
    let mut run = engine.run("one", "r", json!({"to": "ann"})).await.unwrap();
    assert!(matches!(run.rests().await, RunStatus::NeedsPerson));
    let item = engine.pending().await.unwrap().items.remove(0);
    assert_eq!(item.state, "parked");
    assert!(
        item.why.contains("asked 3 times") && item.why.contains("closure"),
        "{}",
        item.why
    );
    assert_eq!(target.executions().len(), 1);
}

#[tokio::test]
async fn p1_no_effect_before_its_intent_is_durable_and_none_after_a_failed_sync() {
    let (log, target) = (log(), Target::default());
    let engine = builder(&log, contract("pay"), &target)
        .workflow("one", 1, one)
        .start()
        .await
        .unwrap();
    log.hold();
    let starting = tokio::spawn({
        let engine = engine.clone();
        async move { engine.run("one", "r", json!({"to": "ann"})).await }
    });
    tokio::time::timeout(Duration::from_secs(5), async {
        while log.held().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .unwrap();
    let held = log.held().remove(0);
    let has_intent = held
        .iter()
        .any(|e| matches!(&e.body, Body::Action(a) if a.intent.is_some()));
    assert!(has_intent, "start and first intent ride in one batch");
    assert!(target.executions().is_empty(), "handed over is not durable");
    log.release_all();
    starting
        .await
        .unwrap()
        .unwrap()
        .result::<Value>()
        .await
        .unwrap();
    assert_eq!(target.executions().len(), 1);

    // A sync fails under the intent: the effect never starts, in any run, and everyone is told.
    log.fail_append(1, Failure::Unsettled { kept: true });
    let failing = engine.run("one", "r2", json!({"to": "bob"})).await;
    assert!(matches!(failing, Err(StartRunError::Journal(_))));
    assert!(matches!(
        engine.run("one", "r3", json!({"to": "cid"})).await,
        Err(StartRunError::Journal(_))
    ));
    assert!(!engine.journal_failed().await.is_empty());
    assert_eq!(
        target.executions().len(),
        1,
        "no effect starts after a failed sync"
    );
    assert!(
        !engine.pending().await.unwrap().alarms.is_empty(),
        "health is red"
    );
}

#[tokio::test]
async fn p11_changed_code_is_found_before_any_effect() {
    type Function = fn(
        Workflow,
        Value,
    )
        -> std::pin::Pin<Box<dyn Future<Output = Result<u32, CallError>> + Send>>;
    let original: Function = |mut wf, _| {
        Box::pin(async move {
            wf.call_json("pay", &json!({"n": 1})).await?;
            wf.sleep(Duration::from_millis(1)).await?;
            wf.call_json("pay", &json!({"n": 2})).await?;
            wf.call_json("pay", &json!({"n": 3})).await?;
            Ok(1)
        })
    };
    let changes: [(&str, Function); 5] = [
        ("removed", |mut wf, _| {
            Box::pin(async move {
                wf.sleep(Duration::from_millis(1)).await?;
                wf.call_json("pay", &json!({"n": 2})).await?;
                Ok(1)
            })
        }),
        ("inserted", |mut wf, _| {
            Box::pin(async move {
                wf.call_json("pay", &json!({"n": 1})).await?;
                wf.call_json("pay", &json!({"n": 9})).await?;
                wf.sleep(Duration::from_millis(1)).await?;
                Ok(1)
            })
        }),
        ("argument changed", |mut wf, _| {
            Box::pin(async move {
                wf.call_json("pay", &json!({"n": 7})).await?;
                Ok(1)
            })
        }),
        ("kind changed", |mut wf, _| {
            Box::pin(async move {
                wf.sleep(Duration::from_millis(1)).await?;
                Ok(1)
            })
        }),
        ("ended early", |_, _| Box::pin(async move { Ok(1) })),
    ];
    for (name, changed) in changes {
        let (log, target) = (log(), Target::default());
        target.then(Act::Succeed(json!(1))).then(Act::Hang);
        let pay = || contract("pay").reconcilable(Closure::AbortClaim);
        let first = builder(&log, pay(), &target)
            .workflow("w", 1, original)
            .start()
            .await
            .unwrap();
        first.run("w", "r", json!(null)).await.unwrap();
        target.until(2).await;
        let log = log.reopen();
        let entries = log.entries().len();
        let second = builder(&log, pay(), &target)
            .workflow("w", 1, changed)
            .start()
            .await
            .unwrap();
        let mut run = second.run("w", "r", json!(null)).await.unwrap();
        let RunStatus::Halted(halt) = run.ends().await else {
            panic!("{name}: not halted")
        };
        assert!(halt.to_string().contains("diverged"), "{name}: {halt}");
        assert_eq!(target.executions().len(), 2, "{name}");
        assert_eq!(
            log.entries().len(),
            entries,
            "{name}: a diverged run writes nothing"
        );
        // With the code it began with, it goes on.
        let log = log.reopen();
        let third = builder(&log, pay(), &target)
            .workflow("w", 1, original)
            .start()
            .await
            .unwrap();
        third
            .run("w", "r", json!(null))
            .await
            .unwrap()
            .result::<u32>()
            .await
            .unwrap();
        assert_eq!(target.executions().len(), 3, "{name}");
    }
}

#[tokio::test]
async fn a_workflow_that_waits_for_what_is_not_durable_is_found_and_named() {
    async fn foreign(mut wf: Workflow, _: Value) -> Result<u32, CallError> {
        wf.call_json("pay", &json!({"n": 1})).await?;
        std::future::pending::<()>().await;
        Ok(1)
    }
    let (log, target) = (log(), Target::default());
    let engine = builder(&log, contract("pay"), &target)
        .workflow("w", 1, foreign)
        .start()
        .await
        .unwrap();
    let mut run = engine.run("w", "r", json!(null)).await.unwrap();
    let RunStatus::Halted(halt) = run.ends().await else {
        panic!("not halted")
    };
    assert!(halt.to_string().contains("not durable"), "{halt}");
}

#[tokio::test]
async fn a_panic_in_one_workflow_is_contained_and_the_run_goes_on_once_mended() {
    async fn broken(mut wf: Workflow, _: Value) -> Result<u32, CallError> {
        wf.call_json("pay", &json!({"n": 1})).await?;
        panic!("a bug");
    }
    async fn mended(mut wf: Workflow, _: Value) -> Result<u32, CallError> {
        wf.call_json("pay", &json!({"n": 1})).await?;
        Ok(1)
    }
    let (log, target) = (log(), Target::default());
    let engine = builder(&log, contract("pay"), &target)
        .workflow("w", 1, broken)
        .workflow("one", 1, one)
        .start()
        .await
        .unwrap();
    let mut run = engine.run("w", "r", json!(null)).await.unwrap();
    assert!(matches!(run.ends().await, RunStatus::Halted(_)));
    let other = engine
        .run("one", "other", json!({"to": "ann"}))
        .await
        .unwrap();
    other.result::<Value>().await.unwrap();
    let log = log.reopen();
    let engine = builder(&log, contract("pay"), &target)
        .workflow("w", 1, mended)
        .start()
        .await
        .unwrap();
    let run = engine.run("w", "r", json!(null)).await.unwrap();
    // The outcome did not go with the panic: nothing is in doubt.
    assert!(engine.pending().await.unwrap().items.is_empty());
    assert_eq!(run.result::<u32>().await.unwrap(), 1);
    assert_eq!(
        target
            .executions()
            .iter()
            .filter(|e| e.action == "r/0")
            .count(),
        1
    );
}

#[tokio::test]
async fn req_at_13_14_15_arguments_that_do_not_fit_are_refused_before_policy_is_asked() {
    let (log, target) = (log(), Target::default());
    let engine = builder(&log, contract("pay"), &target)
        .workflow("one", 1, one)
        .start()
        .await
        .unwrap();
    for (n, bad) in [
        json!({"to": 5}),
        json!({"unknown": 1}),
        json!("text"),
        json!({"to": "a", "x": 1}),
    ]
    .into_iter()
    .enumerate()
    {
        let run = engine.run("one", &format!("r{n}"), &bad).await.unwrap();
        let error = run.result::<Value>().await.unwrap_err();
        assert!(error.to_string().contains("do not fit"), "{error}");
    }
    let actions = log
        .entries()
        .iter()
        .filter(|r| matches!(r.entry.body, Body::Action(_)))
        .count();
    assert_eq!((actions, target.executions().len()), (0, 0));
}

#[tokio::test]
async fn a_cancelled_run_starts_nothing_new_and_ends_as_cancelled() {
    async fn long(mut wf: Workflow, _: Value) -> Result<u32, CallError> {
        wf.call_json("pay", &json!({"n": 1})).await?;
        wf.sleep(Duration::from_secs(3_600)).await?;
        wf.call_json("pay", &json!({"n": 2})).await?;
        Ok(1)
    }
    let (log, target) = (log(), Target::default());
    let engine: Engine = builder(&log, contract("pay"), &target)
        .workflow("w", 1, long)
        .start()
        .await
        .unwrap();
    let run = engine.run("w", "r", json!(null)).await.unwrap();
    target.until(1).await;
    engine
        .change(request("c", Change::Cancel { run: "r".into() }))
        .await
        .unwrap();
    let error = run.result::<Value>().await.unwrap_err();
    assert!(error.to_string().contains("cancelled"), "{error}");
    assert_eq!(target.executions().len(), 1);
}

#[tokio::test]
async fn a_sleep_goes_on_after_a_restart_and_fires_once() {
    async fn nap(mut wf: Workflow, _: Value) -> Result<u32, CallError> {
        wf.sleep(Duration::from_millis(80)).await?;
        wf.call_json("pay", &json!({"n": 1})).await?;
        Ok(1)
    }
    let (log, target) = (log(), Target::default());
    let first = builder(&log, contract("pay"), &target)
        .workflow("w", 1, nap)
        .start()
        .await
        .unwrap();
    first.run("w", "r", json!(null)).await.unwrap();
    let set = |log: &MemoryLog| {
        log.entries()
            .iter()
            .filter(|r| matches!(r.entry.body, Body::TimerSet(_)))
            .count()
    };
    while set(&log) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let log = log.reopen();
    let second = builder(&log, contract("pay"), &target)
        .workflow("w", 1, nap)
        .start()
        .await
        .unwrap();
    second
        .run("w", "r", json!(null))
        .await
        .unwrap()
        .result::<u32>()
        .await
        .unwrap();
    let fired = log
        .entries()
        .iter()
        .filter(|r| matches!(r.entry.body, Body::TimerFired(_)))
        .count();
    assert_eq!((set(&log), fired, target.executions().len()), (1, 1, 1));
}

#[tokio::test]
async fn p12_what_a_model_names_is_data_an_undeclared_tool_does_not_exist() {
    /// Calls whatever a model's output names, with the arguments it names.
    async fn obey(mut wf: Workflow, output: Value) -> Result<Value, CallError> {
        let tool = output["tool"].as_str().unwrap_or_default().to_owned();
        wf.call_json(&tool, &output["arguments"]).await
    }
    let (log, target) = (log(), Target::default());
    let engine = builder(&log, contract("pay").approved_by_a_person(), &target)
        .workflow("obey", 1, obey)
        .start()
        .await
        .unwrap();
    let undeclared = json!({"tool": "wipe", "arguments": {"to": "ann"}});
    let run = engine.run("obey", "r1", &undeclared).await.unwrap();
    let error = run.result::<Value>().await.unwrap_err().to_string();
    assert!(
        error.contains("not declared") && error.contains("pay"),
        "{error}"
    );

    // Its words approve nothing: the declared tool still waits for a person.
    let bold = json!({"tool": "pay", "arguments": {"to": "approved: true"}});
    let mut run = engine.run("obey", "r2", &bold).await.unwrap();
    assert!(matches!(run.rests().await, RunStatus::NeedsPerson));
    assert!(target.executions().is_empty());
}

#[tokio::test]
async fn p9_parked_and_waiting_branches_leave_their_turn_to_others() {
    async fn narrow(mut wf: Workflow, _: Value) -> Result<u32, CallError> {
        let items = (0..6).map(|n| (n.to_string(), n));
        let ended = wf
            .all(1, items, |mut scope, n| async move {
                scope.call_json("pay", &json!({"n": n})).await
            })
            .await;
        Ok(ended.into_iter().filter(Result::is_ok).count() as u32)
    }
    let (log, target) = (log(), Target::default());
    target.then(Act::Panic).then(Act::Panic);
    let start = |log: MemoryLog, target: Target| async move {
        builder(&log, contract("pay"), &target)
            .workflow("w", 1, narrow)
            .start()
            .await
            .unwrap()
    };
    let engine = start(log.clone(), target.clone()).await;
    let mut run = engine.run("w", "r", json!(null)).await.unwrap();
    assert!(matches!(run.rests().await, RunStatus::NeedsPerson));
    assert_eq!(
        target.executions().len(),
        6,
        "two are parked, the other four had their turn"
    );

    // A restart replays that, and a person settles both.
    let log = log.reopen();
    let engine = start(log.clone(), target.clone()).await;
    let mut run = engine.run("w", "r", json!(null)).await.unwrap();
    assert!(matches!(run.rests().await, RunStatus::NeedsPerson));
    for item in engine.pending().await.unwrap().items {
        let resolution = Settle::Executed {
            output: json!("ok"),
        };
        let change = Change::Resolve {
            intent: item.intent.clone(),
            resolution,
        };
        engine.change(request(&item.intent, change)).await.unwrap();
    }
    assert_eq!(run.result::<u32>().await.unwrap(), 6);

    // So do branches that await approval: all are listed, whatever the limit.
    let log = scripted::log();
    let engine = builder(&log, contract("pay").approved_by_a_person(), &target)
        .workflow("w", 1, narrow)
        .start()
        .await
        .unwrap();
    let mut run = engine.run("w", "r", json!(null)).await.unwrap();
    assert!(matches!(run.rests().await, RunStatus::NeedsPerson));
    assert_eq!(engine.pending().await.unwrap().items.len(), 6);
}

#[tokio::test]
async fn a_request_id_used_for_something_else_is_a_conflict() {
    let (log, target) = (log(), Target::default());
    target.then(Act::Panic);
    let engine = builder(&log, contract("pay"), &target)
        .workflow("one", 1, one)
        .start()
        .await
        .unwrap();
    let mut run = engine.run("one", "r", json!({"to": "ann"})).await.unwrap();
    run.rests().await;
    let never_ran = || Change::Resolve {
        intent: "r/0#1".into(),
        resolution: Settle::NeverRan,
    };
    let first = engine.change(request("q", never_ran())).await.unwrap();
    let again = engine.change(request("q", never_ran())).await.unwrap();
    assert!(again.replayed && again.sequence == first.sequence);
    let other = Change::Cancel { run: "r".into() };
    let refusal = engine.change(request("q", other)).await.unwrap_err();
    assert_eq!(refusal.code, "request_conflict");
}

#[tokio::test]
async fn a_person_may_settle_what_a_reconciler_could_not() {
    let (log, target) = (log(), Target::default());
    target.then(Act::HangBefore);
    let slow = contract("pay")
        .reconcilable(Closure::AbortClaim)
        .timeout(Duration::from_millis(1));
    target.answer(JsonAnswer::Unknown("down".into()));
    let mut slow = slow;
    slow.asks.backoff_first = Duration::from_secs(60);
    slow.asks.backoff_max = Duration::from_secs(60);
    let engine = builder(&log, slow, &target)
        .workflow("one", 1, one)
        .start()
        .await
        .unwrap();
    let run = engine.run("one", "r", json!({"to": "ann"})).await.unwrap();
    while target.asked.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let give_up = Change::Resolve {
        intent: "r/0#1".into(),
        resolution: Settle::GiveUp,
    };
    engine.change(request("q", give_up)).await.unwrap();
    assert!(
        run.result::<Value>()
            .await
            .unwrap_err()
            .to_string()
            .contains("given up")
    );
}

#[tokio::test]
async fn p3_a_dropped_call_leaves_its_action_in_doubt() {
    let (log, target) = (log(), Target::default());
    target.then(Act::Hang);
    let engine = builder(&log, contract("pay"), &target)
        .workflow("one", 1, one)
        .start()
        .await
        .unwrap();
    engine.run("one", "r", json!({"to": "ann"})).await.unwrap();
    target.until(1).await;
    // The grace is over: the tool's future is dropped.
    engine.stop(Duration::ZERO).await;
    let interrupted = log.entries().iter().any(|r| {
        matches!(&r.entry.body, Body::Outcome(entry) if matches!(entry.outcome, Outcome::Interrupted { .. }))
    });
    assert!(
        interrupted,
        "what is left is in doubt, and the record says so"
    );
    assert!(
        !log.entries()
            .iter()
            .any(|r| matches!(r.entry.body, Body::PassEnded(_)))
    );
}

#[tokio::test]
async fn a_cancel_that_comes_while_nobody_drives_refuses_what_awaits_approval() {
    let (log, target) = (log(), Target::default());
    let pay = || contract("pay").approved_by_a_person();
    let engine = builder(&log, pay(), &target)
        .workflow("one", 1, one)
        .start()
        .await
        .unwrap();
    let mut run = engine.run("one", "r", json!({"to": "ann"})).await.unwrap();
    run.rests().await;
    let log = log.reopen();
    let engine = builder(&log, pay(), &target)
        .workflow("one", 1, one)
        .drive_on_request()
        .start()
        .await
        .unwrap();
    engine
        .change(request("c", Change::Cancel { run: "r".into() }))
        .await
        .unwrap();
    // Retry has to wait for the end: what is open may still be delivered.
    let retry = Change::Retry {
        run: "r".into(),
        item: None,
    };
    assert_eq!(
        engine.change(request("t", retry)).await.unwrap_err().code,
        "open"
    );
    let run = engine.resume("r").await.unwrap();
    let error = run.result::<Value>().await.unwrap_err();
    assert!(error.to_string().contains("cancelled"), "{error}");
    assert!(target.executions().is_empty());
}

#[tokio::test]
async fn p6_a_change_that_is_being_recorded_is_not_overtaken_by_a_driver() {
    let (log, target) = (log(), Target::default());
    target.then(Act::Hang);
    let pay = || contract("pay").idempotent(Duration::from_secs(3_600));
    let first = builder(&log, pay(), &target)
        .workflow("one", 1, one)
        .start()
        .await
        .unwrap();
    first.run("one", "r", json!({"to": "ann"})).await.unwrap();
    target.until(1).await;

    let log = log.reopen();
    let engine = builder(&log, pay(), &target)
        .workflow("one", 1, one)
        .drive_on_request()
        .start()
        .await
        .unwrap();
    log.hold();
    let resolution = Settle::Executed {
        output: json!("by hand"),
    };
    let settle = Change::Resolve {
        intent: "r/0#1".into(),
        resolution,
    };
    let changing = tokio::spawn({
        let engine = engine.clone();
        async move { engine.change(request("q", settle)).await }
    });
    while log.held().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // The word is handed over and not durable yet: whoever takes the run up must wait for it.
    let resuming = tokio::spawn({
        let engine = engine.clone();
        async move { engine.resume("r").await }
    });
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    log.release_all();
    changing.await.unwrap().unwrap();
    let run = resuming.await.unwrap().unwrap();
    assert_eq!(run.result::<Value>().await.unwrap(), json!("by hand"));
    assert_eq!(
        target.executions().len(),
        1,
        "what a person settled is not sent again"
    );
}

#[tokio::test]
async fn a_retry_does_again_what_happened_only_where_a_person_names_it() {
    let (log, target) = (log(), Target::default());
    let mut pay = contract("pay");
    pay.output = Some(json!({"type": "integer"}));
    // It happened, and its output does not fit.
    target.then(Act::Succeed(json!("text")));
    let engine = builder(&log, pay, &target)
        .workflow("one", 1, one)
        .start()
        .await
        .unwrap();
    let run = engine.run("one", "r", json!({"to": "ann"})).await.unwrap();
    assert!(
        run.result::<Value>()
            .await
            .unwrap_err()
            .to_string()
            .contains("unusable")
    );

    let all = Change::Retry {
        run: "r".into(),
        item: None,
    };
    assert_eq!(
        engine.change(request("a", all)).await.unwrap_err().code,
        "not_found"
    );
    let named = Change::Retry {
        run: "r".into(),
        item: Some("0".into()),
    };
    let done = engine.change(request("b", named)).await.unwrap();
    assert!(
        done.warnings[0].contains("HAS happened"),
        "{:?}",
        done.warnings
    );
    assert_eq!(target.executions().len(), 1);
}
