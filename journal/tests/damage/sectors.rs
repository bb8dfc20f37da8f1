//! Every sector zeroed, and every page.

use crate::oracle::{Bench, Told};
use crate::specimen::{Specimen, segment};

fn sweep(specimen: &Specimen, sector: usize) {
    let mut bench = Bench::new(specimen);
    for number in 1..=specimen.used + 1 {
        let path = segment(number);
        let bytes = specimen.bytes(&path).to_vec();
        let mut stopped = 0;
        for at in (0..bytes.len()).step_by(sector) {
            let zeroed = bytes[at..at + sector].iter().any(|byte| *byte != 0);
            let told = bench.case(&format!("segment {number}, zeros at {at}"), |files| {
                files.get_mut(&path).unwrap()[at..at + sector].fill(0);
            });
            if !zeroed {
                assert_eq!(told, Told::Whole, "segment {number}, zeros at {at}");
            }
            if let Told::Stop(stop) = told {
                assert_eq!(stop.path, path, "{}", stop.text);
                stopped += 1;
            }
        }
        assert!(stopped > 0, "segment {number}");
    }
}

#[test]
fn fault_a10_every_sector_zeroed() {
    sweep(&Specimen::closed(), 512);
}

#[test]
fn fault_a10_every_sector_zeroed_while_only_the_projection_remembers() {
    sweep(&Specimen::closed().without(&["mark"]), 512);
}

#[test]
fn fault_a10_every_page_zeroed() {
    sweep(&Specimen::closed(), 4096);
}
