//! Trials B01, B02 and B07 on the real program: damage stops the start, a torn end does not.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use intendant_tests::log_file::{active, end, flip, last_byte, overwrite, segments, set_len};
use intendant_tests::moments::Moments;
use intendant_tests::payouts::{Payouts, Variation};
use intendant_tests::program::{Ended, Program};
use intendant_tests::scene::{Content, Scene, content, contents};
use serde_json::Value;

const SEGMENT_BYTES: &str = "65536";

/// A finished job over several small segments.
fn finished(name: &str, repeat: String) -> (Scene, Payouts) {
    let scene = Scene::new(name, repeat);
    let payouts = Payouts::new(
        &scene,
        &Variation {
            rows: 30,
            argument_bytes: 8_000,
            ..Variation::default()
        },
    );
    let _ = run(&scene, &payouts).expect(0);
    payouts.ledger().assert_exact(payouts.asked());
    assert!(segments(&scene.data()).len() >= 3, "no segment was sealed");
    (scene, payouts)
}

fn run(scene: &Scene, payouts: &Payouts) -> Ended {
    Program::new(scene)
        .arg("run")
        .arg(payouts.job())
        .args(["--segment-bytes", SEGMENT_BYTES])
        .run()
}

/// The files of the journal, without those in which each process leaves its own name.
fn evidence(scene: &Scene) -> BTreeMap<PathBuf, Content> {
    let mut files = contents(&scene.data());
    files.retain(|path, _| path.starts_with(scene.path("data/journal")));
    files.insert("mark".into(), content(&scene.path("data/mark")));
    files
}

fn place(error: &Value) -> (u64, u64) {
    let number = |name: &str| {
        error[name]
            .as_u64()
            .unwrap_or_else(|| panic!("{name} in {error}"))
    };
    (number("segment"), number("offset"))
}

/// Start and check are refused and name the same place; nothing is changed and nothing executed.
fn assert_refused(scene: &Scene, payouts: &Payouts, segment: u64, offset: u64) {
    let before = (evidence(scene), payouts.ledger(), payouts.marks());
    let refused = run(scene, payouts).expect(4).json();
    let error = &refused["error"];
    assert!(!error["remedy"].as_str().unwrap().is_empty(), "{error}");
    let (named, at) = place(error);
    assert_eq!(named, segment, "{error}");
    assert!(at <= offset + 1, "damage at {offset}, named {error}");
    let verified = Program::new(scene).arg("verify").run();
    assert_ne!(verified.code(), Some(0));
    assert_eq!(place(&verified.json()["error"]), (named, at));
    assert_eq!((evidence(scene), payouts.ledger(), payouts.marks()), before);
}

fn number_of(segment: &std::path::Path) -> u64 {
    segment
        .file_stem()
        .unwrap()
        .to_str()
        .unwrap()
        .parse()
        .unwrap()
}

#[test]
fn trial_b01_p7_a_flip_in_the_oldest_sealed_segment_stops_the_start() {
    let (scene, payouts) = finished("b01", String::new());
    let oldest = segments(&scene.data()).remove(0);
    let middle = last_byte(&oldest) / 2;
    flip(&oldest, middle);
    assert_refused(&scene, &payouts, number_of(&oldest), middle);
    flip(&oldest, middle);
    let again = run(&scene, &payouts).expect(0).json();
    assert_eq!(again["actions"]["replayed"], 30);
}

/// Adds rows to the job's file.
fn add_rows(scene: &Scene, payouts: &mut Payouts, rows: usize) {
    let csv = scene.path("job/payouts.csv");
    let mut text = fs::read_to_string(&csv).unwrap();
    for row in 0..rows {
        text.push_str(&format!("later-{row},acct-001,{},x\n", 100 + row));
    }
    fs::write(&csv, text).unwrap();
    payouts.read_rows_again();
}

#[test]
fn trial_b02_p6_ten_payouts_behind_a_torn_end_are_there_at_the_second_start() {
    let mut moments = Moments::new(0x5eed_0b02);
    let repeat = format!("INTENDANT_SEED={}", moments.seed());
    let (scene, mut payouts) = finished("b02", repeat);
    let torn = active(&scene.data());
    let garbage: Vec<u8> = (0..moments.within(1, 41))
        .map(|_| moments.next() as u8 | 1)
        .collect();
    overwrite(&torn, end(&torn), &garbage);
    add_rows(&scene, &mut payouts, 10);

    let first = run(&scene, &payouts).expect(0);
    assert_eq!(first.json()["actions"]["done"], 40);
    assert!(
        says_cut(&first),
        "the cut is not reported: {}",
        first.stderr
    );
    let second = run(&scene, &payouts).expect(0);
    assert_eq!(second.json()["actions"]["replayed"], 40);
    assert!(
        !says_cut(&second),
        "there was nothing to cut: {}",
        second.stderr
    );
    payouts.ledger().assert_exact(payouts.asked());
    let _ = Program::new(&scene).arg("verify").run().expect(0);
}

fn says_cut(ended: &Ended) -> bool {
    ended.stderr.contains("torn") || ended.stderr.contains("cut")
}

#[test]
fn trial_b07_zeros_behind_the_end_are_its_end() {
    let (scene, payouts) = finished("b07-zeros", String::new());
    let file = active(&scene.data());
    set_len(&file, fs::metadata(&file).unwrap().len() + 4096);
    let again = run(&scene, &payouts).expect(0).json();
    assert_eq!(again["actions"]["replayed"], 30);
    payouts.ledger().assert_exact(payouts.asked());
    let _ = Program::new(&scene).arg("verify").run().expect(0);
}

#[test]
fn trial_b07_p7_an_acknowledged_last_record_cut_through_stops_the_start_while_a_witness_lives() {
    let (scene, payouts) = finished("b07-cut", String::new());
    let file = active(&scene.data());
    let inside = last_byte(&file) - 3;
    set_len(&file, inside);
    assert_refused(&scene, &payouts, number_of(&file), inside);
}

/// With no witness left it cannot be told from a torn end; it is cut, and what it recorded (the end
/// of the run) is found out again without doing anything twice.
#[test]
fn trial_b07_a_last_record_cut_through_without_any_witness_is_a_torn_end() {
    let (scene, payouts) = finished("b07-torn", String::new());
    let file = active(&scene.data());
    set_len(&file, last_byte(&file) - 3);
    fs::remove_file(scene.path("data/mark")).unwrap();
    fs::remove_file(scene.path("data/projection.redb")).unwrap();
    fs::remove_dir_all(scene.path("data/checkpoints")).unwrap();
    let again = run(&scene, &payouts).expect(0);
    assert_eq!(again.json()["actions"]["done"], 30);
    assert!(
        says_cut(&again),
        "the cut is not reported: {}",
        again.stderr
    );
    payouts.ledger().assert_exact(payouts.asked());
    let _ = Program::new(&scene).arg("verify").run().expect(0);
}

#[test]
fn trial_b07_p7_zeros_inside_a_sealed_segment_stop_the_start() {
    let (scene, payouts) = finished("b07-sealed", String::new());
    let sealed = segments(&scene.data()).remove(1);
    let at = (last_byte(&sealed) / 2).next_multiple_of(4096);
    overwrite(&sealed, at, &[0; 4096]);
    assert_refused(&scene, &payouts, number_of(&sealed), at + 4095);
}
