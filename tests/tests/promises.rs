//! Every promise of the README has at least one test that names its id.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn each_promise_has_a_test_that_names_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let mut named = BTreeSet::new();
    let mut files = Vec::new();
    for part in ["journal", "engine", "reconcilers", "cli", "tests"] {
        rust_files(&root.join(part), &mut files);
    }
    for file in files {
        for line in std::fs::read_to_string(file).unwrap().lines() {
            let Some((_, name)) = line.split_once("fn ") else {
                continue;
            };
            let name = name.split('(').next().unwrap_or_default();
            named.extend(
                name.split('_')
                    .filter(|word| word.starts_with('p'))
                    .map(str::to_owned),
            );
        }
    }
    for promise in 1..=12 {
        assert!(
            readme.contains(&format!("| P{promise} |")),
            "README names P{promise}"
        );
        assert!(
            named.contains(&format!("p{promise}")),
            "no test names P{promise}"
        );
    }
}
