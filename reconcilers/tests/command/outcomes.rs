//! How a command's end is read.

use std::time::Duration;

use intendant::tool::error::ToolError;
use intendant::tool::json::RawOutput;
use intendant_reconcilers::command::{CommandTool, Ended, Ending};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::place::{KEY, LONG, Place, attempt, call, call_with, contract, file, run};

#[tokio::test]
async fn a_success_gets_arguments_environment_and_folder_and_gives_its_output() {
    let place = Place::new();
    let spec = place.spec(
        "cat >args; env | grep ^INTENDANT_ | sort >env; pwd >cwd; echo '{\"id\":7}'; echo note >&2",
    );
    let reply = call_with(&spec, &json!({"z": 1, "a": {"c": "é", "b": [1.5, null]}})).await;
    assert_eq!(reply.result, Ok(RawOutput::Text(b"{\"id\":7}\n".to_vec())));
    assert_eq!(reply.log, b"note\n");
    assert_eq!(
        place.read("args"),
        r#"{"a":{"b":[1.5,null],"c":"é"},"z":1}"#
    );
    assert_eq!(
        place.read("env"),
        format!(
            "INTENDANT_ACTION=payouts/pay[k-1]\nINTENDANT_ATTEMPT=1\nINTENDANT_EPOCH=4\n\
             INTENDANT_IDEMPOTENCY_KEY={KEY}\nINTENDANT_RUN=payouts\n"
        )
    );
    let cwd = std::fs::canonicalize(place.folder.path()).unwrap();
    assert_eq!(place.read("cwd").trim(), cwd.to_str().unwrap());
    assert!(!place.lock(1).exists(), "a lock file stayed behind");
}

#[tokio::test]
async fn trial_b17_every_attempt_carries_the_same_key() {
    let place = Place::new();
    let spec = place.spec("echo $INTENDANT_IDEMPOTENCY_KEY $INTENDANT_ATTEMPT >>seen");
    for number in 1..=3 {
        let finished = run(&spec, &attempt(number), &json!({}), LONG).await;
        assert_eq!(finished.ending, Ending::Ended(Ended::Exited(0)));
    }
    assert_eq!(place.read("seen"), format!("{KEY} 1\n{KEY} 2\n{KEY} 3\n"));
}

#[tokio::test]
async fn a_program_with_a_slash_is_found_from_the_folder_of_the_job() {
    let place = Place::new();
    place.script("pay.sh", "#!/bin/sh\necho '\"paid\"'\n");
    let reply = call(&place.spec_of(["./pay.sh"])).await;
    assert_eq!(reply.result, Ok(RawOutput::Text(b"\"paid\"\n".to_vec())));
}

#[tokio::test]
async fn exit_codes_mean_what_is_declared_and_else_nothing() {
    let place = Place::new();
    let exit = |how: &str| place.spec(&format!("echo 'bank: no' >&2; {how}"));

    let failed = call(&exit("exit 10")).await.result;
    assert_eq!(
        failed,
        Err(ToolError::Failed("sh exited with 10: bank: no".into()))
    );
    let not_executed = call(&exit("exit 75")).await.result;
    assert_eq!(
        not_executed,
        Err(ToolError::NotExecuted("sh exited with 75: bank: no".into()))
    );
    for (how, message) in [
        ("exit 1", "exited with 1"),
        ("exit 74", "exited with 74"),
        ("exit 127", "exited with 127"),
        ("kill -SEGV $$", "killed by signal 11"),
        ("kill -KILL $$", "killed by signal 9"),
    ] {
        match call(&exit(how)).await.result {
            Err(ToolError::Unknown(why)) => {
                assert!(why.contains(message) && why.contains("bank: no"), "{why}");
            }
            other => panic!("{how}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn what_cannot_be_started_was_not_executed() {
    let place = Place::new();
    std::fs::write(place.path("data.txt"), "no program").unwrap();
    let mut no_folder = place.spec("true");
    no_folder.cwd = place.path("missing");
    let mut no_guard = place.spec("touch ran");
    no_guard.place.program = place.path("missing");
    let mut no_locks = place.spec("touch ran");
    no_locks.place.attempts = place.path("data.txt");
    for (what, spec) in [
        ("program", place.spec_of(["./missing"])),
        (
            "program on the path",
            place.spec_of(["no-such-program-at-all"]),
        ),
        ("permission", place.spec_of(["./data.txt"])),
        ("folder", no_folder),
        ("guard", no_guard),
        ("folder of locks", no_locks),
    ] {
        match call(&spec).await.result {
            Err(ToolError::NotExecuted(_)) => {}
            other => panic!("{what}: {other:?}"),
        }
        assert!(!place.path("ran").exists(), "{what}");
        assert!(!place.lock(1).exists(), "{what}: a lock file stayed behind");
    }
}

#[tokio::test]
async fn a_guard_that_says_nothing_leaves_the_attempt_unknown() {
    let place = Place::new();
    for guard in ["/bin/true", "/bin/false"] {
        let mut spec = place.spec("touch ran");
        spec.place.program = guard.into();
        match call(&spec).await.result {
            // A guard that is gone before it could take its order never had one.
            Err(ToolError::Unknown(why)) => assert!(why.contains("guard"), "{why}"),
            Err(ToolError::NotExecuted(why)) => assert!(why.contains("its order"), "{why}"),
            other => panic!("{guard}: {other:?}"),
        }
        assert!(!place.path("ran").exists());
    }
}

#[tokio::test]
async fn an_empty_output_is_null_only_where_none_is_declared() {
    let place = Place::new();
    let spec = place.spec("echo; echo");
    assert_eq!(call(&spec).await.result, Ok(RawOutput::Value(Value::Null)));

    let mut declared = contract();
    declared.output = Some(json!({"type": "object"}));
    let finished = run(&spec, &attempt(1), &json!({}), LONG).await;
    assert_eq!(
        CommandTool::new(declared, &spec).reply(finished).result,
        Ok(RawOutput::Text(b"\n\n".to_vec()))
    );
}

#[tokio::test]
async fn an_output_of_20_mb_is_read_to_its_end_and_known_by_its_hash() {
    let place = Place::new();
    let spec = place.spec("head -c 20000000 /dev/zero; touch done");
    let mut hash = Sha256::new();
    hash.update(vec![0; 20_000_000]);
    assert_eq!(
        call(&spec).await.result,
        Ok(RawOutput::TooLong {
            sha256: hash.finalize().into(),
            bytes: 20_000_000,
        })
    );
    assert!(place.path("done").exists());
}

#[tokio::test]
async fn a_long_log_never_blocks_and_its_end_is_kept() {
    let place = Place::new();
    let spec = place.spec(
        "head -c 3000000 /dev/zero >&2; head -c 300000 /dev/zero | tr '\\0' 7; echo last >&2",
    );
    let reply = call(&spec).await;
    assert_eq!(reply.result, Ok(RawOutput::Text(vec![b'7'; 300_000])));
    assert_eq!(reply.log.len(), 64 * 1024);
    assert!(reply.log.ends_with(b"\0last\n"));
}

#[tokio::test]
async fn a_stranger_that_holds_the_output_open_does_not_hold_up_the_answer() {
    let place = Place::new();
    let spec = place.spec("echo $$ >pid; while [ ! -e go ]; do sleep 0.01; done; echo 1");
    let stranger = async {
        file(place.path("pid")).await;
        let output = format!("/proc/{}/fd/1", place.pid("pid"));
        let held = std::fs::OpenOptions::new()
            .write(true)
            .open(output)
            .unwrap();
        std::fs::write(place.path("go"), "").unwrap();
        held
    };
    let (reply, _held) = tokio::join!(call(&spec), stranger);
    assert_eq!(reply.result, Ok(RawOutput::Text(b"1\n".to_vec())));
}

#[tokio::test]
async fn long_arguments_arrive_whole_and_need_not_be_read() {
    let place = Place::new();
    let arguments = json!({"text": "x".repeat(2_000_000)});
    let length = arguments.to_string().len();

    let reads = place.spec("wc -c");
    let reply = call_with(&reads, &arguments).await;
    assert_eq!(
        reply.result,
        Ok(RawOutput::Text(format!("{length}\n").into_bytes()))
    );
    for ignores in ["echo 1", "exec <&-; echo 1", "head -c 5 >/dev/null; echo 1"] {
        let reply = call_with(&place.spec(ignores), &arguments).await;
        assert_eq!(
            reply.result,
            Ok(RawOutput::Text(b"1\n".to_vec())),
            "{ignores}"
        );
    }
}

#[tokio::test]
async fn trial_b56_out_of_time_is_unknown_and_nothing_of_it_is_left() {
    let place = Place::new();
    let spec = place.spec("trap '' TERM INT HUP; echo $$ >pid; echo begun >&2; sleep 600 & wait");
    let finished = run(&spec, &attempt(1), &json!({}), Duration::from_secs(1)).await;
    let reply = CommandTool::new(contract(), &spec).reply(finished);
    match reply.result {
        Err(ToolError::Unknown(why)) => {
            assert!(
                why.contains("did not end within") && why.contains("begun"),
                "{why}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(!crate::place::lives(place.pid("pid")));
    assert!(!place.lock(1).exists());
}

#[tokio::test]
async fn a_deadline_that_has_passed_starts_nothing_that_stays() {
    let place = Place::new();
    let spec = place.spec("sleep 600");
    let mut late = attempt(1);
    late.deadline = std::time::SystemTime::UNIX_EPOCH;
    let finished = run(&spec, &late, &json!({}), LONG).await;
    assert!(
        !matches!(finished.ending, Ending::Ended(Ended::Exited(_))),
        "{:?}",
        finished.ending
    );
    crate::place::gone(&place.lock(1)).await;
}

#[tokio::test]
async fn two_hundred_at_once_all_end() {
    let place = Place::new();
    let spec = place.spec("cat");
    let calls: Vec<_> = (0..200)
        .map(|number| {
            let spec = spec.clone();
            tokio::spawn(async move {
                let arguments = json!({ "number": number });
                let finished = run(&spec, &attempt(number), &arguments, LONG).await;
                (
                    arguments,
                    CommandTool::new(contract(), &spec).reply(finished),
                )
            })
        })
        .collect();
    for call in calls {
        let (arguments, reply) = call.await.unwrap();
        let text = arguments.to_string().into_bytes();
        assert_eq!(reply.result, Ok(RawOutput::Text(text)));
    }
    let left = std::fs::read_dir(place.path("attempts")).unwrap().count();
    assert_eq!(left, 0, "lock files stayed behind");
}
