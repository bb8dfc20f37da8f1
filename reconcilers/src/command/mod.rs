//! Commands as tools: any program, in any language, with a program as its reconciler.
//!
//! | file | holds |
//! |---|---|
//! | `spec` | what a job file declares of a command |
//! | `tool`, `reconciler` | the two faces the engine sees |
//! | `answer` | what a reconciler may print |
//! | `execution` | one execution, as the engine's side drives it |
//! | `guard` | the guard process, which the command runs under |
//! | `descendants` | how the guard finds and ends everything the command started |
//! | `protocol` | what engine and guard say to each other |
//! | `attempt_lock` | the file whose lock says that something of an attempt still lives |
//! | `output` | gathering what a command writes, within bounds |
//!
//! # Invariants
//!
//! 1. A command runs only while the guard holds the attempt's lock *and* has seen, after taking it,
//!    that the engine is still there. So once somebody else has taken the lock and the engine's end
//!    is closed, nothing of that attempt will ever start.
//! 2. The engine's end of the socket is closed when a call is dropped, times out or the engine
//!    dies, however it dies. The guard then kills all that the command started.
//! 3. Every process that the command starts inherits the lock. If the guard itself is killed, the
//!    lock stays taken until the last of them is gone.
//! 4. When a call returns with an exit code, nothing of the attempt runs any more: what the command
//!    left behind in the background was killed before the code was reported.
//!
//! # Outside these invariants
//!
//! - A process that closes all descriptors gives up the lock. The guard still finds and kills it;
//!   only if the guard is killed too does it go unseen.
//! - After the guard was killed nobody kills what it guarded, not even when its time is over; the
//!   attempt stays *running* until that has ended. `fuser` on the lock file names the processes.
//! - A process that runs as another user (through `sudo`) cannot be killed by the guard. The lock
//!   stays taken, and the attempt stays *running*, until it ends by itself.
//! - Work handed to a process that was there before (a daemon, a container engine, `at`) is work of
//!   a target, not of the attempt. It is for the reconciler to know.
//! - The lock is `flock(2)` on a local file system, on a file that nobody else deletes.

mod answer;
mod attempt_lock;
mod descendants;
mod execution;
mod guard;
mod output;
mod protocol;
mod reconciler;
mod spec;
mod tool;

pub use attempt_lock::AttemptLock;
pub use execution::{Ending, Execution, Finished};
pub use guard::guard_main;
pub use output::Gathered;
pub use protocol::Ended;
pub use reconciler::CommandReconciler;
pub use spec::{Argv, CommandSpec, ExitCodes, GuardPlace, SpecError};
pub use tool::CommandTool;

/// The hidden command under which a guard program is started: `<program> __guard`.
pub const GUARD_COMMAND: &str = "__guard";
