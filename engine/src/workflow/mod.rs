//! Workflows: plain async functions over a context, run by a deterministic executor.
//!
//! [`Scope`] is what a workflow sees. Behind it, `board` joins the workflow's future and the
//! `driver`, which alone writes a run's entries, delivers outcomes in recorded order, and replays.

pub(crate) mod board;
pub(crate) mod driver;
mod each;
pub mod error;
pub(crate) mod question;
mod scope;

pub use error::CallError;
pub use scope::{Scope, Workflow};

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A workflow's future: canonical JSON text of its result, or its error in words.
pub(crate) type RunFuture = Pin<Box<dyn Future<Output = Result<String, String>> + Send>>;

/// Makes a workflow's future from its root scope and the JSON text of its input.
type Start = dyn Fn(Workflow, &str) -> Result<RunFuture, String> + Send + Sync;

/// A registered workflow.
#[derive(Clone)]
pub(crate) struct Registration {
    pub(crate) version: u32,
    pub(crate) start: Arc<Start>,
}

/// All registered workflows by name.
pub(crate) type Workflows = HashMap<String, Registration>;

impl Registration {
    /// Wraps an async function over typed input and output.
    pub(crate) fn of<F, Fut, In, Out, Err>(version: u32, function: F) -> Self
    where
        F: Fn(Workflow, In) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Out, Err>> + Send + 'static,
        In: DeserializeOwned,
        Out: Serialize,
        Err: std::fmt::Display,
    {
        let start = move |workflow: Workflow, input: &str| {
            let input: In = serde_json::from_str(input)
                .map_err(|why| format!("the run's input does not fit the workflow: {why}"))?;
            let future = function(workflow, input);
            let future: RunFuture = Box::pin(async move {
                let output = future.await.map_err(|error| error.to_string())?;
                let value = serde_json::to_value(output).map_err(|error| error.to_string())?;
                intendant_journal::format::canonical::to_text(&value)
                    .map_err(|error| format!("the workflow's result: {error}"))
            });
            Ok(future)
        };
        Self {
            version,
            start: Arc::new(start),
        }
    }
}
