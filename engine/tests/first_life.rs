//! One tool, its reconciler, a workflow: what happens to an action that is cut.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use intendant::engine::Engine;
use intendant::tool::call::Call;
use intendant::tool::contract::{Closure, Contract};
use intendant::tool::error::ToolError;
use intendant::tool::json::AttemptContext;
use intendant::tool::typed::{Answer, Reconciler, Tool};
use intendant::workflow::{CallError, Workflow};
use intendant_journal::format::entry::JournalId;
use intendant_journal::memory::MemoryLog;
use serde_json::json;

/// A target that remembers what it did: key to receipt.
#[derive(Clone, Default)]
struct Bank {
    paid: Arc<Mutex<Vec<(String, u64)>>>,
    hang_after_effect: Arc<AtomicU32>,
}

struct Pay(Bank);

#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Payout {
    to: String,
    cents: u64,
}

impl Tool for Pay {
    const NAME: &'static str = "pay";
    type Input = Payout;
    type Output = String;

    fn contract(&self) -> Contract {
        Contract::new("pay").reconcilable(Closure::AbortClaim)
    }

    async fn call(&self, cx: &Call, input: Payout) -> Result<String, ToolError> {
        self.0
            .paid
            .lock()
            .unwrap()
            .push((cx.key.to_string(), input.cents));
        if self.0.hang_after_effect.load(Ordering::SeqCst) > 0 {
            self.0.hang_after_effect.fetch_sub(1, Ordering::SeqCst);
            std::future::pending::<()>().await;
        }
        Ok(format!("receipt for {}", input.to))
    }
}

struct AskBank(Bank);

impl Reconciler<Pay> for AskBank {
    async fn ask(&self, cx: &AttemptContext, input: Payout) -> Answer<Pay> {
        let paid = self.0.paid.lock().unwrap();
        match paid.iter().find(|(key, _)| *key == cx.key.to_string()) {
            Some(_) => Answer::Executed {
                output: format!("receipt for {}", input.to),
                evidence: json!({"seen": true}),
            },
            None => Answer::NeverWill,
        }
    }
}

async fn payouts(mut wf: Workflow, people: Vec<String>) -> Result<Vec<String>, CallError> {
    let items = people.into_iter().map(|person| (person.clone(), person));
    let receipts = wf
        .all(2, items, |mut scope, to| async move {
            scope.call::<Pay>(Payout { to, cents: 100 }).await
        })
        .await;
    receipts.into_iter().collect()
}

async fn engine(log: &MemoryLog, bank: &Bank) -> Engine {
    Engine::builder(log.clone())
        .tool(Pay(bank.clone()))
        .reconciler::<Pay>(AskBank(bank.clone()))
        .workflow("payouts", 1, payouts)
        .start()
        .await
        .unwrap()
}

#[tokio::test]
async fn a_run_runs_and_its_id_is_the_same_run_ever_after() {
    let (log, bank) = (MemoryLog::new(JournalId([1; 16])), Bank::default());
    let engine = engine(&log, &bank).await;
    let people = vec!["ann", "bob", "cid"];
    let run = engine.run("payouts", "r1", &people).await.unwrap();
    let receipts: Vec<String> = run.result().await.unwrap();
    assert_eq!(
        receipts,
        ["receipt for ann", "receipt for bob", "receipt for cid"]
    );
    let again = engine.run("payouts", "r1", &people).await.unwrap();
    assert_eq!(again.result::<Vec<String>>().await.unwrap(), receipts);
    assert_eq!(bank.paid.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn p2_an_action_that_was_cut_is_settled_by_its_reconciler_and_done_once() {
    let (log, bank) = (MemoryLog::new(JournalId([1; 16])), Bank::default());
    bank.hang_after_effect.store(2, Ordering::SeqCst);
    let first = engine(&log, &bank).await;
    let people = vec!["ann", "bob", "cid"];
    let _run = first.run("payouts", "r1", &people).await.unwrap();
    while bank.hang_after_effect.load(Ordering::SeqCst) > 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // The process is gone: nothing of it writes any more.
    let reopened = log.reopen();
    let second = engine(&reopened, &bank).await;
    let run = second.run("payouts", "r1", &people).await.unwrap();
    let receipts: Vec<String> = run.result().await.unwrap();
    assert_eq!(receipts.len(), 3);
    let mut keys: Vec<_> = bank
        .paid
        .lock()
        .unwrap()
        .iter()
        .map(|(key, _)| key.clone())
        .collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 3, "three actions, three keys");
    assert_eq!(bank.paid.lock().unwrap().len(), 3, "each effect once");
    let counts = second.counts("r1").await.unwrap().unwrap();
    assert_eq!((counts.done, counts.reconciled, counts.parked), (3, 2, 0));
}
