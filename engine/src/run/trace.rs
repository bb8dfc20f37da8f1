//! The part of a run's history that its workflow can see, in recorded order: what it commanded and
//! what was delivered to it. Replay walks this list.

use intendant_journal::format::entry::{Digest, ScopePath};

/// One thing the workflow did or was given.
#[derive(Clone, PartialEq, Debug)]
pub enum Trace {
    /// The workflow issued this.
    Command(Command),
    /// The result of the call at this place was delivered.
    CallSettled(ScopePath),
    /// The call at this place waits for a person (or no longer does): branches beside it go on.
    CallRests {
        /// Its place.
        path: ScopePath,
        /// Whether it rests from here on.
        rests: bool,
    },
    /// The timer at this place fired.
    TimerFired(ScopePath),
    /// A signal arrived: it goes to the earliest wait for its name, or is kept for the next one.
    SignalArrived {
        /// Its index among the run's signals.
        index: usize,
    },
    /// Somebody asked the run to end.
    Cancelled,
}

/// Something that a workflow asked for, by its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// A call of a tool.
    Call {
        /// Its place.
        path: ScopePath,
        /// The tool.
        tool: String,
        /// Digest of tool and arguments.
        digest: Digest,
    },
    /// A timer.
    Timer {
        /// Its place.
        path: ScopePath,
    },
    /// A wait for a signal.
    Signal {
        /// Its place.
        path: ScopePath,
        /// The signal's name.
        name: String,
    },
    /// A local value.
    Note {
        /// Its place.
        path: ScopePath,
        /// `now`, `random` or `uuid`.
        what: String,
    },
}

impl std::fmt::Display for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Call { path, tool, digest } => {
                write!(
                    f,
                    "call of {tool:?} at {path} (digest {:.12})",
                    digest.to_string()
                )
            }
            Self::Timer { path } => write!(f, "timer at {path}"),
            Self::Signal { path, name } => write!(f, "wait for signal {name:?} at {path}"),
            Self::Note { path, what } => write!(f, "{what} at {path}"),
        }
    }
}
