//! A handle to a run.

use std::sync::Arc;

use intendant_journal::error::{AppendError, ReadError};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;

use super::shared::Shared;
use super::status::{Halt, RunEnd, RunStatus};

/// A handle to a run. Dropping it does not stop the run.
#[derive(Clone)]
pub struct Run {
    shared: Arc<Shared>,
    run: String,
    status: watch::Receiver<RunStatus>,
}

/// A pass to be started.
#[derive(Clone, PartialEq, Debug)]
pub struct StartPass {
    /// The run's id.
    pub run: String,
    /// Its workflow.
    pub workflow: String,
    /// Version of what it is to do; recorded.
    pub version: u32,
    /// Its input.
    pub input: Value,
}

/// Why a run was not started or found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartRunError {
    /// A run of that id exists and differs; the text names the difference.
    #[error("already exists: {0}")]
    Conflict(String),
    /// No run has that id.
    #[error("there is no run {0:?}; see `intendant runs`")]
    Unknown(String),
    /// No workflow has that name.
    #[error("workflow {0:?} is not registered in this program")]
    NoWorkflow(String),
    /// The id or the input cannot be used.
    #[error("{0}")]
    Input(String),
    /// The start could not be recorded.
    #[error(transparent)]
    Journal(#[from] AppendError),
    /// The history cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// An invariant is broken.
    #[error("{0}")]
    Broken(String),
}

/// Why a run gave no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// Its workflow returned an error.
    #[error("run {run} failed: {why}")]
    Failed {
        /// The run.
        run: String,
        /// The workflow's error.
        why: String,
    },
    /// Somebody asked it to end.
    #[error("run {run} was cancelled: {why}")]
    Cancelled {
        /// The run.
        run: String,
        /// Who, why.
        why: String,
    },
    /// It cannot go on in this process.
    #[error("run {run} halted: {halt}")]
    Halted {
        /// The run.
        run: String,
        /// Why.
        halt: Halt,
    },
    /// The engine was stopped first; a restart goes on with it.
    #[error("the engine stopped before run {run} ended; start it again to go on")]
    Stopped {
        /// The run.
        run: String,
    },
    /// The journal failed; a restart is safe.
    #[error("run {run}: {source}")]
    Journal {
        /// The run.
        run: String,
        /// What failed.
        source: AppendError,
    },
    /// Its result is of another type.
    #[error("the result of run {run} does not fit: {why}")]
    Result {
        /// The run.
        run: String,
        /// Why.
        why: String,
    },
}

impl Run {
    pub(crate) fn new(shared: Arc<Shared>, run: &str, status: watch::Receiver<RunStatus>) -> Self {
        Self {
            shared,
            run: run.to_owned(),
            status,
        }
    }

    /// The run's id.
    pub fn id(&self) -> &str {
        &self.run
    }

    /// Where it stands now.
    pub fn status(&self) -> RunStatus {
        self.status.borrow().clone()
    }

    /// Waits until it ends, halts, or can go on only with a person.
    pub async fn rests(&mut self) -> RunStatus {
        self.wait(|status| !matches!(status, RunStatus::Starting | RunStatus::Running))
            .await
    }

    /// Waits for its end.
    pub async fn ends(&mut self) -> RunStatus {
        self.wait(|status| {
            !matches!(
                status,
                RunStatus::Starting | RunStatus::Running | RunStatus::NeedsPerson
            )
        })
        .await
    }

    /// Waits for its result. A run with an action in doubt has none until it is settled.
    ///
    /// # Errors
    /// [`RunError`] says how it ended instead.
    pub async fn result<T: DeserializeOwned>(mut self) -> Result<T, RunError> {
        let run = self.run.clone();
        let payload = match self.ends().await {
            RunStatus::Ended(RunEnd::Completed(payload)) => payload,
            RunStatus::Ended(RunEnd::Failed(why)) => return Err(RunError::Failed { run, why }),
            RunStatus::Ended(RunEnd::Cancelled(why)) => {
                return Err(RunError::Cancelled { run, why });
            }
            RunStatus::Halted(halt) => return Err(RunError::Halted { run, halt }),
            RunStatus::JournalFailed(source) => return Err(RunError::Journal { run, source }),
            _ => return Err(RunError::Stopped { run }),
        };
        let text = crate::payload::text(self.shared.log.as_ref(), &payload).map_err(|why| {
            RunError::Result {
                run: run.clone(),
                why,
            }
        })?;
        serde_json::from_str(&text).map_err(|why| RunError::Result {
            run,
            why: why.to_string(),
        })
    }

    /// Waits until its start is durable.
    pub(crate) async fn started(mut self) -> Result<Self, StartRunError> {
        match self
            .wait(|status| !matches!(status, RunStatus::Starting))
            .await
        {
            RunStatus::JournalFailed(error) => Err(error.into()),
            _ => Ok(self),
        }
    }

    async fn wait(&mut self, until: impl FnMut(&RunStatus) -> bool) -> RunStatus {
        let waited = self
            .status
            .wait_for(until)
            .await
            .map(|status| status.clone());
        match (waited, self.status.borrow().clone()) {
            (Ok(status), _) => status,
            // The sender's last word stays readable; without one the engine is gone.
            (Err(_), RunStatus::Starting | RunStatus::Running | RunStatus::NeedsPerson) => {
                RunStatus::Stopped
            }
            (Err(_), last) => last,
        }
    }
}
