//! Opening a journal of so many entries after a clean end, by threads and without: what a restart
//! pays for the length of its log.
//!
//! `cargo bench -p intendant-journal --bench recovery`; compare the two in one run.
#![allow(clippy::unwrap_used)]

mod support;

use divan::Bencher;
use divan::counter::ItemsCount;

use support::{make, options};

const ENTRIES: [u64; 3] = [10_000, 100_000, 1_000_000];

fn main() {
    divan::main();
}

/// Everything on the calling thread.
#[divan::bench(args = ENTRIES, sample_count = 7, sample_size = 1)]
fn one_thread(bencher: Bencher, entries: u64) {
    open(bencher, entries, Some(0));
}

/// As an opening does it: a reader for each core.
#[divan::bench(args = ENTRIES, sample_count = 7, sample_size = 1)]
fn readers_ahead(bencher: Bencher, entries: u64) {
    open(bencher, entries, None);
}

fn open(bencher: Bencher, entries: u64, threads: Option<usize>) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    make(folder.path(), entries);
    let options = options(folder.path());
    let options = match threads {
        Some(threads) => options.recovery_threads(threads),
        None => options,
    };
    // The journal is closed after its sample, untimed.
    bencher
        .counter(ItemsCount::new(entries))
        .bench_local(|| options.open(folder.path().join("data")).unwrap());
}
