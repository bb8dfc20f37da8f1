//! The door: the one place where a tool is called.
//!
//! However a call ends, the door says what is known of the effect, never more: a panic, a timeout
//! and an unclassified error are *unknown*.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use intendant_journal::format::canonical;
use serde_json::Value;

use super::Kernel;
use super::permit::Armed;
use crate::action::id::action_id;
use crate::tool::call::Call;
use crate::tool::contract::OUTPUT_BYTES_MAX;
use crate::tool::error::ToolError;
use crate::tool::json::{AttemptContext, RawOutput, Reply};

/// A tool that keeps its own deadline gets this long to say so, log and all, before it is cut.
const DEADLINE_GRACE: Duration = Duration::from_millis(250);

/// How a call through the door ended.
#[derive(Debug)]
pub(crate) struct Exit {
    /// What is known.
    pub(crate) end: ExitEnd,
    /// What the attempt wrote for people.
    pub(crate) log: Vec<u8>,
}

/// What is known of a call.
#[derive(Debug)]
pub(crate) enum ExitEnd {
    /// The effect happened; canonical JSON text of the output.
    Succeeded(String),
    /// The effect happened; the output cannot be used.
    Unusable { raw: Unusable, why: String },
    /// The tool's own word.
    Error(ToolError),
}

/// An output that cannot be used.
#[derive(Debug)]
pub(crate) enum Unusable {
    /// As it came.
    Bytes(Vec<u8>),
    /// Too long to keep.
    Hash { sha256: [u8; 32], bytes: u64 },
}

impl Kernel {
    /// Opens the door for one attempt. `None` if the journal has been disabled since: the effect
    /// was not started, and nothing can be recorded any more.
    pub(crate) async fn open(&self, armed: Armed) -> Option<Exit> {
        if self.log.disabled().is_some() {
            return None;
        }
        let Armed {
            run,
            attempt,
            proposal,
            key,
            timeout,
        } = armed;
        let arguments: Value = serde_json::from_str(&proposal.arguments)
            .expect("frozen arguments are JSON text that the kernel wrote");
        let call = Call::new(AttemptContext {
            action: action_id(&run, &attempt.action),
            run,
            attempt: attempt.attempt,
            epoch: self.log.epoch().0,
            key,
            deadline: SystemTime::now() + timeout,
        });
        let reply = Contained::new(|| proposal.tool.tool.call(&call, &arguments));
        let reply = match tokio::time::timeout(timeout + DEADLINE_GRACE, reply).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(panic)) => Reply::of(Err(ToolError::Unknown(format!(
                "the tool panicked: {panic}"
            )))),
            Err(_) => {
                let why = format!("no answer within {timeout:?}");
                Reply::of(Err(ToolError::Unknown(why)))
            }
        };
        Some(self.judge(&proposal.tool, reply))
    }

    fn judge(&self, tool: &super::tools::Registered, reply: Reply) -> Exit {
        let Reply { result, log } = reply;
        let end = match result {
            Err(error) => ExitEnd::Error(error),
            Ok(RawOutput::TooLong { sha256, bytes }) => ExitEnd::Unusable {
                raw: Unusable::Hash { sha256, bytes },
                why: format!("its output of {bytes} bytes is longer than {OUTPUT_BYTES_MAX}"),
            },
            Ok(RawOutput::Text(text)) => match canonical::parse(&text) {
                Ok(value) => accept(tool, &value, Some(text)),
                Err(why) => ExitEnd::Unusable {
                    raw: Unusable::Bytes(text),
                    why: format!("its output is not one JSON value: {why}"),
                },
            },
            Ok(RawOutput::Value(value)) => accept(tool, &value, None),
        };
        Exit { end, log }
    }
}

/// Checks a parsed output. `text` is how it came, if it came as text.
fn accept(tool: &super::tools::Registered, value: &Value, text: Option<Vec<u8>>) -> ExitEnd {
    let raw = |canonical: Option<String>| match (text, canonical) {
        (Some(text), _) => text,
        (None, Some(canonical)) => canonical.into_bytes(),
        (None, None) => value.to_string().into_bytes(),
    };
    let canonical = match canonical::to_text(value) {
        Ok(canonical) => canonical,
        Err(why) => {
            return ExitEnd::Unusable {
                raw: Unusable::Bytes(raw(None)),
                why: format!("its output: {why}"),
            };
        }
    };
    if canonical.len() > OUTPUT_BYTES_MAX {
        let why = format!(
            "its output of {} bytes is longer than {OUTPUT_BYTES_MAX}",
            canonical.len()
        );
        use sha2::Digest as _;
        let sha256 = sha2::Sha256::digest(canonical.as_bytes()).into();
        let bytes = canonical.len() as u64;
        return ExitEnd::Unusable {
            raw: Unusable::Hash { sha256, bytes },
            why,
        };
    }
    match tool.check_output(value) {
        Ok(()) => ExitEnd::Succeeded(canonical),
        Err(why) => ExitEnd::Unusable {
            raw: Unusable::Bytes(raw(Some(canonical))),
            why: format!("its output does not fit the declared output: {why}"),
        },
    }
}

/// A future whose panics, at making and at every poll, are caught and told.
pub(crate) struct Contained<F> {
    inner: Result<F, String>,
}

impl<F> Contained<Pin<Box<F>>>
where
    F: Future + Send + ?Sized,
{
    /// Makes the future, containing a panic of its making.
    pub(crate) fn new(make: impl FnOnce() -> Pin<Box<F>>) -> Self {
        Self {
            inner: catch_unwind(AssertUnwindSafe(make)).map_err(panic_text),
        }
    }
}

impl<F> Future for Contained<Pin<Box<F>>>
where
    F: Future + Send + ?Sized,
{
    type Output = Result<F::Output, String>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let future = match &mut self.inner {
            Ok(future) => future,
            Err(panic) => return Poll::Ready(Err(std::mem::take(panic))),
        };
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(panic) => Poll::Ready(Err(panic_text(panic))),
        }
    }
}

/// What a panic said.
pub(crate) fn panic_text(panic: Box<dyn std::any::Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic
            .downcast_ref::<&str>()
            .map_or("no message", |text| text)
            .to_owned(),
    }
}
