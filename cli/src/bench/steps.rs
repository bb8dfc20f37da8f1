//! Whole workflows through the whole engine: schemas, policy, permits, journal, one tool that does
//! nothing but answer.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use intendant::engine::Engine;
use intendant::tool::call::Call;
use intendant::tool::contract::{Closure, Contract};
use intendant::tool::json::{
    AttemptContext, BoxFuture, JsonReconciler, JsonTool, RawOutput, Reply,
};
use intendant::tool::reconciler::JsonAnswer;
use intendant::workflow::{CallError, Workflow};
use serde_json::{Value, json};

use super::{BenchError, Plan, percentile, raw};

/// What was measured of whole steps.
pub(super) struct Measured {
    pub(super) steps_per_s: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) syncs_per_step: f64,
    pub(super) bytes_per_step: f64,
}

/// Answers at once with a result of the wanted size.
struct Answering {
    contract: Contract,
    result: Value,
}

impl JsonTool for Answering {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn call<'a>(&'a self, _cx: &'a Call, _arguments: &'a Value) -> BoxFuture<'a, Reply> {
        let output = RawOutput::Value(self.result.clone());
        Box::pin(std::future::ready(Reply::of(Ok(output))))
    }
}

/// Knows nothing: nothing is ever in doubt here.
struct AskNobody;

impl JsonReconciler for AskNobody {
    fn ask<'a>(
        &'a self,
        _cx: &'a AttemptContext,
        _arguments: &'a Value,
    ) -> BoxFuture<'a, JsonAnswer> {
        Box::pin(std::future::ready(JsonAnswer::Unknown(
            "a benchmark".to_owned(),
        )))
    }
}

pub(super) async fn run(folder: &Path, plan: Plan) -> Result<Measured, BenchError> {
    let journal = raw::journal(folder)?;
    raw::next_segment_is_ready(folder).await?;
    let mut contract = Contract::new("answer").reconcilable(Closure::AbortClaim);
    contract.input = json!({
        "type": "object",
        "properties": {"account": {"type": "string"}, "cents": {"type": "integer"}},
        "required": ["account", "cents"],
        "additionalProperties": false
    });
    contract.output = Some(json!({"type": "string"}));
    let result = Value::String("x".repeat(plan.payload_bytes.saturating_sub(2)));
    let times: Arc<Mutex<Vec<f64>>> = Arc::default();
    let noted = times.clone();
    let workflow = move |mut wf: Workflow, steps: u32| {
        let times = noted.clone();
        async move {
            let mut own = Vec::with_capacity(steps as usize);
            for cents in 0..steps {
                let begun = Instant::now();
                wf.call_json(
                    "answer",
                    &json!({"account": "DE02120300000000202051", "cents": cents}),
                )
                .await?;
                own.push(begun.elapsed().as_secs_f64() * 1e6);
            }
            times
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .append(&mut own);
            Ok::<_, CallError>(steps)
        }
    };
    let engine = Engine::builder(journal)
        .json_tool(Arc::new(Answering { contract, result }))
        .json_reconciler("answer", Arc::new(AskNobody))
        .workflow("bench", 1, workflow)
        .start()
        .await
        .map_err(BenchError::of)?;
    let before = engine.log().stats();
    let begun = Instant::now();
    let next = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let mut tasks = Vec::new();
    for _ in 0..plan.concurrency.max(1) {
        let (engine, next) = (engine.clone(), next.clone());
        tasks.push(tokio::spawn(async move {
            loop {
                let n = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                if n >= plan.runs {
                    return Ok(());
                }
                let run = engine
                    .run("bench", &format!("bench-{n}"), plan.steps)
                    .await
                    .map_err(BenchError::of)?;
                run.result::<u32>().await.map_err(BenchError::of)?;
            }
        }));
    }
    for task in tasks {
        task.await.map_err(BenchError::of)??;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let after = engine.log().stats();
    let steps = (plan.runs * u64::from(plan.steps)) as f64;
    let mut times = std::mem::take(&mut *times.lock().unwrap_or_else(PoisonError::into_inner));
    times.sort_by(f64::total_cmp);
    Ok(Measured {
        steps_per_s: steps / seconds,
        p50_us: percentile(&times, 0.5),
        p99_us: percentile(&times, 0.99),
        syncs_per_step: (after.syncs - before.syncs) as f64 / steps,
        bytes_per_step: (after.log_bytes - before.log_bytes) as f64 / steps,
    })
}
