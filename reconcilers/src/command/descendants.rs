//! Finding and ending everything that the guard's command started.
//!
//! The guard is a *child subreaper*: whatever loses its parent below it becomes its direct child,
//! `setsid` and double forks notwithstanding. So killing direct children again and again reaches
//! everything, and "no child left to wait for" is the kernel's own word that nothing is left.
//!
//! # Invariants
//!
//! Only direct children that are not yet reaped are ever killed, and only the caller's thread reaps.
//! A process id cannot be given to another process until it is reaped, so no stranger can be hit.

use std::fs;
use std::io;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use super::protocol::Ended;

/// Pause between two rounds of killing: first and longest. It grows, since what resists (a process
/// of another user, one stuck in the kernel) may do so for long.
const ROUND_FIRST: Duration = Duration::from_millis(1);
const ROUND_MAX: Duration = Duration::from_millis(100);

/// What is left after reaping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Left {
    /// Children that still run.
    Some,
    /// Nothing at all.
    Nothing,
}

/// Makes this process the one that orphans below it are given to.
pub(crate) fn become_subreaper() -> io::Result<()> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    Ok(())
}

/// Reaps every child that has ended. How `watched` ended is put into `end`.
pub(crate) fn reap(watched: Pid, end: &mut Option<Ended>) -> io::Result<Left> {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == watched => *end = ended(status).or(*end),
            Ok(Some(_)) => {}
            Ok(None) => return Ok(Left::Some),
            Err(Errno::CHILD) => return Ok(Left::Nothing),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Kills and reaps until nothing is left.
///
/// Does not return while something cannot be killed: to return would be to say that it is gone.
pub(crate) async fn end_all(watched: Pid, end: &mut Option<Ended>) -> io::Result<()> {
    let mut pause = ROUND_FIRST;
    while reap(watched, end)? == Left::Some {
        for child in children()? {
            // Fails only for one that has just ended (and waits to be reaped) or one of another
            // user; the next round sees to both.
            let _ = rustix::process::kill_process(child, Signal::KILL);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(ROUND_MAX);
    }
    Ok(())
}

fn ended(status: WaitStatus) -> Option<Ended> {
    if let Some(code) = status.exit_status() {
        Some(Ended::Exited(code))
    } else {
        status.terminating_signal().map(Ended::Signalled)
    }
}

/// The direct children of this process.
fn children() -> io::Result<Vec<Pid>> {
    match listed_children() {
        Ok(children) => Ok(children),
        // A kernel built without that list.
        Err(_) => scanned_children(),
    }
}

/// As the kernel lists them, for each thread of this process.
fn listed_children() -> io::Result<Vec<Pid>> {
    let mut children = Vec::new();
    for task in fs::read_dir("/proc/self/task")? {
        let list = fs::read_to_string(task?.path().join("children"))?;
        children.extend(list.split_ascii_whitespace().filter_map(pid));
    }
    Ok(children)
}

/// By the parent that each process names.
fn scanned_children() -> io::Result<Vec<Pid>> {
    let own = rustix::process::getpid();
    let mut children = Vec::new();
    for process in fs::read_dir("/proc")? {
        let process = process?;
        let Some(candidate) = process.file_name().to_str().and_then(pid) else {
            continue;
        };
        // It may be gone by now.
        let Ok(stat) = fs::read_to_string(process.path().join("stat")) else {
            continue;
        };
        if parent(&stat) == Some(own) {
            children.push(candidate);
        }
    }
    Ok(children)
}

/// The parent in a line of `/proc/<pid>/stat`. The name before it stands in parentheses and may
/// hold anything, parentheses and spaces too.
fn parent(stat: &str) -> Option<Pid> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(1).and_then(pid)
}

fn pid(text: &str) -> Option<Pid> {
    text.parse().ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_found_behind_any_name() {
        assert_eq!(parent("7 (sh) S 42 7 7 0"), Pid::from_raw(42));
        assert_eq!(parent("7 (a) S 1 (x) R 43 7"), Pid::from_raw(43));
        assert_eq!(parent("nonsense"), None);
    }

    #[test]
    fn both_ways_to_list_children_find_one() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        let scanned = scanned_children().unwrap();
        let listed = children().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(scanned.contains(&pid), "{scanned:?}");
        assert!(listed.contains(&pid), "{listed:?}");
    }
}
