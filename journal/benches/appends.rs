//! Durable appends beside the bare limit of the same disk, in one run: the journal against a bare
//! writer of 300-byte records into a zero-filled file, group commit by what has gathered.
//!
//! `cargo bench -p intendant-journal --bench appends`; figures compare as ratios only.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use divan::Bencher;
use divan::counter::ItemsCount;
use intendant_journal::Journal;
use intendant_journal::face::{Batch, IntentLog};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

use support::{note, options, ready};

const CALLERS: [usize; 3] = [1, 16, 128];
/// Of each caller in a sample.
const APPENDS: usize = 40;
const RECORD_BYTES: usize = 300;
const FILE_BYTES: usize = 64 * 1024 * 1024;

fn main() {
    divan::main();
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().build().unwrap()
}

/// The bare limit: one thread drains what has gathered, writes it at once and syncs.
#[divan::bench(args = CALLERS, sample_count = 40, sample_size = 1)]
fn bare(bencher: Bencher, callers: usize) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("bare");
    std::fs::write(&path, vec![0; FILE_BYTES]).unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    file.sync_all().unwrap();
    let (submit, mut submitted) = mpsc::channel::<oneshot::Sender<()>>(callers * 2);
    let writer = std::thread::spawn(move || {
        let mut offset = 0;
        let (mut waiting, mut buffer) = (Vec::new(), Vec::new());
        while let Some(first) = submitted.blocking_recv() {
            waiting.push(first);
            while let Ok(next) = submitted.try_recv() {
                waiting.push(next);
            }
            buffer.clear();
            buffer.resize(waiting.len() * RECORD_BYTES, 0x5a_u8);
            if offset + buffer.len() > FILE_BYTES {
                offset = 0;
            }
            file.write_all_at(&buffer, offset as u64).unwrap();
            file.sync_data().unwrap();
            offset += buffer.len();
            for done in waiting.drain(..) {
                done.send(()).unwrap();
            }
        }
    });
    let runtime = runtime();
    bencher
        .counter(ItemsCount::new(callers * APPENDS))
        .bench_local(|| {
            runtime.block_on(async {
                let mut tasks = Vec::new();
                for _ in 0..callers {
                    let submit = submit.clone();
                    tasks.push(tokio::spawn(async move {
                        for _ in 0..APPENDS {
                            let (done, durable) = oneshot::channel();
                            submit.send(done).await.unwrap();
                            durable.await.unwrap();
                        }
                    }));
                }
                for task in tasks {
                    task.await.unwrap();
                }
            });
        });
    drop(submit);
    writer.join().unwrap();
}

/// The journal with as many callers and entries of that size.
#[divan::bench(args = CALLERS, sample_count = 40, sample_size = 1)]
fn journal(bencher: Bencher, callers: usize) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let journal: Arc<Journal> = Arc::new(
        options(folder.path())
            .open_or_create(folder.path().join("data"))
            .unwrap(),
    );
    let runtime = runtime();
    runtime.block_on(async { journal.append(batch("first")).await.unwrap() });
    ready(journal.folder());
    bencher
        .counter(ItemsCount::new(callers * APPENDS))
        .bench_local(|| {
            runtime.block_on(async {
                let mut tasks = Vec::new();
                for caller in 0..callers {
                    let journal = Arc::clone(&journal);
                    tasks.push(tokio::spawn(async move {
                        let run = format!("run-{caller}");
                        for _ in 0..APPENDS {
                            journal.append(batch(&run)).await.unwrap();
                        }
                    }));
                }
                for task in tasks {
                    task.await.unwrap();
                }
            });
        });
}

fn batch(run: &str) -> Batch {
    Batch {
        entries: vec![note(run, RECORD_BYTES - 80)],
        starts_effects: false,
    }
}
