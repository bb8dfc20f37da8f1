//! Commands as reconcilers.

use std::time::Duration;

use intendant::tool::json::{JsonReconciler, JsonTool};
use intendant::tool::reconciler::JsonAnswer;
use intendant_reconcilers::command::{
    Argv, AttemptLock, CommandReconciler, CommandSpec, CommandTool,
};
use serde_json::json;

use crate::place::{KEY, LONG, Place, attempt, contract, file, lives};

fn reconciler(place: &Place, script: &str, timeout: Duration) -> CommandReconciler {
    let spec = CommandSpec {
        reconcile: Some(Argv::new(["sh", "-c", script]).unwrap()),
        ..place.spec("exit 1")
    };
    CommandReconciler::new(&spec, timeout).unwrap()
}

async fn ask(place: &Place, script: &str) -> JsonAnswer {
    let arguments = json!({"id": 7});
    reconciler(place, script, LONG)
        .ask(&attempt(3), &arguments)
        .await
}

fn why(answer: JsonAnswer) -> String {
    match answer {
        JsonAnswer::Unknown(why) => why,
        other => panic!("read as {other:?}"),
    }
}

#[tokio::test]
async fn it_gets_the_attempt_in_doubt_and_its_arguments() {
    let place = Place::new();
    let answer = ask(
        &place,
        "printf '{\"executed\":{\"output\":'; cat; \
         printf ',\"evidence\":\"%s/%s\"}}\\n' $INTENDANT_IDEMPOTENCY_KEY $INTENDANT_ATTEMPT",
    )
    .await;
    assert_eq!(
        answer,
        JsonAnswer::Executed {
            output: json!({"id": 7}),
            evidence: json!(format!("{KEY}/3")),
        }
    );
    assert!(!place.lock(3).exists());
}

#[tokio::test]
async fn each_of_the_other_answers_is_read() {
    let place = Place::new();
    for (printed, expected) in [
        (
            r#"{"never_will":{}}"#,
            JsonAnswer::NeverWill {
                burned: false,
                evidence: None,
            },
        ),
        (
            r#"{"never_will":{"burned":true,"evidence":"slot 3"}}"#,
            JsonAnswer::NeverWill {
                burned: true,
                evidence: Some(json!("slot 3")),
            },
        ),
        (
            r#"{"running":{"retry_after":"2s"}}"#,
            JsonAnswer::Running {
                retry_after: Duration::from_secs(2),
            },
        ),
        (
            r#"{"not_seen":{"as_of":"noon"}}"#,
            JsonAnswer::NotSeen {
                as_of: "noon".into(),
            },
        ),
        (
            r#"{"unknown":{"why":"bank is down"}}"#,
            JsonAnswer::Unknown("bank is down".into()),
        ),
    ] {
        assert_eq!(ask(&place, &format!("echo '{printed}'")).await, expected);
    }
}

#[tokio::test]
async fn whatever_is_no_answer_is_unknown_and_says_why() {
    let place = Place::new();
    for (script, said) in [
        ("", "printed nothing"),
        ("echo found", "is not JSON"),
        ("echo '{\"never_will\":{}}{\"unknown\":{}}'", "is not JSON"),
        (
            "echo '{\"never_will\":{}}'; echo no luck >&2; exit 3",
            "exited with 3: no luck",
        ),
        (
            "echo '{\"never_will\":{}}'; kill -KILL $$",
            "killed by signal 9",
        ),
        ("head -c 20000000 /dev/zero", "20000000 bytes"),
        // Declared exit codes are for the tool; of a reconciler only 0 is an answer.
        ("echo '{\"never_will\":{}}'; exit 10", "exited with 10"),
    ] {
        let why = why(ask(&place, script).await);
        assert!(why.contains(said), "{script}: {why}");
    }
    let spec = CommandSpec {
        reconcile: Some(Argv::new(["./missing"]).unwrap()),
        ..place.spec("true")
    };
    let missing = CommandReconciler::new(&spec, LONG).unwrap();
    let why = why(missing.ask(&attempt(3), &json!({})).await);
    assert!(why.contains("./missing"), "{why}");
}

#[tokio::test]
async fn out_of_time_is_unknown_even_if_it_had_printed_an_answer() {
    let place = Place::new();
    let slow = reconciler(
        &place,
        "echo $$ >pid; echo '{\"never_will\":{}}'; sleep 600",
        Duration::from_secs(1),
    );
    let why = why(slow.ask(&attempt(3), &json!({})).await);
    assert!(why.contains("did not answer within"), "{why}");
    assert!(!lives(place.pid("pid")));
    assert!(!place.lock(3).exists());
}

#[tokio::test]
async fn fault_d9_a_question_waits_for_the_death_of_what_it_asks_about() {
    let place = Place::new();
    let held = AttemptLock::try_take(&place.lock(3)).unwrap().unwrap();
    let asks = reconciler(&place, "touch asked; echo '{\"never_will\":{}}'", LONG);
    let (cx, arguments) = (attempt(3), json!({}));
    assert!(
        matches!(asks.ask(&cx, &arguments).await, JsonAnswer::Running { .. }),
        "asked while the attempt lives"
    );
    assert!(!place.path("asked").exists());

    let tool = CommandTool::new(contract(), &place.spec("true"));
    let short = Duration::from_millis(50);
    for waits in [asks.sender_gone(&cx), tool.sender_gone(&cx)] {
        assert!(tokio::time::timeout(short, waits).await.is_err());
    }
    drop(held);
    for waits in [asks.sender_gone(&cx), tool.sender_gone(&cx)] {
        tokio::time::timeout(LONG, waits).await.unwrap();
    }
    assert!(!place.lock(3).exists());
    assert!(matches!(
        asks.ask(&cx, &arguments).await,
        JsonAnswer::NeverWill { .. }
    ));
}

#[tokio::test]
async fn a_reconciler_that_a_crash_left_behind_is_waited_for_too() {
    let place = Place::new();
    let asks = reconciler(&place, "echo $$ >pid; sleep 600", LONG);
    let (cx, arguments) = (attempt(3), json!({}));
    tokio::select! {
            answer = asks.ask(&cx, &arguments) => panic!("{answer:?}"),
    () = async {
                file(place.path("pid")).await;
                assert!(lives(place.pid("pid")));
            } => {}
        }
    tokio::time::timeout(LONG, asks.sender_gone(&cx))
        .await
        .unwrap();
    assert!(!lives(place.pid("pid")));
}

#[test]
fn a_command_without_a_reconciler_has_none() {
    assert!(CommandReconciler::new(&Place::new().spec("true"), LONG).is_none());
}
