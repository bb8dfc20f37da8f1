//! Every fail point: an abort there, and again there while the recovery that follows is on its
//! way, loses nothing that was acknowledged. And every fail point of the list is reached.
//!
//! Fail points belong to the whole process, so this is a binary of its own, and what aborts is a
//! child: this binary started again.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use intendant_journal::Options;
use intendant_journal::checkpoints::audit::{Conclusion, Evidence, audit};
use intendant_journal::checkpoints::key_file;
use intendant_journal::disk::{self, RealDisk};
use intendant_journal::face::IntentLog;
use support::*;

const FOLDER: &str = "INTENDANT_TEST_FAIL_FOLDER";
const ACTIONS: &str = "INTENDANT_TEST_FAIL_ACTIONS";

/// Fail points are armed for the whole process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn options(root: &Path) -> Options {
    Options::new()
        .segment_bytes(SMALL)
        .state_home(root.join("state"))
}

fn keys(root: &Path) -> PathBuf {
    root.join("config/intendant")
}

/// Makes or reads the key, creates or opens, appends across a roll, stores a blob, closes. Says
/// what was acknowledged.
fn work(root: &Path, mut told: impl FnMut(&str)) {
    let mut options = options(root);
    if let Ok(signer) = key_file::read_or_make(&RealDisk, &keys(root)) {
        options = options.signer(signer);
    }
    let Ok(journal) = options.open_or_create(root.join("deep/data")) else {
        return;
    };
    let epoch = journal.epoch().0;
    for number in 0..12 {
        let value = format!("{epoch}.{number} {}", "x".repeat(9_000));
        if append(&journal, vec![note("r", &value)]).is_ok() {
            told(&format!("note {epoch}.{number}"));
        }
    }
    let content = vec![b'b'; 5_000 + epoch as usize];
    if let Ok(blob) = journal.put_blob(&content) {
        assert_eq!(journal.get_blob(&blob).unwrap(), content);
        told(&format!("blob {epoch}"));
    }
    journal.close();
}

/// Not a test of its own: the body of the child.
#[test]
fn child() {
    let Some(root) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    for armed in std::env::var(ACTIONS).unwrap().split(';') {
        let (point, action) = armed.split_once('=').unwrap();
        fail::cfg(point, action).unwrap();
    }
    let mut told = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(root.join("told"))
        .unwrap();
    work(&root, |line| writeln!(told, "{line}").unwrap());
}

/// Runs the child; true if it aborted.
fn run_child(root: &Path, actions: &str) -> bool {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--test-threads=1"])
        .env(FOLDER, root)
        .env(ACTIONS, actions)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    use std::os::unix::process::ExitStatusExt as _;
    match status.signal() {
        Some(6) => true,
        Some(signal) => panic!("{actions}: ended by signal {signal}"),
        None => {
            assert!(
                status.success(),
                "{actions}: the child failed without abort"
            );
            false
        }
    }
}

/// What had been told is there, nothing is doubled, and the journal is in order.
fn check(root: &Path, actions: &str) {
    let signer = key_file::read_or_make(&RealDisk, &keys(root))
        .unwrap_or_else(|error| panic!("{actions}: {error}"));
    let known = vec![signer.verifier().clone()];
    let journal = options(root)
        .signer(signer)
        .open_or_create(root.join("deep/data"))
        .unwrap_or_else(|error| panic!("{actions}: {error}"));
    let found: Vec<String> = notes(&journal, "r")
        .into_iter()
        .map(|value| value.split(' ').next().unwrap().to_owned())
        .collect();
    let distinct: BTreeSet<&String> = found.iter().collect();
    assert_eq!(distinct.len(), found.len(), "{actions}: doubled");
    let told = std::fs::read_to_string(root.join("told")).unwrap_or_default();
    for line in told.lines() {
        if let Some(note) = line.strip_prefix("note ") {
            assert!(
                distinct.contains(&note.to_owned()),
                "{actions}: {note} was lost"
            );
        }
        if let Some(epoch) = line.strip_prefix("blob ") {
            let content = vec![b'b'; 5_000 + epoch.parse::<usize>().unwrap()];
            let blob = journal.put_blob(&content).unwrap();
            assert_eq!(journal.get_blob(&blob).unwrap(), content, "{actions}");
        }
    }
    drop(journal);
    let evidence = Evidence {
        keys: known,
        ..Evidence::default()
    };
    let report = audit(root.join("deep/data"), &evidence)
        .unwrap_or_else(|error| panic!("{actions}: {error}"));
    // Every checkpoint that is there was made of something durable, and the close made one.
    assert!(
        matches!(report.conclusion(), Conclusion::Valid(head)
            if head.checkpoint.is_some_and(|says| says.sequence == report.verified.log.end)),
        "{actions}: {:?}",
        report.conclusion()
    );
}

/// Leaves a torn end, bytes behind the last segment, and a spare that is too short, so that
/// recovery has everything to do. Only where nobody was told of anything.
fn tear(root: &Path) {
    let folder = root.join("deep/data/journal");
    let Ok(names) = std::fs::read_dir(&folder) else {
        return;
    };
    let mut segments: Vec<PathBuf> = names
        .map(|name| name.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "seg"))
        .collect();
    segments.sort();
    let bytes: Vec<Vec<u8>> = segments
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect();
    let Some(last) = bytes
        .iter()
        .rposition(|bytes| bytes[4096..].iter().any(|b| *b != 0))
    else {
        return;
    };
    if bytes[last].len() as u64 != SMALL {
        // Still torn: the recovery was cut before it came to this.
        return;
    }
    let mut torn = bytes[last].clone();
    let end = torn.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let page = end.next_multiple_of(4096);
    if page + 100 < torn.len() {
        torn[page + 10..page + 90].fill(0xee);
    }
    torn.extend_from_slice(b"behind");
    std::fs::write(&segments[last], torn).unwrap();
    if let Some(spare) = segments.get(last + 1) {
        let file = std::fs::File::options().write(true).open(spare).unwrap();
        file.set_len(SMALL - 8192).unwrap();
    }
}

/// What has to go wrong for a fail point to be reached at all.
fn companion(point: &str) -> Option<&'static str> {
    match point.split("::").nth(1).unwrap() {
        // Wiping out a group is done only after its write failed.
        "group_zero" | "group_zero_sync" => Some("disk::group_write::before=3*off->return(enospc)"),
        // An unfinished segment is removed after it could not be filled.
        "segment_remove" => Some("disk::segment_fill::before=1*off->1*return(enospc)->off"),
        _ => None,
    }
}

fn with_companion(point: &str, action: &str) -> String {
    let armed = format!("{point}={action}");
    match companion(point) {
        Some(companion) => format!("{armed};{companion}"),
        None => armed,
    }
}

/// Plays something at every fail point, a few of them at a time: what is armed is in children.
fn at_every_point(play: impl Fn(&str) + Sync) {
    let points = disk::fail_points();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while let Some(point) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
                    play(point);
                }
            });
        }
    });
}

#[test]
fn an_abort_at_every_fail_point_and_again_during_recovery_loses_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let aborted = AtomicUsize::new(0);
    at_every_point(|point| {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        let child = |actions: &str| {
            if run_child(root, actions) {
                aborted.fetch_add(1, Ordering::Relaxed);
            }
        };
        // Aborts at the first and, where it is passed more often, at the fourth time.
        for action in ["return(abort)", "3*off->return(abort)"] {
            let actions = with_companion(point, action);
            // The second child recovers from what the first left, and is cut there too.
            child(&actions);
            tear(root);
            child(&actions);
            check(root, &actions);
        }
        // Once more on a journal that is long there, torn.
        tear(root);
        let actions = with_companion(point, "return(abort)");
        child(&actions);
        check(root, &actions);
    });
    let aborted = aborted.into_inner();
    assert!(aborted > disk::fail_points().len(), "only {aborted} aborts");
}

#[test]
fn every_error_at_every_fail_point_is_survived() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    at_every_point(|point| {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        for action in [
            "1*return(eio)->off",
            "2*off->return(enospc)",
            "return(short)",
        ] {
            let actions = with_companion(point, action);
            assert!(!run_child(root, &actions), "{actions}: it aborted");
            tear(root);
        }
        check(root, point);
    });
}

#[test]
fn every_fail_point_of_the_list_is_reached() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let place = tempfile::tempdir().unwrap();
    let root = place.path();
    let scenario = fail::FailScenario::setup();
    work(root, |_| {});
    tear(root);
    work(root, |_| {});
    for point in ["disk::group_zero::before", "disk::segment_remove::before"] {
        let (name, action) = companion(point).unwrap().split_once('=').unwrap();
        fail::cfg(name, action).unwrap();
        work(root, |_| {});
        fail::remove(name);
    }
    leftovers(root);
    scenario.teardown();
    let reached = disk::reached();
    let missing: Vec<String> = disk::fail_points()
        .into_iter()
        .filter(|point| !reached.contains(point))
        .collect();
    assert!(missing.is_empty(), "never reached: {missing:?}");
}

/// Files under temporary names, as interrupted writings leave them, and a projection of no use.
fn leftovers(root: &Path) {
    let data = root.join("deep/data");
    let records = root.join("state/intendant/journals");
    for record in std::fs::read_dir(&records).unwrap() {
        let record = record.unwrap().path();
        std::fs::rename(&record, record.with_extension("tmp")).unwrap();
    }
    for folder in std::fs::read_dir(data.join("blobs")).unwrap() {
        for blob in std::fs::read_dir(folder.unwrap().path()).unwrap() {
            let blob = blob.unwrap().path();
            std::fs::rename(&blob, blob.with_extension("tmp")).unwrap();
        }
    }
    std::fs::write(data.join("projection.redb"), vec![0x55; 8192]).unwrap();
    let secret = keys(root).join(key_file::SECRET);
    std::fs::rename(&secret, secret.with_extension("tmp")).unwrap();
    std::fs::write(data.join("checkpoints/unfinished.tmp"), "intendant").unwrap();
    work(root, |_| {});
    let journal = options(root).open(&data).unwrap();
    journal.put_blob(&vec![b'b'; 5_001]).unwrap();
    drop(journal);

    let fresh = root.join("fresh");
    std::fs::create_dir(&fresh).unwrap();
    std::fs::write(fresh.join("IDENTITY.tmp"), "{").unwrap();
    options(root).open_or_create(&fresh).unwrap();
}
