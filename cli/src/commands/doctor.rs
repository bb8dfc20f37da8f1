//! `intendant doctor`: looks at what a job stands on, and says what is wrong and what to do.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use intendant::clock::{Clock, SystemClock};
use intendant::tool::json::AttemptContext;
use intendant_journal::format::entry::Key;
use intendant_reconcilers::command::{Argv, Ended, Ending, Execution, GuardPlace};
use serde::Serialize;
use serde_json::json;

use super::Common;
use crate::exit::{Exit, Failure};
use crate::keys;
use crate::open;
use crate::print;
use crate::socket::{Ask, Client};

/// Syncs that are measured.
const SYNCS: usize = 20;
/// Above this, every step of a job is slow.
const SLOW_SYNC: Duration = Duration::from_millis(50);
/// Below this, new segments may not find room.
const LITTLE_SPACE_BYTES: u64 = 512 * 1024 * 1024;
/// How far the clock may be behind the journal before it is told.
const BEHIND_MS: i64 = 1_000;
/// Type of a file system that lives in memory.
const TMPFS: u64 = 0x0102_1994;

/// Check folder, owner, disk, clock and guard; say what is wrong and what to do
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  intendant doctor")]
pub(super) struct DoctorArgs {}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Finding {
    what: &'static str,
    /// `ok`, `warning` or `bad`.
    state: &'static str,
    found: String,
    remedy: String,
    #[serde(skip)]
    exit: Exit,
}

impl Finding {
    fn ok(what: &'static str, found: impl Into<String>) -> Self {
        Self {
            what,
            state: "ok",
            found: found.into(),
            remedy: String::new(),
            exit: Exit::Done,
        }
    }

    fn warning(what: &'static str, found: impl Into<String>, remedy: &str) -> Self {
        Self {
            state: "warning",
            remedy: remedy.to_owned(),
            ..Self::ok(what, found)
        }
    }

    fn bad(what: &'static str, failure: Failure) -> Self {
        Self {
            what,
            state: "bad",
            found: failure.message,
            remedy: failure.remedy,
            exit: failure.exit,
        }
    }
}

pub(super) fn run(common: &Common, _: &DoctorArgs) -> Result<Exit, Failure> {
    let data = &common.data;
    let mut findings = journal(data);
    findings.extend(record(data));
    findings.push(owner(data));
    if data.is_dir() {
        findings.push(space(data));
        findings.push(sync(data));
    }
    findings.push(key());
    findings.push(guard());
    if let Ok(why) = std::fs::read_to_string(open::last_failure(data)) {
        findings.push(Finding::warning(
            "last failure",
            why.trim(),
            "look at the disk, then start the job again: a restart is safe",
        ));
    }
    let worst = findings
        .iter()
        .find(|finding| finding.state == "bad")
        .map_or(Exit::Done, |finding| finding.exit);
    if common.json {
        let healthy = worst == Exit::Done;
        print::json(&json!({ "schema": 1, "healthy": healthy, "findings": findings }));
        return Ok(worst);
    }
    let rows = findings
        .into_iter()
        .map(|finding| {
            let found = match finding.remedy.as_str() {
                "" => finding.found,
                remedy => format!("{}; {remedy}", finding.found),
            };
            vec![finding.what.to_owned(), finding.state.to_owned(), found]
        })
        .collect();
    print::out(print::table(&["WHAT", "STATE", "FOUND"], &[0, 1], rows));
    Ok(worst)
}

/// The journal as a whole, and its last time against the clock.
fn journal(data: &Path) -> Vec<Finding> {
    let mut last_wall_ms = i64::MIN;
    let report = open::scan(data, |recorded| {
        last_wall_ms = last_wall_ms.max(recorded.entry.at.wall_ms);
    });
    let report = match report {
        Ok(report) => report,
        Err(error) => return vec![Finding::bad("journal", error.into())],
    };
    let found = format!(
        "{} in {}, epoch {}, {} entries in {} segment(s)",
        report.id,
        data.display(),
        report.epoch,
        report.end,
        report.segments
    );
    let behind = last_wall_ms.saturating_sub(SystemClock.now().wall_ms);
    let clock = if behind > BEHIND_MS {
        let found = format!(
            "the clock is {} behind the journal's last entry",
            print::span(Duration::from_millis(behind.unsigned_abs()))
        );
        let remedy = "set the clock; until then keys of idempotent tools count as forgotten";
        Finding::warning("clock", found, remedy)
    } else {
        Finding::ok("clock", "not behind the journal")
    };
    vec![Finding::ok("journal", found), clock]
}

/// The record outside against what is in the folder. Where both know of nothing, nothing is said.
fn record(data: &Path) -> Option<Finding> {
    let found = match open::whereabouts(data) {
        Ok(found) => found,
        Err(error) => return Some(Finding::bad("record", error.into())),
    };
    if !found.can_be_recorded {
        return Some(Finding::warning("record", open::NO_RECORDS, "set HOME"));
    }
    let refused = |what: String, remedy: &str| {
        Finding::bad(
            "record",
            Failure::new(Exit::JournalRefused, "gone", what, remedy),
        )
    };
    Some(match (found.there, found.recorded) {
        (None, None) => return None,
        (Some(_), None) => Finding::warning(
            "record",
            "the journal is not recorded outside its folder",
            "if it was moved here, that is as it should be: the next start records it",
        ),
        (Some(there), Some(recorded)) if there == recorded => {
            Finding::ok("record", "the record outside names this journal")
        }
        (Some(there), Some(recorded)) => refused(
            format!("the record outside names journal {recorded}, the folder holds {there}"),
            "bring the recorded one back, or take this one with run --new-journal",
        ),
        (None, Some(recorded)) => refused(
            format!("the record outside names journal {recorded}, and it is gone"),
            "bring it back (volume not mounted?), or begin a new one with run --new-journal",
        ),
    })
}

fn owner(data: &Path) -> Finding {
    let owner = match open::owner(data) {
        Ok(None) => return Finding::ok("owner", "no process owns it"),
        Ok(Some(owner)) => owner,
        Err(failure) => return Finding::bad("owner", failure),
    };
    let Some(socket) = owner.socket else {
        let found = format!("process {} owns it and serves no socket", owner.pid);
        return Finding::warning(
            "owner",
            found,
            "if that lasts, it is a program without a socket: changes go through it alone",
        );
    };
    let health = Client::connect(&socket)
        .map_err(|error| error.to_string())
        .and_then(|mut client| {
            client
                .ask::<serde_json::Value>(&Ask::Health)
                .map_err(|lost| lost.to_string())
        });
    match health {
        Ok(Ok(health))
            if health["disabled"].is_null() && health["checkpoint_trouble"].is_string() =>
        {
            let trouble = health["checkpoint_trouble"].as_str().unwrap_or_default();
            Finding::warning("owner", trouble, "look at the disk; recording goes on")
        }
        Ok(Ok(health)) if health["disabled"].is_null() => Finding::ok(
            "owner",
            format!("process {} answers on {}", owner.pid, socket.display()),
        ),
        Ok(Ok(health)) => Finding::bad(
            "owner",
            Failure::new(
                Exit::Storage,
                "disabled",
                format!("its journal is disabled: {}", health["disabled"]),
                "look at the disk, then start the job again: a restart is safe",
            ),
        ),
        Ok(Err(refusal)) => Finding::warning("owner", refusal.message, &refusal.remedy),
        Err(why) => Finding::warning(
            "owner",
            format!(
                "process {} does not answer on {}: {why}",
                owner.pid,
                socket.display()
            ),
            "it may just be ending; ask again",
        ),
    }
}

/// The key that signs checkpoints.
fn key() -> Finding {
    match keys::own() {
        Ok(Some(key)) => Finding::ok("signing key", key.name()),
        Ok(None) => Finding::ok("signing key", "made when a journal is next opened"),
        Err(error) => Finding::warning(
            "signing key",
            error.to_string(),
            "until then checkpoints are not signed",
        ),
    }
}

fn space(data: &Path) -> Finding {
    match rustix::fs::statvfs(data) {
        Err(error) => Finding::bad(
            "space",
            Failure::io(data, "asking for space", &error.into()),
        ),
        Ok(stat) => {
            let bytes = stat.f_bavail.saturating_mul(stat.f_frsize);
            let found = format!("{} MiB free", bytes / (1024 * 1024));
            match bytes {
                bytes if bytes >= LITTLE_SPACE_BYTES => Finding::ok("space", found),
                _ => Finding::warning(
                    "space",
                    found,
                    "free some: on a full disk no new action starts",
                ),
            }
        }
    }
}

fn sync(data: &Path) -> Finding {
    if rustix::fs::statfs(data).is_ok_and(|stat| u64::try_from(stat.f_type) == Ok(TMPFS)) {
        return Finding::warning(
            "sync",
            "the folder lives in memory (tmpfs): a power cut loses it",
            "name a folder on a disk with --data",
        );
    }
    let path = data.join(format!(".doctor-{}", std::process::id()));
    let measured = measure(&path);
    // It may not be there if it could not be made.
    let _ = std::fs::remove_file(&path);
    match measured {
        Err(error) => Finding::bad("sync", Failure::io(&path, "writing and syncing", &error)),
        Ok(median) => {
            let found = format!("{:.2} ms, median of {SYNCS}", median.as_secs_f64() * 1e3);
            match median {
                median if median <= SLOW_SYNC => Finding::ok("sync", found),
                _ => Finding::warning("sync", found, "each step waits for one; use a faster disk"),
            }
        }
    }
}

fn measure(path: &Path) -> std::io::Result<Duration> {
    let mut file = File::create_new(path)?;
    let mut took = Vec::new();
    for _ in 0..SYNCS {
        let began = Instant::now();
        file.write_all(&[0; 4096])?;
        file.sync_data()?;
        took.push(began.elapsed());
    }
    took.sort();
    Ok(took[SYNCS / 2])
}

/// Runs a command that does nothing under a guard, as every tool runs.
fn guard() -> Finding {
    let folder = std::env::temp_dir().join(format!("intendant-doctor-{}", std::process::id()));
    let found = guarded(&folder);
    // It may not be there if it could not be made.
    let _ = std::fs::remove_dir_all(&folder);
    match found {
        Ok(()) => Finding::ok("guard", "a command runs and ends under it"),
        Err(why) => Finding::bad(
            "guard",
            Failure::new(
                Exit::Storage,
                "guard",
                why,
                "tools cannot run here: allow this program to start itself and /bin/sh",
            ),
        ),
    }
}

fn guarded(folder: &Path) -> Result<(), String> {
    let place = GuardPlace::this_program(folder);
    let argv = Argv::new(["/bin/sh", "-c", "exit 0"]).map_err(|error| error.to_string())?;
    let timeout = Duration::from_secs(10);
    let cx = AttemptContext {
        run: "doctor".to_owned(),
        action: "doctor/guard".to_owned(),
        attempt: 1,
        epoch: 0,
        key: Key([0; 16]),
        deadline: std::time::SystemTime::now() + timeout,
    };
    let execution = Execution {
        argv: &argv,
        cwd: Path::new("/"),
        place: &place,
        cx: &cx,
        arguments: &serde_json::Value::Null,
        timeout,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    match runtime.block_on(execution.run()).ending {
        Ending::Ended(Ended::Exited(0)) => Ok(()),
        other => Err(format!("a command under the guard ended as {other:?}")),
    }
}
