//! Files of the log cut and extended.

use intendant_journal::disk::simulated::Files;

use crate::bytes::whole;
use crate::oracle::{Bench, Told};
use crate::specimen::{Specimen, segment};

const FRAME_HEADER_BYTES: usize = 24;

/// Where frames begin and end in a segment, read by their lengths alone, and the pages.
fn boundaries(bytes: &[u8]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..=bytes.len()).step_by(4096).collect();
    let mut at = 4096;
    while at + FRAME_HEADER_BYTES <= bytes.len() {
        let length = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        if length == 0 {
            at = (at + 1).next_multiple_of(4096);
            continue;
        }
        places.push(at);
        at = (at + FRAME_HEADER_BYTES + length).next_multiple_of(8);
        places.push(at.min(bytes.len()));
    }
    places.sort_unstable();
    places.dedup();
    places
}

/// At each boundary, around it, and in the middle between two.
fn cuts(bytes: &[u8]) -> Vec<usize> {
    let boundaries = boundaries(bytes);
    let middles = boundaries
        .windows(2)
        .map(|pair| usize::midpoint(pair[0], pair[1]));
    let near = boundaries.iter().flat_map(|at| {
        [
            at.saturating_sub(9),
            at.saturating_sub(1),
            *at,
            at + 1,
            at + 23,
        ]
    });
    let mut cuts: Vec<usize> = near.chain(middles).filter(|at| *at < bytes.len()).collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

fn truncate(bench: &mut Bench<'_>, number: u64, to: usize) -> Told {
    bench.case(
        &format!("segment {number} cut to {to}"),
        |files: &mut Files| {
            files.get_mut(&segment(number)).unwrap().truncate(to);
        },
    )
}

#[test]
fn fault_a7_every_segment_cut_at_every_boundary_and_inside_frames() {
    for specimen in [Specimen::closed(), Specimen::closed().without(&["mark"])] {
        let mut bench = Bench::new(&specimen);
        for number in 1..=specimen.used {
            let path = segment(number);
            let content = specimen.content_end(&path).next_multiple_of(8);
            let bytes = specimen.bytes(&path).to_vec();
            let mut inside = 0;
            for to in cuts(&bytes) {
                let told = truncate(&mut bench, number, to);
                if number < specimen.used || to < content {
                    let stop = told.stop();
                    // An empty segment is a spare: the log ends in the one before.
                    let at_end = to == 4096 && stop.segment == Some(number - 1);
                    let here = stop.path == path && stop.offset <= to as u64;
                    assert!(here || at_end, "cut to {to}: {}", stop.text);
                    inside += 1;
                } else {
                    // Zeros at the end are all that is missing: they are filled in.
                    assert_eq!(told, Told::Filled, "segment {number} cut to {to}");
                }
            }
            assert!(inside > 20, "segment {number}: {inside} cuts inside");
        }
    }
}

#[test]
fn fault_a3_the_last_segment_of_a_killed_process_cut_at_every_boundary() {
    let specimen = Specimen::killed();
    let mut bench = Bench::new(&specimen);
    let path = segment(specimen.used);
    let bytes = specimen.bytes(&path).to_vec();
    let group = bytes
        .windows(13)
        .position(|it| it == b"unsettled one")
        .unwrap();
    let group = group - group % 4096;
    let mut cut = 0;
    for to in cuts(&bytes) {
        let told = truncate(&mut bench, specimen.used, to);
        // What was acknowledged ends somewhere before the group.
        if to >= group {
            assert!(!told.is_stop(), "cut to {to}: {told:?}");
            cut += usize::from(told != Told::Whole);
        }
    }
    assert!(cut > 5, "{cut}");
}

#[test]
fn fault_a9_a_spare_cut_anywhere() {
    let specimen = Specimen::closed();
    let mut bench = Bench::new(&specimen);
    let number = specimen.used + 1;
    for to in cuts(specimen.bytes(&segment(number))) {
        let told = truncate(&mut bench, number, to);
        match to < 4096 {
            true => assert!(told.stop().text.contains("without header")),
            false => assert_eq!(told, Told::Filled, "cut to {to}"),
        }
    }
}

#[test]
fn fault_a9_every_segment_extended_by_zeros_and_by_garbage() {
    let specimen = Specimen::closed();
    let mut bench = Bench::new(&specimen);
    for number in 1..=specimen.used + 1 {
        let whole = specimen.bytes(&segment(number)).len();
        for more in [1, 7, 8, 24, 511, 512, 4095, 4096, 4097, 65_536] {
            for byte in [0, 0xa5] {
                let told = bench.case(
                    &format!("segment {number} and {more} of {byte:#x}"),
                    |files| {
                        files
                            .get_mut(&segment(number))
                            .unwrap()
                            .resize(whole + more, byte);
                    },
                );
                if number < specimen.used {
                    assert_eq!(told.stop().offset, whole as u64, "{}", told.stop().text);
                } else {
                    assert_eq!(told, Told::Cut(segment(number), whole as u64));
                }
            }
        }
    }
}

#[test]
fn fault_a9_garbage_behind_the_end_of_the_log() {
    let specimen = Specimen::closed();
    let mut bench = Bench::new(&specimen);
    let path = segment(specimen.used);
    let (content, full) = (specimen.content_end(&path), specimen.bytes(&path).len());
    let old = specimen.bytes(&segment(1))[4096..8192].to_vec();
    let first_page = content.next_multiple_of(4096);
    for at in (content + 8..full - 8).step_by(if whole() { 97 } else { 1_021 }) {
        let told = bench.case(&format!("garbage from {at} on"), |files| {
            files.get_mut(&path).unwrap()[at..].fill(0x5a);
        });
        assert!(matches!(told, Told::Cut(..)), "{told:?}");
    }
    // Frames of another segment, whose checksums hold there.
    for at in (first_page..=full - 4096).step_by(4096) {
        let told = bench.case(&format!("a page of segment 1 at {at}"), |files| {
            files.get_mut(&path).unwrap()[at..at + 4096].copy_from_slice(&old);
        });
        assert_eq!(told, Told::Cut(path.clone(), at as u64));
    }
}
