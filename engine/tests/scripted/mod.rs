//! A tool that does what a test's script says, over a ledger that counts every execution outside
//! the engine.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test binary uses the parts it needs"
)]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use intendant::engine::{Builder, Engine};
use intendant::tool::call::Call;
use intendant::tool::contract::{Contract, Retry};
use intendant::tool::error::ToolError;
use intendant::tool::json::{
    AttemptContext, BoxFuture, JsonReconciler, JsonTool, RawOutput, Reply,
};
use intendant::tool::reconciler::JsonAnswer;
use intendant_journal::format::entry::JournalId;
use intendant_journal::memory::MemoryLog;
use serde_json::{Value, json};

/// One execution as the target saw it.
#[derive(Clone, PartialEq, Debug)]
pub struct Execution {
    pub action: String,
    pub key: String,
    pub attempt: u32,
    pub arguments: Value,
}

/// What the tool does at its next call.
#[derive(Clone, Debug)]
pub enum Act {
    Succeed(Value),
    Fail(ToolError),
    /// Performs the effect and never answers.
    Hang,
    /// Does nothing and never answers.
    HangBefore,
    Panic,
}

/// The target: what was executed, what is to happen next.
#[derive(Clone, Default)]
pub struct Target {
    pub ledger: Arc<Mutex<Vec<Execution>>>,
    pub script: Arc<Mutex<VecDeque<Act>>>,
    pub answers: Arc<Mutex<VecDeque<JsonAnswer>>>,
    pub asked: Arc<Mutex<Vec<u32>>>,
}

impl Target {
    pub fn then(&self, act: Act) -> &Self {
        self.script.lock().unwrap().push_back(act);
        self
    }

    pub fn answer(&self, answer: JsonAnswer) -> &Self {
        self.answers.lock().unwrap().push_back(answer);
        self
    }

    pub fn executions(&self) -> Vec<Execution> {
        self.ledger.lock().unwrap().clone()
    }

    /// Waits until that many executions have arrived.
    pub async fn until(&self, count: usize) {
        while self.ledger.lock().unwrap().len() < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

pub struct Scripted {
    pub contract: Contract,
    pub target: Target,
}

impl JsonTool for Scripted {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn call<'a>(&'a self, cx: &'a Call, arguments: &'a Value) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            let act = self.target.script.lock().unwrap().pop_front();
            if !matches!(act, Some(Act::HangBefore)) {
                self.target.ledger.lock().unwrap().push(Execution {
                    action: cx.action.clone(),
                    key: cx.key.to_string(),
                    attempt: cx.attempt,
                    arguments: arguments.clone(),
                });
            }
            match act {
                None => Reply::of(Ok(RawOutput::Value(json!("ok")))),
                Some(Act::Succeed(value)) => Reply::of(Ok(RawOutput::Value(value))),
                Some(Act::Fail(error)) => Reply::of(Err(error)),
                Some(Act::Hang | Act::HangBefore) => std::future::pending().await,
                Some(Act::Panic) => panic!("scripted panic"),
            }
        })
    }
}

/// Answers from the script, else by the ledger: executed if the key is there, never will if not.
pub struct AskTarget(pub Target);

impl JsonReconciler for AskTarget {
    fn ask<'a>(
        &'a self,
        cx: &'a AttemptContext,
        _arguments: &'a Value,
    ) -> BoxFuture<'a, JsonAnswer> {
        Box::pin(async move {
            self.0.asked.lock().unwrap().push(cx.attempt);
            if let Some(answer) = self.0.answers.lock().unwrap().pop_front() {
                return answer;
            }
            let key = cx.key.to_string();
            if self
                .0
                .ledger
                .lock()
                .unwrap()
                .iter()
                .any(|done| done.key == key)
            {
                JsonAnswer::Executed {
                    output: json!("ok"),
                    evidence: json!({"key": key}),
                }
            } else {
                JsonAnswer::NeverWill {
                    burned: false,
                    evidence: None,
                }
            }
        })
    }
}

/// A contract for a scripted tool: any object in, quick retries and questions.
pub fn contract(name: &str) -> Contract {
    let mut contract = Contract::new(name);
    contract.input = json!({
        "type": "object",
        "properties": {"n": {}, "to": {"type": "string"}},
        "additionalProperties": false
    });
    contract.retry = Retry {
        attempts_max: 3,
        backoff_first: Duration::from_millis(20),
        backoff_max: Duration::from_millis(50),
    };
    contract.asks.backoff_first = Duration::from_millis(10);
    contract.asks.backoff_max = Duration::from_millis(20);
    contract
}

pub fn log() -> MemoryLog {
    MemoryLog::new(JournalId([3; 16]))
}

/// An engine's builder with the scripted tool and, unless the contract is opaque or read-only, its
/// reconciler.
pub fn builder(log: &MemoryLog, contract: Contract, target: &Target) -> Builder {
    let name = contract.name.clone();
    let asks = matches!(
        contract.recovery,
        intendant::tool::contract::RecoveryClass::Reconcilable
            | intendant::tool::contract::RecoveryClass::Idempotent { .. }
    );
    let builder = Engine::builder(log.clone()).json_tool(Arc::new(Scripted {
        contract,
        target: target.clone(),
    }));
    if asks {
        builder.json_reconciler(&name, Arc::new(AskTarget(target.clone())))
    } else {
        builder
    }
}
