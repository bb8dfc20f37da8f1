//! The real program under `strace`: killed, or failed, at the n-th system call of a kind, whoever
//! makes it. So a place that nobody gave a fail point is cut too, and a write that goes past the
//! file layer is seen.

use intendant_tests::calls::{self, CHANGING, Call};
use intendant_tests::payouts::{Payouts, Variation};
use intendant_tests::program::{Ended, Program};
use intendant_tests::scene::Scene;

/// Calls of one kind that a sweep goes through; the whole campaign goes on to the last one.
const SAMPLE: usize = 12;

fn payouts(scene: &Scene) -> Payouts {
    Payouts::new(
        scene,
        &Variation {
            rows: 4,
            concurrency: 2,
            ..Variation::default()
        },
    )
}

fn run<'s>(scene: &'s Scene, payouts: &Payouts) -> Program<'s> {
    Program::new(scene)
        .arg("run")
        .arg(payouts.job())
        .args(["--segment-bytes", "65536"])
}

/// A first run whose calls of this kind, from the n-th of each thread on, meet the fault.
fn injected(scene: &Scene, payouts: &Payouts, call: &str, fault: &str, number: usize) -> Ended {
    let inject = format!("inject={call}:{fault}:when={number}");
    let trace = format!("trace={call}");
    run(scene, payouts)
        .under([
            "strace",
            "-f",
            "-qq",
            "-o",
            "/dev/null",
            "-e",
            &trace,
            "-e",
            &inject,
        ])
        .run()
}

/// After the fault has gone the job ends well, every payout was made once, and the log is whole.
fn assert_heals(scene: &Scene, payouts: &Payouts) {
    let done = run(scene, payouts).run().expect(0).json();
    assert_eq!(done["state"], "completed", "{done}");
    payouts.ledger().assert_exact(payouts.asked());
    assert!(payouts.marks().again.is_empty(), "an attempt ran twice");
    let _ = Program::new(scene).arg("verify").run().expect(0);
}

/// Meets the fault at one call after another until a run does not meet it any more. Returns how
/// many did.
fn sweep(call: &str, fault: &str, met: impl Fn(&Ended) -> bool) -> usize {
    let whole = std::env::var_os("INTENDANT_WHOLE").is_some();
    let mut hits = 0;
    for number in 1.. {
        let repeat = format!("{fault} at call {number} of {call}");
        let scene = Scene::new("system-calls", repeat);
        let payouts = payouts(&scene);
        let ended = injected(&scene, &payouts, call, fault, number);
        let hit = met(&ended);
        assert!(hit || ended.code() == Some(0), "{ended:?}");
        hits += usize::from(hit);
        assert_heals(&scene, &payouts);
        if !whole && number == SAMPLE || !hit && number > SAMPLE {
            break;
        }
    }
    hits
}

#[test]
fn fault_a1_killed_at_the_nth_write_sync_or_rename_whoever_makes_it() {
    for (call, least) in [
        ("pwrite64", 10),
        ("fdatasync", 6),
        ("fsync", 3),
        ("rename", 2),
    ] {
        let hits = sweep(call, "signal=KILL", |ended| ended.signal() == Some(9));
        assert!(hits >= least, "{call}: only {hits} kills hit");
    }
}

#[test]
fn fault_a5_a6_the_nth_sync_or_write_fails_whoever_makes_it() {
    for (call, error) in [("fdatasync", "error=EIO"), ("pwrite64", "error=ENOSPC")] {
        let hits = sweep(call, error, |ended| ended.code() == Some(6));
        assert!(hits >= 2, "{call}: only {hits} failures were told");
    }
}

/// The journal's own files, by their names in the folder.
fn is_journals(path: &str) -> bool {
    let first = path.split('/').next().unwrap_or_default();
    path.is_empty()
        || [
            "IDENTITY",
            "IDENTITY.tmp",
            "LOCK",
            "mark",
            "journal",
            "blobs",
        ]
        .contains(&first)
        || first.starts_with("projection.redb")
}

#[test]
fn trial_b08_every_change_goes_through_the_file_layer_and_new_names_are_synced_before_use() {
    let scene = Scene::new("system-calls", "no fault");
    let payouts = payouts(&scene);
    let trace = scene.path("trace");
    let select = format!("trace={CHANGING}");
    let strace = ["strace", "-f", "-y", "-qq", "-s", "0", "-e", &select, "-o"];
    let _ = run(&scene, &payouts)
        .under(strace)
        .under([trace.as_os_str()])
        .run()
        .expect(0);
    let calls: Vec<Call> = calls::read(&trace, &scene.data())
        .into_iter()
        .filter(|call| is_journals(&call.path) && call.changes())
        .collect();
    assert!(
        calls.len() > 40,
        "the trace saw only {} changes",
        calls.len()
    );

    // The file layer writes at offsets, creates what is not there, and nothing else.
    const LAYER: [&str; 7] = [
        "pwrite64",
        "ftruncate",
        "fsync",
        "fdatasync",
        "rename",
        "unlink",
        "mkdir",
    ];
    for call in &calls {
        let creates = call.name == "openat" && call.line.contains("O_EXCL");
        assert!(
            LAYER.contains(&call.name.as_str()) || creates,
            "not by the file layer: {}",
            call.line
        );
    }

    let at = |name: &str, path: &str, from: usize| {
        calls[from..]
            .iter()
            .position(|call| call.name == name && call.path == path)
            .map(|at| from + at)
    };
    let renamed: Vec<usize> = (0..calls.len())
        .filter(|at| calls[*at].name == "rename")
        .collect();
    assert!(renamed.len() >= 3, "identity and two segments: {renamed:?}");
    for index in renamed {
        let path = &calls[index].path;
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let synced = at("fsync", folder, index)
            .unwrap_or_else(|| panic!("{path}: its folder is not synced after the renaming"));
        if let Some(used) = at("pwrite64", path, index) {
            assert!(
                synced < used,
                "{path} is written to before its name is durable"
            );
        }
        let content = at("fsync", &format!("{path}.tmp"), 0);
        assert!(
            content.is_some_and(|content| content < index),
            "{path}: its content is not synced before the renaming"
        );
    }
}
