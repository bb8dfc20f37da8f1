//! A question to a reconciler: put in bounds, and written down as the life may believe it.

use std::sync::Arc;

use intendant_journal::face::IntentLog;
use intendant_journal::format::canonical;
use intendant_journal::format::entry::{Answer, AnsweredEntry, AttemptRef, Closure, Payload};
use serde_json::Value;

use crate::kernel::Contained;
use crate::kernel::tools::Registered;
use crate::payload::{bounded, keep_bytes, keep_text, lost};
use crate::tool::json::{AttemptContext, JsonReconciler};
use crate::tool::reconciler::JsonAnswer;

/// Asks once. Silence, a panic and a timeout are *unknown*.
pub(crate) async fn put(
    reconciler: Arc<dyn JsonReconciler>,
    timeout: std::time::Duration,
    cx: &AttemptContext,
    arguments: &Value,
) -> JsonAnswer {
    let asked = Contained::new(|| reconciler.ask(cx, arguments));
    match tokio::time::timeout(timeout, asked).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(panic)) => JsonAnswer::Unknown(format!("the reconciler panicked: {panic}")),
        Err(_) => JsonAnswer::Unknown(format!("no answer within {timeout:?}")),
    }
}

/// The answer as it is recorded. `closure` is the one recorded with the intent: a declaration that
/// was changed since gives no leave to run again.
pub(crate) fn record(
    log: &dyn IntentLog,
    registered: Option<&Registered>,
    closure: Option<Closure>,
    attempt: AttemptRef,
    answer: JsonAnswer,
) -> AnsweredEntry {
    let keep = |value: &Value| -> Result<Payload, String> {
        let text = canonical::to_text(value).map_err(|why| why.to_string())?;
        keep_text(log, &text).map_err(|_| "it could not be stored".to_owned())
    };
    let unknown = |why: String| Answer::Unknown { why };
    let answer = match answer {
        JsonAnswer::Executed { output, evidence } => match keep(&evidence) {
            Err(why) => unknown(format!("executed, but its evidence cannot be kept: {why}")),
            Ok(evidence) => {
                let fits =
                    registered.is_none_or(|registered| registered.check_output(&output).is_ok());
                let text = output.to_string();
                let output = match keep(&output) {
                    Ok(kept) if fits => kept,
                    // It fits and cannot be stored: only its hash is kept.
                    Err(_) if fits => lost(text.as_bytes()),
                    _ => keep_bytes(log, text.as_bytes()),
                };
                Answer::Executed { output, evidence }
            }
        },
        JsonAnswer::NeverWill { burned, evidence } => match closure {
            Some(closure) => Answer::NeverWill {
                closure,
                burned,
                evidence: evidence.as_ref().and_then(|evidence| keep(evidence).ok()),
            },
            None => unknown(
                "answered never_will, but its tool declares no closure that guarantees it".into(),
            ),
        },
        JsonAnswer::Running { retry_after } => Answer::Running {
            retry_after_ms: u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX),
        },
        JsonAnswer::NotSeen { as_of } => Answer::NotSeen {
            as_of: bounded(as_of),
        },
        JsonAnswer::Unknown(why) => unknown(bounded(why)),
    };
    AnsweredEntry { attempt, answer }
}
