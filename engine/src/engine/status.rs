//! Where a run stands, as far as this process knows.

use intendant_journal::error::AppendError;
use intendant_journal::format::entry::{End, Payload};

/// The status of a run in this process.
#[derive(Clone, Debug)]
pub enum RunStatus {
    /// Its start is not durable yet.
    Starting,
    /// It goes on by itself.
    Running,
    /// Only a person can move it: something is parked or awaits approval, and nothing else goes on.
    NeedsPerson,
    /// Its pass ended.
    Ended(RunEnd),
    /// It cannot go on in this process. Nothing of that is recorded: with the cause removed, a
    /// restart goes on.
    Halted(Halt),
    /// The engine was stopped with the run unfinished.
    Stopped,
    /// The journal takes nothing more; a restart is safe.
    JournalFailed(AppendError),
}

/// How a pass ended.
#[derive(Clone, PartialEq, Debug)]
pub enum RunEnd {
    /// With a value.
    Completed(Payload),
    /// With an error.
    Failed(String),
    /// Because somebody asked.
    Cancelled(String),
}

impl RunEnd {
    pub(crate) fn of(end: &End) -> Self {
        match end {
            End::Completed(payload) => Self::Completed(payload.clone()),
            End::Failed(why) => Self::Failed(why.clone()),
            End::Cancelled(why) => Self::Cancelled(why.clone()),
        }
    }
}

/// Why a run cannot go on in this process.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Halt {
    /// The workflow does something else than what is recorded; found before any effect.
    #[error(
        "diverged at step {position} of its history: recorded is {recorded}, the workflow now does {issued}; run it with the code it began with, or under another run id"
    )]
    Diverged {
        /// Position in the run's trace.
        position: usize,
        /// What is recorded.
        recorded: String,
        /// What the workflow does now.
        issued: String,
    },
    /// The workflow is not registered in this program.
    #[error("its workflow {0:?} is not registered in this program")]
    NoWorkflow(String),
    /// The workflow's code panicked.
    #[error("its workflow panicked: {0}; mend it and start again, nothing is lost")]
    Panicked(String),
    /// The workflow waits for something that is not durable.
    #[error(
        "its workflow waits for something that is not durable (a foreign timer, channel or task); await only what its scope offers"
    )]
    NotDurable,
    /// An invariant is broken: this program or the journal is wrong.
    #[error("{0}")]
    Broken(String),
}
