//! One execution of a command under a guard, from the engine's side.
//!
//! # Invariants
//!
//! The engine's end of the socket lives in the future of [`Execution::run`] and nowhere else. So
//! dropping the future closes it, whatever the future was waiting for, and the guard kills the
//! command. Nothing here needs to run for that to happen.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use intendant::tool::json::AttemptContext;
use intendant_journal::format::canonical;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

use super::GUARD_COMMAND;
use super::attempt_lock::AttemptLock;
use super::output::{Gathered, Log, Output};
use super::protocol::{self, Ended, Order, PROTOCOL, Report};
use super::spec::{Argv, GuardPlace};

/// How long a guard may take to end what overran its time, before we stop listening to it. It goes
/// on killing all the same.
const GRACE: Duration = Duration::from_secs(5);

/// How long nothing more may come, once all of the command is dead, before we stop waiting for its
/// pipes to close. They close at once, unless a process that was there before (a daemon that was
/// handed the descriptor) holds one open; what the command wrote is in the pipe by then.
const QUIET: Duration = Duration::from_millis(500);

/// Bytes read at a time.
const CHUNK: usize = 64 * 1024;

/// What to execute, for which attempt.
///
/// This is a process under a guard and no more: it neither has nor needs a permit, as it knows no
/// tool. Actions go through the kernel, which calls [`CommandTool`](super::CommandTool).
#[derive(Clone, Debug)]
pub struct Execution<'a> {
    /// The program and its arguments.
    pub argv: &'a Argv,
    /// The folder to run in.
    pub cwd: &'a Path,
    /// The guard and the folder of locks.
    pub place: &'a GuardPlace,
    /// The attempt it belongs to: names the lock, and goes into the environment.
    pub cx: &'a AttemptContext,
    /// What it reads on standard input, as canonical JSON.
    pub arguments: &'a Value,
    /// The longest it may take; the attempt's deadline may make that shorter.
    pub timeout: Duration,
}

/// How it ended, and what it wrote.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finished {
    /// How it ended.
    pub ending: Ending,
    /// Standard output.
    pub stdout: Gathered,
    /// The last 64 KiB of standard error.
    pub stderr: Vec<u8>,
}

/// How an execution can end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Certainly nothing was started.
    NotStarted(String),
    /// Nothing was started here, since something of this attempt still lives.
    LockHeld,
    /// It ended by itself, nothing of it is left, and all that it wrote was read.
    Ended(Ended),
    /// It took too long, and its guard was told to kill it.
    TimedOut(Duration),
    /// The guard ended without a word. Whether the command ran, or still runs, is not known.
    GuardLost(String),
}

impl Execution<'_> {
    /// Runs it to its end, or to the end of its time.
    ///
    /// Dropping the future has everything killed that the command started.
    pub async fn run(self) -> Finished {
        let time = self.time_left();
        let mut guarded = match self.start() {
            Ok(guarded) => guarded,
            Err(why) => return Finished::not_started(why),
        };
        let order = match self.order() {
            Ok(order) => order,
            Err(why) => return Finished::not_started(why),
        };
        let by_itself = tokio::time::timeout(time, async {
            guarded.give(&order).await;
            guarded.follow().await
        });
        let ending = match by_itself.await {
            Ok(ending) => ending,
            Err(_) => guarded.stop(time).await,
        };
        Finished {
            ending,
            stdout: guarded.output.finish(),
            stderr: guarded.log.finish(),
        }
    }

    /// The declared time or what is left until the deadline, whichever is shorter. The declared
    /// time bounds it even when the wall clock is set back.
    fn time_left(&self) -> Duration {
        let left = self
            .cx
            .deadline
            .duration_since(SystemTime::now())
            .unwrap_or_default();
        left.min(self.timeout)
    }

    fn order(&self) -> Result<Vec<u8>, String> {
        let cx = self.cx;
        let stdin = canonical::to_text(self.arguments)
            .map_err(|error| format!("the arguments cannot be written down: {error}"))?;
        let env = [
            ("INTENDANT_IDEMPOTENCY_KEY", cx.key.to_string()),
            ("INTENDANT_RUN", cx.run.clone()),
            ("INTENDANT_ACTION", cx.action.clone()),
            ("INTENDANT_ATTEMPT", cx.attempt.to_string()),
            ("INTENDANT_EPOCH", cx.epoch.to_string()),
        ];
        let lock = AttemptLock::path(&self.place.attempts, &cx.key, cx.attempt);
        let order = Order {
            protocol: PROTOCOL,
            argv: self.argv.words().to_vec(),
            cwd: self.cwd.as_os_str().as_bytes().to_vec(),
            env: BTreeMap::from(env.map(|(name, value)| (name.to_owned(), value))),
            stdin,
            lock: lock.as_os_str().as_bytes().to_vec(),
        };
        protocol::encode(&order).map_err(|error| format!("the order cannot be written: {error}"))
    }

    /// Starts the guard, which does nothing before it has its order.
    fn start(&self) -> Result<Guarded, String> {
        let program = &self.place.program;
        let start = || -> io::Result<Guarded> {
            let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
            ours.set_nonblocking(true)?;
            let ours = UnixStream::from_std(ours)?;
            // The command is dropped with this block, and with it our copy of the guard's end:
            // only so does the guard's death show as the end of the socket.
            let mut guard = Command::new(program)
                .arg(GUARD_COMMAND)
                .stdin(Stdio::from(OwnedFd::from(theirs)))
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                // A Ctrl-C at the terminal is for the engine, which lets actions end first.
                .process_group(0)
                .spawn()?;
            Ok(Guarded {
                socket: ours,
                heard: Vec::new(),
                stdout: guard.stdout.take(),
                stderr: guard.stderr.take(),
                guard,
                output: Output::default(),
                log: Log::default(),
                ending: None,
            })
        };
        start().map_err(|error| {
            format!(
                "the guard program {} cannot be started: {error}",
                program.display()
            )
        })
    }
}

impl Finished {
    fn not_started(why: String) -> Self {
        Self {
            ending: Ending::NotStarted(why),
            stdout: Gathered::Whole(Vec::new()),
            stderr: Vec::new(),
        }
    }
}

/// A guard that was started, and what was heard of it so far.
struct Guarded {
    socket: UnixStream,
    heard: Vec<u8>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    guard: Child,
    output: Output,
    log: Log,
    ending: Option<Ending>,
}

impl Guarded {
    /// Sends the order. An order that did not go out whole is no order to the guard; what became
    /// of it is then seen by [`Self::follow`].
    async fn give(&mut self, order: &[u8]) {
        if let Err(error) = self.socket.write_all(order).await {
            self.ending = Some(Ending::NotStarted(format!(
                "the guard did not take its order: {error}"
            )));
        }
    }

    /// Listens until the guard has said how it ended and everything written was read, or until the
    /// guard is gone. Can be dropped and called again: all that was heard is kept in `self`.
    async fn follow(&mut self) -> Ending {
        let mut from_socket = vec![0; 1024];
        let mut from_stdout = vec![0; CHUNK];
        let mut from_stderr = vec![0; CHUNK];
        loop {
            if let Some(ending) = &self.ending
                && self.stdout.is_none()
                && self.stderr.is_none()
            {
                let ending = ending.clone();
                // It has nothing left to do but to exit.
                let _ = self.guard.wait().await;
                return ending;
            }
            tokio::select! {
                // In this order: what is there to be read comes before the conclusion that
                // nothing more will come.
                biased;
                read = self.socket.read(&mut from_socket), if self.ending.is_none() => {
                    match read {
                        Ok(count @ 1..) => {
                            self.heard.extend_from_slice(&from_socket[..count]);
                            if let Err(error) = self.listen() {
                                return Ending::GuardLost(format!("it said nonsense: {error}"));
                            }
                        }
                        Ok(0) => return Ending::GuardLost("it ended without a word".into()),
                        Err(error) => return Ending::GuardLost(error.to_string()),
                    }
                }
                count = pull(&mut self.stdout, &mut from_stdout) => match count {
                    Ok(count) => self.output.push(&from_stdout[..count]),
                    // Half an output is none.
                    Err(error) => return Ending::GuardLost(format!("cannot read it: {error}")),
                },
                count = pull(&mut self.stderr, &mut from_stderr) => match count {
                    Ok(count) => self.log.push(&from_stderr[..count]),
                    // A log is for people; its end decides nothing.
                    Err(_) => self.stderr = None,
                },
                () = tokio::time::sleep(QUIET), if self.ending.is_some() => {
                    self.stdout = None;
                    self.stderr = None;
                }
            }
        }
    }

    fn listen(&mut self) -> io::Result<()> {
        while let Some(report) = protocol::take(&mut self.heard)? {
            match report {
                Report::Started { pid } => tracing::trace!(pid, "a command was started"),
                Report::LockHeld => self.ending = Some(Ending::LockHeld),
                Report::NotStarted { why } => self.ending = Some(Ending::NotStarted(why)),
                Report::Ended(ended) => self.ending = Some(Ending::Ended(ended)),
            }
        }
        Ok(())
    }

    /// Has the guard end it, and hears it out: it may have ended by itself just then.
    async fn stop(&mut self, after: Duration) -> Ending {
        let _ = self.socket.shutdown().await;
        match tokio::time::timeout(GRACE, self.follow()).await {
            Ok(ended @ (Ending::Ended(_) | Ending::NotStarted(_) | Ending::LockHeld)) => ended,
            Ok(Ending::GuardLost(_) | Ending::TimedOut(_)) | Err(_) => Ending::TimedOut(after),
        }
    }
}

/// Reads from a pipe once. Never resolves for one that has ended; sees to it that an ended one is
/// closed.
async fn pull(pipe: &mut Option<impl AsyncRead + Unpin>, into: &mut [u8]) -> io::Result<usize> {
    let Some(open) = pipe else {
        return std::future::pending().await;
    };
    let count = open.read(into).await?;
    if count == 0 {
        *pipe = None;
    }
    Ok(count)
}
