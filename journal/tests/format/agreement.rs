//! The reader written from the document, and the crate, read the same.

use std::collections::BTreeSet;
use std::path::Path;

use intendant_journal::format::codec;
use intendant_journal::scan;

use crate::FORMAT;
use crate::reader::{self, Entry};
use crate::schema::Schema;
use crate::support::*;

/// The bytes of every golden entry: one of each kind at least, by a test of the golden files.
fn golden_entries() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut found = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if !name.starts_with("entry_") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let bytes = digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect();
        found.push((name, bytes));
    }
    found.sort();
    found
}

#[test]
fn every_golden_entry_reads_as_the_document_says() {
    let schema = Schema::of(FORMAT);
    let mut kinds = BTreeSet::new();
    for (name, bytes) in golden_entries() {
        let ours = schema
            .read("Entry", &bytes)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let theirs = serde_json::to_value(codec::decode(&bytes).unwrap()).unwrap();
        assert_eq!(ours, theirs, "{name}");
        let body = &ours["body"];
        let kind = body.as_object().and_then(|it| it.keys().next().cloned());
        kinds.insert(kind.or_else(|| body.as_str().map(str::to_owned)).unwrap());
    }
    assert_eq!(kinds.len(), schema.variants("Body"), "{kinds:?}");
}

#[test]
fn a_journal_reads_as_the_document_says() {
    let place = Place::new();
    let journal = place.open();
    append(&journal, vec![started("r"), note("r", "one")]).unwrap();
    for number in 0..40 {
        let path = format!("pay/{number}");
        append(&journal, vec![intent("r", &path)]).unwrap();
        append(
            &journal,
            vec![outcome("r", &path, format!("\"{}\"", "o".repeat(2_000)))],
        )
        .unwrap();
    }
    journal.close();
    // A second opening, and a group of several batches.
    drop(place.open());
    let killed = killed_before_sync(&place, vec![vec![note("r", "a")], vec![note("r", "b")]]);
    drop(killed.open());

    for folder in [place.data(), killed.data()] {
        let ours = reader::read(&Schema::of(FORMAT), &folder);
        let mut theirs = Vec::new();
        let report = scan::scan(&folder, |recorded| {
            theirs.push(Entry {
                sequence: recorded.sequence.0,
                epoch: recorded.epoch.0,
                value: serde_json::to_value(recorded.entry).unwrap(),
            });
        })
        .unwrap();
        assert_eq!(ours.entries, theirs);
        assert_eq!(ours.id, report.id.0);
        assert_eq!(ours.chain, report.chain.0);
        assert_eq!(ours.marked, Some(report.end.0));
        assert!(report.segments >= 3 && theirs.len() > 80);
    }
}
