//! Whoever reads, the same is found: on logs with any damage, threads that read ahead and a scan
//! without any give the same entries in the same order, and the same end or the same error.

mod log;

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::Ordering;

use proptest::prelude::*;

use self::log::{FOLDER, Failing, JOURNAL, Log, LogDisk};
use super::Backlog;
use crate::error::OpenError;
use crate::format::entry::{Epoch, Recorded, Sequence};
use crate::format::frame;
use crate::format::segment::{MIN_BYTES, PAGE_BYTES};
use crate::recovery::{
    Begin, Layout, Patience, Readers, Scan, ScanStart, Witness, read_layout, scan_gist,
};

const TINY: Backlog = Backlog {
    pieces: 1,
    piece_gists: 3,
    piece_bytes: 6_000,
};

/// What is told of the chain behind them must be the same too.
const WATCHED: [Sequence; 4] = [Sequence(1), Sequence(4), Sequence(30), Sequence(90)];

fn threads(count: usize) -> Readers {
    NonZeroUsize::new(count).map_or(Readers::Caller, Readers::Threads)
}

fn layout(disk: &LogDisk) -> Layout {
    read_layout(disk, Path::new(FOLDER), JOURNAL).unwrap()
}

/// How a log is read.
#[derive(Clone, Copy, Debug)]
struct Way {
    readers: Readers,
    backlog: Backlog,
    patience: Patience,
    durable: Option<u64>,
}

impl Way {
    const ALONE: Self = Self {
        readers: Readers::Caller,
        backlog: Backlog::SMALL,
        patience: Patience::Owner,
        durable: None,
    };

    fn read(
        &self,
        disk: &LogDisk,
        layout: &Layout,
        mut visit: impl FnMut(u64, Recorded),
    ) -> Result<Scan, OpenError> {
        let start = ScanStart {
            disk,
            folder: Path::new(FOLDER),
            journal: JOURNAL,
            layout,
            witness: self.durable.map(|durable| Witness {
                name: "the mark",
                durable: Sequence(durable),
            }),
            patience: self.patience,
            from: Begin::of(JOURNAL),
            readers: self.readers,
            watch: &WATCHED,
        };
        // Every third entry has no gist: pieces without any are handed on as well.
        let gist =
            |recorded: Recorded| (!recorded.sequence.0.is_multiple_of(3)).then_some(recorded);
        scan_gist(&start, self.backlog, &gist, &mut |found, recorded| {
            visit(found.number, recorded);
        })
    }

    /// All that can be told of a reading: what was visited, and how it ended.
    fn told(&self, disk: &LogDisk, layout: &Layout) -> (Vec<(u64, Recorded)>, String) {
        let mut visited = Vec::new();
        let ended = self.read(disk, layout, |segment, recorded| {
            visited.push((segment, recorded));
        });
        (visited, format!("{ended:?}"))
    }
}

#[derive(Clone, Debug)]
enum Writing {
    Group(Vec<Vec<usize>>),
    Opening,
    Roll,
    /// A group of the epoch before.
    Back,
}

fn writing() -> impl Strategy<Value = Writing> {
    let batches = prop::collection::vec(prop::collection::vec(1_usize..900, 1..5), 1..6);
    // Longer than the buffer that a segment is read through in unit tests.
    let long = (17_000_usize..25_000).prop_map(|length| Writing::Group(vec![vec![length]]));
    prop_oneof![
        30 => batches.prop_map(Writing::Group),
        3 => long,
        3 => Just(Writing::Opening),
        4 => Just(Writing::Roll),
        1 => Just(Writing::Back),
    ]
}

fn write(writings: &[Writing]) -> Log {
    let mut log = Log::new();
    log.group(1, &[vec![10]]);
    for writing in writings {
        match writing {
            Writing::Group(batches) => log.group(log.epoch, batches),
            Writing::Opening => log.epoch += 1,
            // A segment is left only once it holds a group.
            Writing::Roll => {
                log.roll();
                log.group(log.epoch, &[vec![20]]);
            }
            Writing::Back => log.group(log.epoch - 1, &[vec![30]]),
        }
    }
    log
}

/// Where something is done to the log; the numbers are taken modulo what there is.
#[derive(Clone, Debug)]
enum Harm {
    /// A bit of a group's bytes.
    Flip(usize, usize, u8),
    /// A bit anywhere behind the header.
    FlipAnywhere(usize, usize, u8),
    Zero(usize, usize, usize),
    /// From a multiple of 512 of a group on, all is zero to the end of the segment.
    Torn(usize, usize),
    Cut(usize, usize),
    Grown(usize),
    /// Two segments exchange all but their headers.
    Swap(usize, usize),
    /// A segment's groups are those of another.
    Copy(usize, usize),
    /// An entry says something else, and its checksum holds.
    Altered(usize),
    /// An entry cannot be decoded, and its checksum holds.
    Undecodable(usize),
    /// An entry is gone, its frame put together again from another one.
    Repeated(usize, usize),
}

fn harm() -> impl Strategy<Value = Harm> {
    let at = any::<usize>;
    prop_oneof![
        3 => (at(), at(), 0_u8..8).prop_map(|(a, b, bit)| Harm::Flip(a, b, bit)),
        1 => (at(), at(), 0_u8..8).prop_map(|(a, b, bit)| Harm::FlipAnywhere(a, b, bit)),
        2 => (at(), at(), 1_usize..9_000).prop_map(|(a, b, length)| Harm::Zero(a, b, length)),
        2 => (at(), 0_usize..20).prop_map(|(a, sector)| Harm::Torn(a, sector)),
        1 => (at(), at()).prop_map(|(a, b)| Harm::Cut(a, b)),
        1 => at().prop_map(Harm::Grown),
        1 => (at(), at()).prop_map(|(a, b)| Harm::Swap(a, b)),
        1 => (at(), at()).prop_map(|(a, b)| Harm::Copy(a, b)),
        2 => at().prop_map(Harm::Altered),
        1 => at().prop_map(Harm::Undecodable),
        1 => (at(), at()).prop_map(|(a, b)| Harm::Repeated(a, b)),
    ]
}

fn do_harm(log: &mut Log, harm: &Harm) {
    let count = log.segments.len();
    let spot = |n: usize| log.spots[n % log.spots.len()];
    let group = |n: usize| log.groups[n % log.groups.len()];
    match *harm {
        Harm::Flip(n, offset, bit) => {
            let (segment, at) = group(n);
            let bytes = &mut log.segments[segment];
            let at = (at + offset % (2 * PAGE_BYTES)).min(bytes.len().saturating_sub(1));
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << bit;
            }
        }
        Harm::FlipAnywhere(n, offset, bit) => {
            let bytes = &mut log.segments[n % count];
            let at = PAGE_BYTES + offset % (MIN_BYTES as usize - PAGE_BYTES);
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << bit;
            }
        }
        Harm::Zero(n, offset, length) => {
            let bytes = &mut log.segments[n % count];
            let from = (PAGE_BYTES + offset % (MIN_BYTES as usize)).min(bytes.len());
            let to = (from + length).min(bytes.len());
            bytes[from..to].fill(0);
        }
        Harm::Torn(n, sector) => {
            let (segment, at) = group(n);
            let bytes = &mut log.segments[segment];
            let from = (at + sector * 512).min(bytes.len());
            bytes[from..].fill(0);
        }
        Harm::Cut(n, length) => {
            log.segments[n % count].truncate(PAGE_BYTES + length % (MIN_BYTES as usize));
        }
        Harm::Grown(n) => log.segments[n % count].extend_from_slice(&[0x5a; 700]),
        Harm::Swap(a, b) if a % count != b % count => {
            let (a, b) = ((a % count).min(b % count), (a % count).max(b % count));
            let (left, right) = log.segments.split_at_mut(b);
            let (left, right) = (&mut left[a], &mut right[0]);
            let mut rest = left.split_off(PAGE_BYTES);
            let other = right.split_off(PAGE_BYTES);
            left.extend_from_slice(&other);
            right.append(&mut rest);
        }
        Harm::Swap(..) => {}
        Harm::Copy(from, to) => {
            let rest = log.segments[from % count][PAGE_BYTES..].to_vec();
            log.segments[to % count].truncate(PAGE_BYTES);
            log.segments[to % count].extend_from_slice(&rest);
        }
        Harm::Altered(n) => sealed(log, spot(n), |log, spot| log.reseal(spot, b'w')),
        Harm::Undecodable(n) => sealed(log, spot(n), |log, spot| log.reseal(spot, 0xff)),
        Harm::Repeated(n, m) => {
            let (from, to) = (spot(n), spot(m));
            sealed(log, from, |log, from| {
                let bytes = &log.segments[from.segment][from.at..];
                let length = frame::length_of(bytes).unwrap() as usize;
                let frame = bytes[..frame::stored_bytes(length)].to_vec();
                let end = to.at + frame.len();
                if let Some(place) = log.segments[to.segment].get_mut(to.at..end) {
                    place.copy_from_slice(&frame);
                }
            });
        }
    }
}

/// Does something to a frame that no earlier harm has touched.
fn sealed(log: &mut Log, spot: log::Spot, change: impl FnOnce(&mut Log, log::Spot)) {
    let home = Log::home(spot.segment);
    let bytes = log.segments[spot.segment].get(spot.at..);
    if bytes.is_some_and(|bytes| frame::read(bytes, &home).is_ok()) {
        change(log, spot);
    }
}

#[derive(Clone, Debug)]
struct Case {
    writings: Vec<Writing>,
    harms: Vec<Harm>,
    failing: Option<(bool, usize, usize)>,
    durable: Option<u64>,
    patience: Patience,
    threads: usize,
    backlog: Backlog,
}

fn case() -> impl Strategy<Value = Case> {
    (
        prop::collection::vec(writing(), 1..60),
        prop::collection::vec(harm(), 0..3),
        prop::option::weighted(0.25, (any::<bool>(), any::<usize>(), any::<usize>())),
        prop::option::of(0_u64..200),
        prop::sample::select(vec![Patience::Owner, Patience::Bystander]),
        1_usize..5,
        prop::sample::select(vec![TINY, Backlog::SMALL, Backlog::WHOLE]),
    )
        .prop_map(
            |(writings, harms, failing, durable, patience, threads, backlog)| Case {
                writings,
                harms,
                failing,
                durable,
                patience,
                threads,
                backlog,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn threads_find_what_a_scan_without_them_finds(case in case()) {
        let mut log = write(&case.writings);
        for harm in &case.harms {
            do_harm(&mut log, harm);
        }
        let count = log.segments.len();
        let disk = LogDisk::new(log.segments);
        // The headers are sound. What fails, fails once the layout is known.
        let layout = layout(&disk);
        if let Some((open, segment, at)) = case.failing {
            let segment = segment % count;
            let at = PAGE_BYTES + at % (MIN_BYTES as usize - PAGE_BYTES);
            let failing = match open {
                true => Failing::Open { segment },
                false => Failing::Read { segment, at },
            };
            disk.failing.lock().unwrap().push(failing);
        }
        let alone = Way {
            patience: case.patience,
            durable: case.durable,
            ..Way::ALONE
        };
        let ahead = Way {
            readers: threads(case.threads),
            backlog: case.backlog,
            ..alone
        };
        let (visited, ended) = alone.told(&disk, &layout);
        let (visited_ahead, ended_ahead) = ahead.told(&disk, &layout);
        prop_assert_eq!(ended_ahead, ended);
        prop_assert_eq!(visited_ahead, visited);
    }
}

/// A log of so many segments with ten entries in each.
fn long_log(segments: usize) -> Log {
    let mut log = Log::new();
    for segment in 0..segments {
        if segment > 0 {
            log.roll();
        }
        for _ in 0..10 {
            log.group(1, &[vec![100]]);
        }
    }
    log
}

fn both(log: Log) -> [String; 2] {
    let disk = LogDisk::new(log.segments);
    let layout = layout(&disk);
    let ahead = Way {
        readers: threads(3),
        backlog: TINY,
        ..Way::ALONE
    };
    [Way::ALONE, ahead].map(|way| way.told(&disk, &layout).1)
}

#[test]
fn a_whole_log_is_read_to_its_end() {
    for told in both(long_log(5)) {
        assert!(told.contains("end: Sequence(50)"), "{told}");
    }
}

#[test]
fn fault_a10_a_chain_that_does_not_fit_is_found_at_the_next_segment() {
    let mut log = long_log(5);
    log.reseal(log.spots[23], b'w');
    for told in both(log) {
        assert!(told.contains("hash chain does not fit"), "{told}");
        assert!(told.contains("segment: Some(4)"), "{told}");
    }
}

#[test]
fn an_epoch_that_goes_back_at_the_border_of_segments_is_found() {
    let mut log = long_log(3);
    log.epoch = 7;
    log.group(7, &[vec![10]]);
    log.roll();
    log.group(6, &[vec![10]]);
    for told in both(log) {
        let what = "entry 32 of epoch 6 after entry 31 of epoch 7";
        assert!(told.contains(what), "{told}");
    }
}

#[test]
fn the_epoch_of_the_last_batch_counts_not_that_of_the_segment_s_head() {
    let mut log = long_log(3);
    log.epoch = 7;
    log.roll();
    log.group(6, &[vec![10]]);
    let disk = LogDisk::new(log.segments);
    let layout = layout(&disk);
    for readers in [Readers::Caller, threads(2)] {
        let way = Way {
            readers,
            ..Way::ALONE
        };
        let scan = way.read(&disk, &layout, |_, _| {}).unwrap();
        assert_eq!((scan.end, scan.epoch), (Sequence(31), Epoch(6)));
    }
}

#[test]
fn readers_stop_soon_after_damage() {
    let mut log = long_log(40);
    let spot = log.spots[5];
    log.segments[spot.segment][spot.at + 30] ^= 1;
    let disk = LogDisk::new(log.segments);
    let layout = layout(&disk);
    // The scan itself asks later segments for proof.
    let alone = Way::ALONE;
    disk.opened.store(0, Ordering::SeqCst);
    alone.read(&disk, &layout, |_, _| {}).unwrap_err();
    let by_the_scan = disk.opened.swap(0, Ordering::SeqCst);
    let ahead = Way {
        readers: threads(2),
        ..alone
    };
    ahead.read(&disk, &layout, |_, _| {}).unwrap_err();
    let by_both = disk.opened.load(Ordering::SeqCst);
    // Segments 0 to 2: the scan never left the first one.
    assert!(by_both <= by_the_scan + 3, "{by_both} {by_the_scan}");
}

#[test]
fn no_segment_far_ahead_is_begun_and_so_memory_is_bounded() {
    let disk = LogDisk::new(long_log(30).segments);
    let layout = layout(&disk);
    disk.highest.store(0, Ordering::SeqCst);
    let way = Way {
        readers: threads(2),
        backlog: Backlog::SMALL,
        ..Way::ALONE
    };
    let mut seen = 0;
    let scan = way.read(&disk, &layout, |segment, _| {
        if seen < segment {
            // Time in which readers that nobody holds back would go on.
            std::thread::sleep(std::time::Duration::from_millis(2));
            seen = segment;
        }
        let index = usize::try_from(segment).unwrap() - 1;
        let highest = disk.highest.load(Ordering::SeqCst);
        assert!(highest <= index + 2, "segment {index}, begun {highest}");
    });
    assert_eq!(scan.unwrap().end, Sequence(300));
    assert_eq!(seen, 30);
}

#[test]
fn a_reader_that_panics_leaves_nobody_waiting() {
    let disk = LogDisk::new(long_log(12).segments);
    let layout = layout(&disk);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let start = ScanStart {
            disk: &disk,
            folder: Path::new(FOLDER),
            journal: JOURNAL,
            layout: &layout,
            witness: None,
            patience: Patience::Owner,
            from: Begin::of(JOURNAL),
            readers: threads(2),
            watch: &[],
        };
        let gist = |recorded: Recorded| -> Option<()> {
            assert!(recorded.sequence.0 < 15, "a gist that panics");
            None
        };
        scan_gist(&start, TINY, &gist, &mut |_, ()| {}).map(|_| ())
    }));
    assert!(panicked.is_err());
}
