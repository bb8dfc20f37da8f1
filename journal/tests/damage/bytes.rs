//! Every byte of every file of the log changed.

use std::path::Path;

use crate::oracle::{Bench, Told};
use crate::specimen::{Specimen, segment};

/// True if every byte is to be taken, however much alike they are.
pub(crate) fn whole() -> bool {
    std::env::var_os("INTENDANT_WHOLE").is_some_and(|it| it == "1")
}

/// Which bytes of a file are changed: every one, or every one but for a sample of stretches in which
/// a byte and its neighbours are all the same.
pub(crate) fn places(bytes: &[u8], stride: usize) -> Vec<usize> {
    let alike = |at: usize| {
        let around = &bytes[at.saturating_sub(16)..(at + 17).min(bytes.len())];
        around.iter().all(|byte| *byte == bytes[at])
    };
    (0..bytes.len())
        .filter(|at| whole() || at % stride == 0 || !alike(*at))
        .collect()
}

struct Count {
    stopped: usize,
    cut: usize,
    whole: usize,
}

/// Changes bytes on as many threads as there are kinds of change; each byte meets one of them, or
/// all if everything is asked for.
fn sweep(specimen: &Specimen, path: &Path) -> Count {
    let places = places(specimen.bytes(path), 509);
    let masks: &[u8] = if whole() {
        &[0x01, 0x80, 0xff]
    } else {
        &[0x21]
    };
    let halves = places.split_at(places.len() / 2);
    let count = |places: &[usize]| {
        let mut bench = Bench::new(specimen);
        let mut count = Count {
            stopped: 0,
            cut: 0,
            whole: 0,
        };
        for (at, mask) in places
            .iter()
            .flat_map(|at| masks.iter().map(move |mask| (*at, *mask)))
        {
            match bench.byte(path, at, mask) {
                Told::Stop(stop) => {
                    // The error names the file that was changed, and a place not far behind.
                    assert_eq!(stop.path, path, "byte {at}: {}", stop.text);
                    count.stopped += 1;
                }
                Told::Cut(..) => count.cut += 1,
                Told::Whole | Told::Filled => count.whole += 1,
            }
        }
        count
    };
    let (one, two) = std::thread::scope(|scope| {
        let other = scope.spawn(|| count(halves.1));
        (count(halves.0), other.join().unwrap())
    });
    Count {
        stopped: one.stopped + two.stopped,
        cut: one.cut + two.cut,
        whole: one.whole + two.whole,
    }
}

#[test]
fn fault_a10_every_byte_of_a_sealed_segment() {
    let specimen = Specimen::closed();
    for number in 1..specimen.used {
        let found = sweep(&specimen, &segment(number));
        assert!(found.stopped > 300);
        assert_eq!((found.cut, found.whole), (0, 0), "segment {number}");
    }
}

#[test]
fn fault_a10_a11_every_byte_of_the_last_segment_in_use() {
    let specimen = Specimen::closed();
    let found = sweep(&specimen, &segment(specimen.used));
    assert!(found.stopped > 300 && found.cut > 10);
    assert_eq!(found.whole, 0);
}

#[test]
fn fault_a10_every_byte_of_the_last_segment_while_only_the_projection_remembers() {
    let specimen = Specimen::closed().without(&["mark"]);
    let found = sweep(&specimen, &segment(specimen.used));
    assert!(found.stopped > 300 && found.cut > 10);
    assert_eq!(found.whole, 0);
}

#[test]
fn fault_a3_every_byte_of_the_last_segment_of_a_killed_process() {
    let specimen = Specimen::killed();
    let found = sweep(&specimen, &segment(specimen.used));
    assert!(found.stopped > 300 && found.cut > 100);
    assert_eq!(found.whole, 0);
}

#[test]
fn fault_a9_every_byte_of_a_spare() {
    let specimen = Specimen::closed();
    let found = sweep(&specimen, &segment(specimen.used + 1));
    // Its header is checked; garbage behind is wiped out, and told.
    assert!(found.stopped > 50 && found.cut > 50);
    assert_eq!(found.whole, 0);
}
