//! What lies beside the log altered, removed, emptied: mark, projection, identity, record, lock, blobs.

use std::path::{Path, PathBuf};

use intendant_journal::disk::simulated::Files;
use intendant_journal::format::entry::Sequence;
use intendant_journal::format::mark;

use crate::bytes::{places, whole};
use crate::oracle::{Bench, Told};
use crate::specimen::{STATE, Specimen, data, segment};

/// Every simple harm to a file.
type Harm = (&'static str, fn(&mut Files, &Path));
const HARMS: &[Harm] = &[
    ("removed", |files, path| drop(files.remove(path))),
    ("emptied", |files, path| {
        files.get_mut(path).unwrap().clear()
    }),
    ("zeroed", |files, path| files.get_mut(path).unwrap().fill(0)),
    ("overwritten", |files, path| {
        files.get_mut(path).unwrap().fill(0x5a)
    }),
    ("halved", |files, path| {
        let bytes = files.get_mut(path).unwrap();
        bytes.truncate(bytes.len() / 2);
    }),
    ("extended", |files, path| {
        files.get_mut(path).unwrap().extend([0x5a; 5_000])
    }),
];

fn flips() -> Vec<u8> {
    match whole() {
        true => (1..=255).collect(),
        false => (0..8).map(|bit| 1 << bit).collect(),
    }
}

#[test]
fn fault_a11_a_mark_that_cannot_be_read_is_no_witness_and_no_error() {
    let specimen = Specimen::closed();
    let other = Specimen::closed();
    let mut bench = Bench::new(&specimen);
    for (name, harm) in HARMS {
        let told = bench.case(&format!("mark {name}"), |files| harm(files, &data("mark")));
        assert_eq!(told, Told::Whole, "mark {name}");
    }
    for at in places(specimen.bytes(&data("mark")), 101) {
        assert_eq!(
            bench.byte(&data("mark"), at, 0x21),
            Told::Whole,
            "byte {at}"
        );
    }
    let told = bench.case("the mark of another journal", |files| {
        files.insert(data("mark"), other.files[&data("mark")].clone());
    });
    assert_eq!(told, Told::Whole);
}

#[test]
fn fault_a11_a_mark_beyond_the_log_shows_what_is_lost() {
    let specimen = Specimen::closed();
    let mut bench = Bench::new(&specimen);
    let beyond = Sequence(specimen.last_acknowledged().0 + 1);
    for slot in 0..2 {
        let told = bench.case(&format!("slot {slot} one further"), |files| {
            let bytes = files.get_mut(&data("mark")).unwrap();
            bytes[slot * 512..][..512].copy_from_slice(&mark::slot(specimen.id, beyond));
        });
        let stop = told.stop();
        assert_eq!(
            (stop.kind, stop.segment),
            ("shortened", Some(specimen.used))
        );
        assert!(stop.text.contains("1 entries are lost"), "{}", stop.text);
    }
}

#[test]
fn fault_a18_a_projection_that_is_damaged_is_built_again() {
    let specimen = Specimen::closed();
    let path = data("projection.redb");
    let mut bench = Bench::new(&specimen);
    for (name, harm) in HARMS {
        let told = bench.case(&format!("projection {name}"), |files| harm(files, &path));
        assert_eq!(told, Told::Whole, "projection {name}");
    }
    let stride = if whole() { 1 } else { 20_011 };
    for at in places(specimen.bytes(&path), stride)
        .into_iter()
        .step_by(if whole() { 1 } else { 41 })
    {
        assert_eq!(bench.byte(&path, at, 0x21), Told::Whole, "byte {at}");
    }
    for at in (0..specimen.bytes(&path).len()).step_by(if whole() { 512 } else { 16 * 4096 }) {
        let told = bench.case(&format!("zeros at {at}"), |files| {
            files.get_mut(&path).unwrap()[at..at + 512].fill(0);
        });
        assert_eq!(told, Told::Whole, "zeros at {at}");
    }
}

#[test]
fn fault_a13_a14_every_byte_of_the_identity() {
    let specimen = Specimen::closed();
    let path = data("IDENTITY");
    let mut bench = Bench::new(&specimen);
    for at in 0..specimen.bytes(&path).len() {
        for mask in flips() {
            let told = bench.byte(&path, at, mask);
            let stop = told.stop();
            assert_eq!(stop.path, path, "byte {at} ^ {mask:#x}: {}", stop.text);
            assert!(["damaged", "newer"].contains(&stop.kind), "{}", stop.text);
        }
    }
}

#[test]
fn fault_a14_an_identity_that_is_missing_or_of_another_journal() {
    let other = Specimen::closed();
    let path = data("IDENTITY");
    for specimen in [Specimen::closed(), Specimen::unrecorded()] {
        let mut bench = Bench::new(&specimen);
        for (name, harm) in HARMS {
            let told = bench.case(&format!("IDENTITY {name}"), |files| harm(files, &path));
            let stop = told.stop();
            assert_eq!((stop.kind, &stop.path), ("damaged", &path), "{}", stop.text);
            assert!(
                stop.text.contains(&specimen.id.to_string()),
                "{}",
                stop.text
            );
            assert!(stop.text.contains("nothing of the log"), "{}", stop.text);
        }
        for to in 0..specimen.bytes(&path).len() {
            let told = bench.case(&format!("IDENTITY cut to {to}"), |files| {
                files.get_mut(&path).unwrap().truncate(to);
            });
            assert_eq!(told.stop().kind, "damaged");
        }
        let told = bench.case("the IDENTITY of another journal", |files| {
            files.insert(path.clone(), other.files[&path].clone());
        });
        let stop = told.stop();
        assert_eq!((stop.kind, &stop.path), ("damaged", &path), "{}", stop.text);
        // The same id in capitals is not what was written.
        let told = bench.case("IDENTITY in capitals", |files| {
            let text = String::from_utf8(files[&path].clone()).unwrap();
            let id = specimen.id.to_string();
            files.insert(path.clone(), text.replace(&id, &id.to_uppercase()).into());
        });
        assert_eq!(told.stop().kind, "damaged", "{told:?}");
    }
}

fn record(specimen: &Specimen) -> PathBuf {
    let mut names = specimen.files.keys().filter(|path| path.starts_with(STATE));
    names.next().unwrap().clone()
}

#[test]
fn fault_a14_the_record_outside() {
    let specimen = Specimen::closed();
    let path = record(&specimen);
    let mut bench = Bench::new(&specimen).whose_record_is_damaged();
    for (name, harm) in HARMS {
        let told = bench.case(&format!("record {name}"), |files| harm(files, &path));
        match *name {
            "removed" => assert_eq!(told, Told::Whole),
            _ => {
                let stop = told.stop();
                assert_eq!((stop.kind, &stop.path), ("damaged", &path), "{}", stop.text);
                assert!(stop.text.contains("delete the record"), "{}", stop.text);
            }
        }
    }
    for at in 0..specimen.bytes(&path).len() {
        for mask in flips() {
            match bench.byte(&path, at, mask) {
                Told::Stop(stop) => assert!(["damaged", "gone"].contains(&stop.kind)),
                told => assert_eq!(told, Told::Whole),
            }
        }
    }
}

#[test]
fn fault_b4_the_text_of_a_lock_nobody_holds_says_nothing() {
    let specimen = Specimen::closed();
    let mut bench = Bench::new(&specimen);
    for (name, harm) in HARMS {
        let told = bench.case(&format!("LOCK {name}"), |files| harm(files, &data("LOCK")));
        assert_eq!(told, Told::Whole, "LOCK {name}");
    }
}

#[test]
fn fault_a10_blobs() {
    let specimen = Specimen::closed();
    let mut blobs = specimen
        .files
        .keys()
        .filter(|path| path.starts_with(data("blobs")));
    let path = blobs.next().unwrap().clone();
    let mut bench = Bench::new(&specimen).whose_blob_is_damaged(&path);
    for (name, harm) in HARMS {
        bench.case(&format!("blob {name}"), |files| harm(files, &path));
    }
    for at in places(specimen.bytes(&path), 83) {
        bench.byte(&path, at, 0x21);
    }
}

#[test]
fn what_interrupted_makings_leave_is_of_no_meaning() {
    let specimen = Specimen::closed();
    let mut bench = Bench::new(&specimen);
    let unfinished = format!("journal/{:016}.seg.tmp", specimen.used + 2);
    for name in [
        "IDENTITY.tmp",
        &unfinished,
        "blobs/ab/nothing.tmp",
        "projection.redb.damaged-1",
        "notes.txt",
    ] {
        for bytes in [
            Vec::new(),
            vec![0x5a; 5_000],
            specimen.bytes(&segment(1)).to_vec(),
        ] {
            let told = bench.case(&format!("beside it {name}"), |files| {
                files.insert(data(name), bytes);
            });
            assert_eq!(told, Told::Whole, "{name}");
        }
    }
}
