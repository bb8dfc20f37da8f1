//! The JSON form of tools and reconcilers, for tools that are declared at run time (job files,
//! remote servers). The typed form in [`super::reconciler`] and `Tool` is built on it.

use std::future::Future;
use std::pin::Pin;
use std::time::SystemTime;

use intendant_journal::format::entry::Key;
use serde_json::Value;

use super::call::Call;
use super::contract::Contract;
use super::error::ToolError;
use super::reconciler::JsonAnswer;

/// A boxed future that may borrow what it was made from.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a tool or reconciler may know of the attempt it works for.
#[derive(Clone, Debug)]
pub struct AttemptContext {
    /// The run's id.
    pub run: String,
    /// The action's id: run and place in the run (see `action::id`).
    pub action: String,
    /// 1 for the first execution. For a reconciler: the attempt in doubt.
    pub attempt: u32,
    /// The opening that asks; a fence for targets that compare epochs.
    pub epoch: u32,
    /// The idempotency key, the same for all attempts.
    pub key: Key,
    /// When the engine stops waiting.
    pub deadline: SystemTime,
}

/// A tool with JSON arguments and output.
pub trait JsonTool: Send + Sync + 'static {
    /// Its declaration. The same value at each call.
    fn contract(&self) -> &Contract;

    /// Performs one attempt. Arguments fit the declared input schema.
    ///
    /// If the future is dropped before it is ready, or panics, the attempt is in doubt.
    fn call<'a>(&'a self, cx: &'a Call, arguments: &'a Value) -> BoxFuture<'a, Reply>;

    /// Resolves once nothing that an earlier attempt started on this machine can still act, so that
    /// running again makes sense. Until then the attempt is *running*.
    ///
    /// The default is for tools that live and die with the engine's process.
    fn sender_gone<'a>(&'a self, _cx: &'a AttemptContext) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A tool's complete reply.
#[derive(Clone, PartialEq, Debug)]
pub struct Reply {
    /// Output or error.
    pub result: Result<RawOutput, ToolError>,
    /// What the attempt wrote for people (standard error), at most 64 KiB of it.
    pub log: Vec<u8>,
}

impl Reply {
    /// A reply without a log.
    pub fn of(result: Result<RawOutput, ToolError>) -> Self {
        Self {
            result,
            log: Vec::new(),
        }
    }
}

/// The output of a complete success, before it is checked.
#[derive(Clone, PartialEq, Debug)]
pub enum RawOutput {
    /// A JSON value.
    Value(Value),
    /// JSON text as it came from a process; parsed strictly by the engine.
    Text(Vec<u8>),
    /// Longer than [`OUTPUT_BYTES_MAX`](super::contract::OUTPUT_BYTES_MAX): only what identifies it
    /// was kept.
    TooLong {
        /// SHA-256 of all of it.
        sha256: [u8; 32],
        /// Its length in bytes.
        bytes: u64,
    },
}

/// Asks a target whether an attempt's effect happened.
pub trait JsonReconciler: Send + Sync + 'static {
    /// Asks once. Whatever cannot be understood is [`JsonAnswer::Unknown`]; so are a panic, a
    /// timeout and a dropped future.
    fn ask<'a>(&'a self, cx: &'a AttemptContext, arguments: &'a Value)
    -> BoxFuture<'a, JsonAnswer>;

    /// Resolves once nothing that the attempt started on this machine can still act, so that
    /// asking (or running again) makes sense. Until then the attempt is *running*.
    ///
    /// The default is for tools that live and die with the engine's process.
    fn sender_gone<'a>(&'a self, _cx: &'a AttemptContext) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}
