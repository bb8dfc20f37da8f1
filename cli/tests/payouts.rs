//! The scripts of `examples/payouts`, run by hand in every order: whatever happens, each key is
//! paid once, and "never will" stays true.

#![expect(clippy::unwrap_used, reason = "a failed step of a test fails the test")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

const KEY: &str = "00112233445566778899aabbccddeeff";
const ARGUMENTS: &str = r#"{"account":"acct-001","cents":1250,"id":"p-0001"}"#;

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../examples/payouts")
        .canonicalize()
        .unwrap()
}

/// A ledger and the scripts that write it.
struct Bank {
    ledger: tempfile::TempDir,
}

impl Bank {
    fn new() -> Self {
        Self {
            ledger: tempfile::tempdir().unwrap(),
        }
    }

    fn spawn(&self, script: &str, attempt: u32, arguments: &str) -> Child {
        let mut child = Command::new("sh")
            .arg(example().join(script))
            .current_dir(self.ledger.path())
            .env("PAYOUTS_LEDGER", self.ledger.path().join("ledger"))
            .env("INTENDANT_IDEMPOTENCY_KEY", KEY)
            .env("INTENDANT_ATTEMPT", attempt.to_string())
            // Whatever the environment holds must not be taken for what the scripts found.
            .env("found", "run")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        use std::io::Write;
        let mut stdin = child.stdin.take().unwrap();
        // The reconciler does not read its arguments, so the pipe may be closed already.
        let _ = stdin.write_all(arguments.as_bytes());
        child
    }

    fn pay(&self, attempt: u32) -> Result<Value, i32> {
        answer(
            self.spawn("pay.sh", attempt, ARGUMENTS)
                .wait_with_output()
                .unwrap(),
        )
    }

    fn reconcile(&self, attempt: u32) -> Value {
        let child = self.spawn("reconcile.sh", attempt, ARGUMENTS);
        answer(child.wait_with_output().unwrap()).unwrap()
    }

    /// Slots by name, without leftovers.
    fn slots(&self) -> Vec<(String, String)> {
        let mut slots: Vec<_> = std::fs::read_dir(self.ledger.path().join("ledger"))
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| {
                let name = entry.file_name().into_string().unwrap();
                (name, std::fs::read_to_string(entry.path()).unwrap())
            })
            .filter(|(name, _)| !name.starts_with('.'))
            .map(|(name, text)| (name.replace(KEY, "K"), text))
            .collect();
        slots.sort();
        slots
    }

    fn put(&self, name: &str, text: &str) {
        let ledger = self.ledger.path().join("ledger");
        std::fs::create_dir_all(&ledger).unwrap();
        std::fs::write(ledger.join(name), text).unwrap();
    }
}

fn answer(output: Output) -> Result<Value, i32> {
    match output.status.code() {
        Some(0) => Ok(serde_json::from_slice(&output.stdout).unwrap()),
        code => {
            assert!(output.stdout.is_empty(), "a failure prints no output");
            Err(code.unwrap())
        }
    }
}

fn receipt(attempt: u32) -> Value {
    json!({ "receipt": format!("{KEY}-{attempt}") })
}

fn executed(attempt: u32) -> Value {
    json!({ "executed": {
        "output": receipt(attempt),
        "evidence": { "slot": format!("{KEY}.{attempt}") },
    } })
}

fn never_will(attempt: u32) -> Value {
    json!({ "never_will": { "evidence": { "slot": format!("{KEY}.{attempt}") } } })
}

fn slots(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), format!("{text}\n"));
    expected.iter().map(owned).collect()
}

const RUN: &str = "run p-0001 acct-001 1250";

#[test]
fn a_payout_is_made_once_and_its_receipt_is_the_same_each_time() {
    let bank = Bank::new();
    assert_eq!(bank.pay(1), Ok(receipt(1)));
    assert_eq!(bank.pay(1), Ok(receipt(1)));
    assert_eq!(bank.slots(), slots(&[("K.1", RUN)]));
}

#[test]
fn reconcile_after_pay_reports_it() {
    let bank = Bank::new();
    assert_eq!(bank.pay(1), Ok(receipt(1)));
    assert_eq!(bank.reconcile(1), executed(1));
    assert_eq!(bank.slots(), slots(&[("K.1", RUN)]));
}

#[test]
fn reconcile_before_pay_rules_it_out_for_good() {
    let bank = Bank::new();
    assert_eq!(bank.reconcile(1), never_will(1));
    assert_eq!(bank.pay(1), Err(10), "a late request of a voided attempt");
    assert_eq!(bank.reconcile(1), never_will(1), "the answer stays");
    assert_eq!(bank.slots(), slots(&[("K.1", "void")]));
}

#[test]
fn a_second_attempt_pays_after_the_first_was_voided_and_a_late_first_one_does_not() {
    let bank = Bank::new();
    assert_eq!(bank.reconcile(1), never_will(1));
    assert_eq!(bank.pay(2), Ok(receipt(2)));
    assert_eq!(bank.pay(1), Err(10));
    assert_eq!(bank.reconcile(2), executed(2));
    assert_eq!(bank.slots(), slots(&[("K.1", "void"), ("K.2", RUN)]));
}

#[test]
fn a_second_attempt_voids_the_first_itself() {
    let bank = Bank::new();
    assert_eq!(bank.pay(3), Ok(receipt(3)));
    assert_eq!(bank.pay(2), Err(10));
    assert_eq!(bank.pay(1), Err(10));
    assert_eq!(
        bank.slots(),
        slots(&[("K.1", "void"), ("K.2", "void"), ("K.3", RUN)])
    );
}

#[test]
fn a_second_attempt_finds_that_the_first_has_paid() {
    let bank = Bank::new();
    assert_eq!(bank.pay(1), Ok(receipt(1)));
    assert_eq!(bank.pay(2), Ok(receipt(1)));
    assert_eq!(bank.reconcile(2), executed(1));
    assert_eq!(bank.slots(), slots(&[("K.1", RUN)]));
}

#[test]
fn a_late_first_attempt_after_two_voided_ones() {
    let bank = Bank::new();
    assert_eq!(bank.reconcile(2), never_will(2));
    assert_eq!(bank.pay(1), Err(10));
    assert_eq!(bank.pay(2), Err(10));
    assert_eq!(bank.pay(3), Ok(receipt(3)));
}

#[test]
fn arguments_that_are_no_payout_fail_before_the_ledger_is_touched() {
    let bank = Bank::new();
    for bad in [
        "",
        "{}",
        r#"{"account":"a","cents":-5,"id":"p"}"#,
        r#"{"account":"a","cents":1.5,"id":"p"}"#,
        r#"{"account":"a","cents":"5","id":"p"}"#,
        r#"{"account":"a\"b","cents":5,"id":"p"}"#,
        r#"{"account":"a","cents":5,"id":""}"#,
        r#"{"account":"","cents":5,"id":"p"}"#,
        r#"{"account":"a","cents":5}"#,
        r#"{"cents":5,"id":"p"}"#,
        r#"{"account":"a","id":"p"}"#,
    ] {
        let child = bank.spawn("pay.sh", 1, bad);
        assert_eq!(answer(child.wait_with_output().unwrap()), Err(10), "{bad}");
    }
    assert!(!bank.ledger.path().join("ledger").exists());
}

/// Nobody knows what such a slot means, so neither script may guess.
#[test]
fn a_slot_that_cannot_be_understood_is_unknown_and_nothing_is_paid() {
    let bank = Bank::new();
    bank.put(&format!("{KEY}.1"), "");
    assert_eq!(bank.pay(1), Err(1));
    assert_eq!(bank.pay(2), Err(1));
    assert!(bank.reconcile(1).get("unknown").is_some());
    assert!(bank.reconcile(2).get("unknown").is_some());
    assert_eq!(bank.slots(), [("K.1".to_owned(), String::new())]);
}

/// A killed script may leave a file linked to a slot. A later one with the same process id must
/// not write into it.
#[test]
fn a_leftover_of_a_killed_script_cannot_change_a_slot() {
    let bank = Bank::new();
    assert_eq!(bank.pay(1), Ok(receipt(1)));
    let ledger = bank.ledger.path().join("ledger");
    let mut pay = Command::new("sh");
    // The shell replaces itself, so that its process id is the script's.
    pay.arg("-c")
        .arg("ln \"$PAYOUTS_LEDGER/$1.1\" \"$PAYOUTS_LEDGER/.void.$1.1.$$\" && exec sh \"$2\"")
        .args(["sh", KEY])
        .arg(example().join("reconcile.sh"))
        .env("PAYOUTS_LEDGER", &ledger)
        .env("INTENDANT_IDEMPOTENCY_KEY", KEY)
        .env("INTENDANT_ATTEMPT", "1")
        .stdin(Stdio::null());
    assert_eq!(answer(pay.output().unwrap()), Ok(executed(1)));
    assert_eq!(bank.slots(), slots(&[("K.1", RUN)]));
}

/// The payment and the question race for the slot; one of them wins, and the other one says so.
#[test]
fn of_a_payment_and_a_question_at_the_same_time_exactly_one_wins() {
    let mut paid = 0;
    for round in 0..50 {
        let bank = Bank::new();
        // Who is started first takes turns, so that both have their chance.
        let (payment, question) = if round % 2 == 0 {
            let payment = bank.spawn("pay.sh", 1, ARGUMENTS);
            (payment, bank.spawn("reconcile.sh", 1, ARGUMENTS))
        } else {
            let question = bank.spawn("reconcile.sh", 1, ARGUMENTS);
            (bank.spawn("pay.sh", 1, ARGUMENTS), question)
        };
        let payment = answer(payment.wait_with_output().unwrap());
        let question = answer(question.wait_with_output().unwrap()).unwrap();
        match payment {
            Ok(output) => {
                assert_eq!(output, receipt(1));
                assert_eq!(question, executed(1));
                assert_eq!(bank.slots(), slots(&[("K.1", RUN)]));
                paid += 1;
            }
            Err(code) => {
                assert_eq!(code, 10);
                assert_eq!(question, never_will(1));
                assert_eq!(bank.slots(), slots(&[("K.1", "void")]));
            }
        }
    }
    println!("{paid} of 50 payments won");
}

/// All attempts at once: one of them pays, and all agree on the receipt or were voided.
#[test]
fn of_many_attempts_at_the_same_time_exactly_one_pays() {
    for _ in 0..10 {
        let bank = Bank::new();
        let attempts: Vec<Child> = (1..=4)
            .map(|attempt| bank.spawn("pay.sh", attempt, ARGUMENTS))
            .collect();
        let answers: Vec<_> = attempts
            .into_iter()
            .map(|attempt| answer(attempt.wait_with_output().unwrap()))
            .collect();
        let slots = bank.slots();
        let runs: Vec<_> = slots
            .iter()
            .filter(|(_, text)| text.starts_with("run"))
            .collect();
        assert_eq!(runs.len(), 1, "{slots:?}");
        let number: u32 = runs[0].0.strip_prefix("K.").unwrap().parse().unwrap();
        for answer in answers {
            assert!(
                answer == Ok(receipt(number)) || answer == Err(10),
                "{answer:?}"
            );
        }
    }
}

#[test]
fn the_job_file_of_the_example_is_sound() {
    let summary = intendant_cli::job::check(&example().join("job.toml")).unwrap();
    assert_eq!((summary.job.as_str(), summary.items), ("payouts", 500));
    assert_eq!(summary.tools[0].recovery, "reconcilable");
    assert_eq!(summary.tools[0].closure.as_deref(), Some("abort_claim"));
}
