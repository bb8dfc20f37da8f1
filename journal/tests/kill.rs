//! A process that is killed in the middle of appends: what it was told is recorded is there.
//!
//! The child is this test binary, started again with a folder in its environment.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use intendant_journal::error::OpenError;
use intendant_journal::face::IntentLog;
use intendant_journal::{Options, scan};
use support::*;

const FOLDER: &str = "INTENDANT_TEST_KILL_FOLDER";

/// Not a test of its own: the body of the child.
#[test]
fn child() {
    let Some(root) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let journal = Options::new()
        .segment_bytes(SMALL)
        .state_home(root.join("state"))
        .open_or_create(root.join("data"))
        .unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let journal = &journal;
            scope.spawn(move || {
                let run = format!("run-{}-{thread}", std::process::id());
                for number in 0.. {
                    let value = format!("{number} {}", "x".repeat(number % 700));
                    append(journal, vec![note(&run, &value), note(&run, &value)]).unwrap();
                    // Told only after it is durable.
                    println!("{run} {number}");
                }
            });
        }
    });
}

fn start(place: &Place) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--nocapture", "--test-threads=1"])
        .env(FOLDER, place.root())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn what_was_acknowledged_survives_kills_in_the_middle_of_appends() {
    let place = Place::new();
    let mut acknowledged = std::collections::BTreeMap::<String, usize>::new();
    let mut random = 0x9e37_79b9_u64;
    for round in 0..12 {
        let mut child = start(&place);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(round);
        let kill_after = (random >> 33) % 400;
        let mut count = 0;
        let mut take = |line: String, count: &mut u64| {
            // The harness prints lines of its own.
            if let Some((run, number)) = line.split_once(' ')
                && run.starts_with("run-")
                && let Ok(number) = number.parse::<usize>()
            {
                acknowledged.insert(run.to_owned(), number);
                *count += 1;
            }
        };
        while count <= kill_after {
            take(lines.next().unwrap().unwrap(), &mut count);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // What it had said before it died counts too; its last line may be cut.
        for line in lines.map_while(Result::ok) {
            take(line, &mut count);
        }
    }
    assert!(acknowledged.len() >= 24, "the children did nothing");

    let mut found = std::collections::BTreeMap::<String, Vec<usize>>::new();
    let mut next = 1;
    scan::scan(place.data(), |recorded| {
        assert_eq!(recorded.sequence.0, next);
        next += 1;
        if let Some(value) = value(&recorded) {
            let number = value.split(' ').next().unwrap().parse().unwrap();
            found
                .entry(recorded.entry.run.unwrap())
                .or_default()
                .push(number);
        }
    })
    .unwrap();
    for (run, last) in acknowledged {
        let numbers = &found[&run];
        assert!(
            numbers.len() >= 2 * (last + 1),
            "{run}: acknowledged {last}"
        );
        for (at, number) in numbers.iter().enumerate() {
            assert_eq!(at / 2, *number, "{run}: invented, doubled or out of order");
        }
        assert_eq!(numbers.len() % 2, 0, "{run}: a batch was split");
    }
    assert_eq!(place.open().epoch().0, 13);
}

#[test]
fn trial_b13_a_killed_owner_blocks_nobody() {
    let place = Place::new();
    let mut child = start(&place);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while !lines.next().unwrap().unwrap().starts_with("run-") {}
    let error = place.options().open(place.data()).unwrap_err();
    let OpenError::Owned { pid, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(pid, child.id());
    child.kill().unwrap();
    let begun = std::time::Instant::now();
    place.open();
    assert!(begun.elapsed() < Duration::from_secs(10));
    child.wait().unwrap();
}
