//! The guard process: stands between the engine and one execution of a command, so that the
//! command never outlives what supervises it.
//!
//! Its standard input is one end of a pair of sockets. Its standard output and error are the
//! command's. It works in this order, which is what makes the invariants of
//! [the folder](super) hold:
//!
//! 1. read the order; an engine that is gone before it is whole means that nothing happens;
//! 2. become the subreaper, so that nothing below can slip away;
//! 3. take the attempt's lock, or report that somebody has it;
//! 4. look whether the engine's end is still open. Only *after* the lock: recovery closes (by dying
//!    or dropping) first and takes the lock second, so one of the two sees the other;
//! 5. start the command, which inherits the lock, and report it;
//! 6. wait for its end or for the engine's;
//! 7. kill all that is left, remove the lock file, report the end if it came by itself.
//!
//! It runs on one thread: whoever reaps must be the one who kills (see `descendants`).

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, Command, ExitCode, Stdio};

use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::process::Pid;
use tokio::io::AsyncWriteExt;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::attempt_lock::AttemptLock;
use super::descendants::{self, Left};
use super::protocol::{self, Ended, Order, PROTOCOL, Report};

/// The guard's whole life: what a program does when it is started with the hidden command
/// [`__guard`](super::GUARD_COMMAND).
///
/// The code is 0 whenever the guard did its work, whatever became of the command.
#[must_use]
pub fn guard_main() -> ExitCode {
    let engine = match engine_end() {
        Ok(engine) => engine,
        Err(error) => {
            eprintln!(
                "this is the guard, which the engine starts for each command; it cannot be used \
                 by hand: standard input is not a socket of the engine ({error})"
            );
            return ExitCode::from(2);
        }
    };
    match guard(&engine) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The engine takes the closed socket for an unknown end. This line is what is left to
            // say why; it goes where the command's own errors go.
            // Nobody may be left to read it, which is no reason to panic.
            let _ = writeln!(io::stderr(), "guard: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Standard input as the socket it must be.
fn engine_end() -> io::Result<UnixStream> {
    let stdin = io::stdin();
    rustix::net::sockopt::socket_type(stdin.as_fd())?;
    Ok(UnixStream::from(stdin.as_fd().try_clone_to_owned()?))
}

fn guard(engine: &UnixStream) -> io::Result<()> {
    let order: Order = match protocol::read(engine) {
        Ok(order) => order,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
        Err(error) => return report(engine, &not_started("the order cannot be read", error)),
    };
    if order.protocol != PROTOCOL {
        let versions = format!("the engine speaks {}, the guard {PROTOCOL}", order.protocol);
        let why = "the guard program is of another version; restart the engine";
        return report(engine, &not_started(why, versions));
    }
    if let Err(error) = descendants::become_subreaper() {
        return report(engine, &not_started("cannot become subreaper", error));
    }
    let lock = match AttemptLock::try_take(Path::new(OsStr::from_bytes(&order.lock))) {
        Ok(Some(lock)) => lock,
        Ok(None) => return report(engine, &Report::LockHeld),
        Err(error) => {
            return report(
                engine,
                &not_started("cannot take the attempt's lock", error),
            );
        }
    };
    if engine_is_gone(engine)? {
        lock.remove();
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => runtime.block_on(supervise(engine, order, lock)),
        Err(error) => {
            lock.remove();
            report(engine, &not_started("cannot watch a command", error))
        }
    }
}

/// Starts the command and sees it, or the engine, to the end.
async fn supervise(engine: &UnixStream, order: Order, lock: AttemptLock) -> io::Result<()> {
    // From here on the socket is only read for its end. Set up before the start: what fails after
    // it can no longer be reported as "not started".
    let ready = watch(engine).and_then(|watched| {
        lock.share_with_children()?;
        Ok(watched)
    });
    let (engine_end, mut child_ends) = match ready {
        Ok(ready) => ready,
        Err(error) => {
            lock.remove();
            return report(engine, &not_started("cannot watch a command", error));
        }
    };
    let (command, stdin) = match start(&order) {
        Ok(started) => started,
        Err(error) => {
            lock.remove();
            let program = format!("cannot run {:?}", order.argv.first());
            return report(engine, &not_started(&program, error));
        }
    };
    let feeding = tokio::spawn(feed(stdin, order.stdin));
    // An engine that cannot be told is an engine that is gone, which is seen below.
    let _ = report(
        engine,
        &Report::Started {
            pid: command.as_raw_nonzero().get(),
        },
    );

    let mut end = None;
    let by_itself = tokio::select! {
        ended = command_ended(command, &mut end, &mut child_ends) => { ended?; true }
        () = closed(&engine_end) => false,
    };
    feeding.abort();
    descendants::end_all(command, &mut end).await?;
    lock.remove();
    match end {
        // An engine that is gone by now has no use for it.
        Some(end) if by_itself => report(engine, &Report::Ended(end)).or(Ok(())),
        _ => Ok(()),
    }
}

type Watched = (tokio::net::UnixStream, Signal);

fn watch(engine: &UnixStream) -> io::Result<Watched> {
    let end = engine.try_clone()?;
    end.set_nonblocking(true)?;
    Ok((
        tokio::net::UnixStream::from_std(end)?,
        signal(SignalKind::child())?,
    ))
}

/// An error means that the command certainly did not start; nothing after its start may fail.
fn start(order: &Order) -> io::Result<(Pid, ChildStdin)> {
    let (program, arguments) = order
        .argv
        .split_first()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the command is empty"))?;
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(OsStr::from_bytes(&order.cwd))
        .envs(&order.env)
        .stdin(Stdio::piped())
        .stdout(Stdio::inherit())
        .stderr(Stdio::inherit())
        .process_group(0)
        .spawn()?;
    let stdin = child.stdin.take().expect("standard input was asked for");
    let pid = i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .expect("a child's process id is a positive number");
    Ok((pid, stdin))
}

/// Gives the command its standard input. A command that does not read it, or not all of it, is in
/// its right; it is the end of the command that counts.
async fn feed(stdin: ChildStdin, text: String) {
    if let Ok(mut stdin) = tokio::process::ChildStdin::from_std(stdin) {
        let _ = stdin.write_all(text.as_bytes()).await;
    }
}

/// Reaps orphans as they end, until the command itself does.
async fn command_ended(
    command: Pid,
    end: &mut Option<Ended>,
    child_ends: &mut Signal,
) -> io::Result<()> {
    loop {
        let left = descendants::reap(command, end)?;
        if end.is_some() {
            return Ok(());
        }
        if left == Left::Nothing {
            return Err(io::Error::other("the command is gone without a status"));
        }
        child_ends.recv().await;
    }
}

/// Resolves when the engine's end is closed. The engine has nothing more to say after its order,
/// so anything else it says is taken for its end too.
async fn closed(engine: &tokio::net::UnixStream) {
    loop {
        if engine.readable().await.is_err() {
            return;
        }
        match engine.try_read(&mut [0; 1]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            _ => return,
        }
    }
}

fn engine_is_gone(engine: &UnixStream) -> io::Result<bool> {
    match rustix::net::recv(engine, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Err(Errno::AGAIN) => Ok(false),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(true),
    }
}

fn report(mut engine: &UnixStream, report: &Report) -> io::Result<()> {
    protocol::write(&mut engine, report)
}

fn not_started(what: &str, cause: impl std::fmt::Display) -> Report {
    Report::NotStarted {
        why: format!("{what}: {cause}"),
    }
}
