//! The trusted base is small enough to read in one sitting: its files are named, its lines counted.
#![allow(clippy::unwrap_used)]

use std::path::Path;

/// The files of the kernel: everything that can mint a permit or reach a tool.
const FILES: [&str; 7] = [
    "commit.rs",
    "door.rs",
    "mod.rs",
    "permit.rs",
    "policy.rs",
    "proposal.rs",
    "tools.rs",
];

/// Lines of all of them together, comments included.
const LINES_MAX: usize = 1_000;

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/kernel")
}

#[test]
fn req_ak_03_the_kernel_is_these_files_and_no_others() {
    let mut found: Vec<_> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    assert_eq!(found, FILES);
}

#[test]
fn req_ak_41_the_kernel_can_be_read_in_one_sitting() {
    let lines = |file: &str| {
        std::fs::read_to_string(folder().join(file))
            .unwrap()
            .lines()
            .count()
    };
    let total: usize = FILES.into_iter().map(lines).sum();
    assert!(
        total <= LINES_MAX,
        "{total} lines; {LINES_MAX} are the budget"
    );
}

#[test]
fn p5_only_the_door_makes_a_call_and_only_the_kernel_reaches_a_tool() {
    let mut makers = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if std::fs::read_to_string(&path)
                .unwrap()
                .contains("Call::new(")
            {
                makers.push(
                    path.strip_prefix(env!("CARGO_MANIFEST_DIR"))
                        .unwrap()
                        .to_owned(),
                );
            }
        }
    }
    assert_eq!(makers, [Path::new("src/kernel/door.rs")]);
}
