//! The first program that README shows: it is the example that is built, and it survives a crash.
#![allow(clippy::unwrap_used)]

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Longest first program, in lines.
const LINES_MAX: usize = 35;

fn shown() -> String {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let (_, rest) = readme
        .split_once("```rust\n")
        .expect("README shows a program");
    rest.split_once("```").expect("its block ends").0.to_owned()
}

#[test]
fn the_program_in_readme_is_the_example_and_short() {
    let example = include_str!("../examples/refunds.rs");
    let (skip, example) = example.split_once('\n').unwrap();
    assert!(skip.contains("rustfmt_skip"));
    assert_eq!(shown(), example);
    assert!(
        example.lines().count() <= LINES_MAX,
        "{} lines",
        example.lines().count()
    );
}

fn program() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let target = tests
        .parent()
        .and_then(Path::parent)
        .expect("tests stand in target/*/deps");
    target.join("examples/refunds")
}

fn run(folder: &Path, crash: bool) -> Output {
    let mut command = Command::new(program());
    command
        .current_dir(folder)
        .env("XDG_STATE_HOME", folder.join("state"));
    if crash {
        command.env("CRASH", "1");
    }
    command.output().unwrap()
}

#[test]
fn the_program_in_readme_survives_a_crash_and_refunds_once() {
    const SIGABRT: i32 = 6;
    let folder = tempfile::tempdir().unwrap();
    let crashed = run(folder.path(), true);
    assert_eq!(crashed.status.signal(), Some(SIGABRT), "{crashed:?}");
    for _ in 0..2 {
        // It would crash again if it refunded again.
        let output = run(folder.path(), true);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "refunded 7\n");
    }
    let refunds = std::fs::read_dir(folder.path())
        .unwrap()
        .filter(|entry| {
            entry
                .as_ref()
                .unwrap()
                .file_name()
                .to_string_lossy()
                .starts_with("refund-")
        })
        .count();
    assert_eq!(refunds, 1);
}
