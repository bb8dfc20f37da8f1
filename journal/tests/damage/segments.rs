//! Segments removed, swapped, doubled, from elsewhere, from an earlier state.

use intendant_journal::disk::simulated::{Files, SimulatedDisk};

use crate::oracle::{Bench, Told};
use crate::specimen::{DATA, Specimen, data, options, segment};
use crate::support::{append, note};

fn swap(files: &mut Files, one: u64, other: u64) {
    let held = files.remove(&segment(one)).unwrap();
    let moved = files.insert(segment(other), held).unwrap();
    files.insert(segment(one), moved);
}

#[test]
fn fault_a8_every_segment_removed() {
    let specimen = Specimen::closed();
    let mut bench = Bench::new(&specimen);
    for number in 1..=specimen.used {
        let told = bench.case(&format!("segment {number} removed"), |files| {
            files.remove(&segment(number)).unwrap();
        });
        let stop = told.stop();
        assert_eq!((&stop.path, stop.segment), (&segment(number), Some(number)));
        assert!(stop.text.contains("missing"), "{}", stop.text);
    }
    let told = bench.case("the spare removed", |files| {
        files.remove(&segment(specimen.used + 1)).unwrap();
    });
    assert_eq!(told, Told::Whole);
    // From the end: only the witnesses know of them.
    for first in 1..=specimen.used {
        let told = bench.case(&format!("removed from segment {first} on"), |files| {
            files.retain(|path, _| *path < segment(first) || *path > segment(999));
        });
        let stop = told.stop();
        assert!(stop.text.contains("lost"), "{}", stop.text);
    }
}

#[test]
fn fault_a8_removed_from_the_end_while_only_the_projection_remembers() {
    let specimen = Specimen::closed().without(&["mark"]);
    let mut bench = Bench::new(&specimen);
    for first in 1..=specimen.used {
        let told = bench.case(&format!("removed from segment {first} on"), |files| {
            files.retain(|path, _| *path < segment(first) || *path > segment(999));
        });
        assert!(told.is_stop(), "{told:?}");
    }
}

#[test]
fn fault_a8_every_two_segments_swapped() {
    let specimen = Specimen::closed();
    let mut bench = Bench::new(&specimen);
    for one in 1..=specimen.used + 1 {
        for other in one + 1..=specimen.used + 1 {
            let told = bench.case(&format!("{one} and {other} swapped"), |files| {
                swap(files, one, other);
            });
            let stop = told.stop();
            assert_eq!(stop.segment, Some(one), "{}", stop.text);
            assert!(stop.text.contains("under another name"), "{}", stop.text);
        }
    }
}

#[test]
fn fault_a8_every_segment_doubled_under_every_other_name() {
    let specimen = Specimen::closed();
    let mut bench = Bench::new(&specimen);
    for from in 1..=specimen.used + 1 {
        for to in (1..=specimen.used + 3).filter(|to| *to != from) {
            let told = bench.case(&format!("{from} doubled as {to}"), |files| {
                let bytes = files[&segment(from)].clone();
                files.insert(segment(to), bytes);
            });
            assert!(told.is_stop(), "{from} doubled as {to}: {told:?}");
        }
        for name in [
            "1.seg",
            "copy of 0000000000000001.seg",
            "0000000000000001.seg~",
        ] {
            let told = bench.case(&format!("{from} doubled as {name}"), |files| {
                let bytes = files[&segment(from)].clone();
                files.insert(data("journal").join(name), bytes);
            });
            assert_eq!(told.stop().path, data("journal").join(name));
            assert!(told.stop().text.contains("move it out of this folder"));
        }
    }
}

#[test]
fn fault_a12_every_segment_taken_from_another_journal() {
    let specimen = Specimen::closed();
    let other = Specimen::closed();
    let mut bench = Bench::new(&specimen);
    for number in 1..=specimen.used + 1 {
        let told = bench.case(&format!("segment {number} of another journal"), |files| {
            files.insert(segment(number), other.files[&segment(number)].clone());
        });
        let stop = told.stop();
        assert_eq!(
            (stop.segment, stop.offset),
            (Some(number), 16),
            "{}",
            stop.text
        );
        assert!(stop.text.contains(&other.id.to_string()), "{}", stop.text);
        assert!(!stop.text.contains("--data"), "{}", stop.text);
    }
    // All of them: the mark still says whose folder it is.
    let told = bench.case("all segments of another journal", |files| {
        for number in 1..=specimen.used + 1 {
            files.insert(segment(number), other.files[&segment(number)].clone());
        }
    });
    assert_eq!(told.stop().segment, Some(1));
}

#[test]
fn fault_a12_every_segment_from_an_earlier_state_of_the_journal() {
    let earlier = Specimen::closed();
    let disk = SimulatedDisk::holding(&earlier.files);
    let journal = options(&disk).open(DATA).unwrap();
    for number in 0..20 {
        append(
            &journal,
            vec![note("r", &format!("later {number} {}", "l".repeat(9_000)))],
        )
        .unwrap();
    }
    journal.close();
    let later = Specimen::of(&disk, earlier.id);
    let mut bench = Bench::new(&later);
    for number in 1..=later.used {
        let Some(old) = earlier.files.get(&segment(number)) else {
            continue;
        };
        let changed = *old != later.files[&segment(number)];
        let told = bench.case(&format!("segment {number} of an earlier state"), |files| {
            files.insert(segment(number), old.clone());
        });
        assert_eq!(told.is_stop(), changed, "segment {number}: {told:?}");
    }
}
