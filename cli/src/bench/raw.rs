//! The bare limit of a disk, and the journal alone beside it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use intendant_journal::face::{Batch, IntentLog};
use intendant_journal::format::entry::{Body, Entry, Moment, NotedEntry, ScopePath};
use intendant_journal::{Journal, Options};
use tokio::sync::{mpsc, oneshot};

use super::{BenchError, percentile};

/// Bytes of a record.
pub(super) const RECORD_BYTES: usize = 300;
const FILE_BYTES: usize = 64 * 1024 * 1024;
const SINGLE_APPENDS: usize = 2_000;
const GROUPED_TIME: Duration = Duration::from_millis(700);

fn zero_filled(path: &Path) -> Result<File, BenchError> {
    std::fs::write(path, vec![0; FILE_BYTES]).map_err(BenchError::of)?;
    let file = File::options()
        .read(true)
        .write(true)
        .open(path)
        .map_err(BenchError::of)?;
    file.sync_all().map_err(BenchError::of)?;
    Ok(file)
}

/// Median time, in microseconds, of one bare append and `fdatasync`.
pub(super) fn single_p50_us(path: &Path) -> Result<f64, BenchError> {
    let file = zero_filled(path)?;
    let record = [0x5a; RECORD_BYTES];
    let mut times = Vec::with_capacity(SINGLE_APPENDS);
    for n in 0..SINGLE_APPENDS {
        let begun = Instant::now();
        file.write_all_at(&record, (n * RECORD_BYTES) as u64)
            .map_err(BenchError::of)?;
        file.sync_data().map_err(BenchError::of)?;
        times.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    drop(file);
    std::fs::remove_file(path).map_err(BenchError::of)?;
    times.sort_by(f64::total_cmp);
    Ok(percentile(&times, 0.5))
}

/// Records a second of a bare group commit: one thread drains what has gathered, writes it at once
/// and syncs.
pub(super) async fn grouped_per_s(path: &Path, callers: usize) -> Result<f64, BenchError> {
    let file = zero_filled(path)?;
    let (submit, mut submitted) = mpsc::channel::<oneshot::Sender<()>>(callers.max(1) * 2);
    let writer = std::thread::spawn(move || -> std::io::Result<()> {
        let (mut offset, mut waiting, mut buffer) = (0, Vec::new(), Vec::new());
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
            file.write_all_at(&buffer, offset as u64)?;
            file.sync_data()?;
            offset += buffer.len();
            for done in waiting.drain(..) {
                // A caller whose time is up does not wait any more.
                let _ = done.send(());
            }
        }
        Ok(())
    });
    let begun = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..callers.max(1) {
        let submit = submit.clone();
        tasks.push(tokio::spawn(async move {
            let mut count = 0_u64;
            while begun.elapsed() < GROUPED_TIME {
                let (done, durable) = oneshot::channel();
                if submit.send(done).await.is_err() || durable.await.is_err() {
                    break;
                }
                count += 1;
            }
            count
        }));
    }
    drop(submit);
    let mut total = 0;
    for task in tasks {
        total += task.await.map_err(BenchError::of)?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let written = tokio::task::spawn_blocking(move || writer.join())
        .await
        .map_err(BenchError::of)?;
    written
        .map_err(|_| BenchError("the bare writer panicked".to_owned()))?
        .map_err(BenchError::of)?;
    std::fs::remove_file(path).map_err(BenchError::of)?;
    Ok(total as f64 / seconds)
}

fn journal(folder: &Path) -> Result<Journal, BenchError> {
    Options::new()
        .state_home(folder.with_extension("state"))
        .program("intendant bench")
        .open_or_create(folder)
        .map_err(BenchError::of)
}

/// A batch of one entry of about the record's size.
fn batch(run: &str) -> Batch {
    let value = format!("\"{}\"", "x".repeat(RECORD_BYTES - 80));
    let path = ScopePath("0".to_owned());
    let body = Body::Noted(NotedEntry {
        path,
        what: "bench".to_owned(),
        value,
    });
    let entry = Entry {
        at: Moment::default(),
        run: Some(run.to_owned()),
        body,
    };
    Batch {
        entries: vec![entry],
        starts_effects: false,
    }
}

/// Median time, in microseconds, of one append to the journal by one caller.
pub(super) async fn journal_single_p50_us(folder: &Path) -> Result<f64, BenchError> {
    let journal = journal(folder)?;
    let mut times = Vec::with_capacity(SINGLE_APPENDS);
    for _ in 0..SINGLE_APPENDS {
        let batch = batch("bench");
        let begun = Instant::now();
        journal.append(batch).await.map_err(BenchError::of)?;
        times.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    journal.close();
    std::fs::remove_dir_all(folder).map_err(BenchError::of)?;
    times.sort_by(f64::total_cmp);
    Ok(percentile(&times, 0.5))
}

/// Records a second that the journal appends with many callers.
pub(super) async fn journal_per_s(folder: &Path, callers: usize) -> Result<f64, BenchError> {
    let journal = Arc::new(journal(folder)?);
    let begun = Instant::now();
    let mut tasks = Vec::new();
    for caller in 0..callers.max(1) {
        let journal = journal.clone();
        tasks.push(tokio::spawn(async move {
            let run = format!("bench-{caller}");
            let mut count = 0_u64;
            while begun.elapsed() < GROUPED_TIME {
                journal.append(batch(&run)).await?;
                count += 1;
            }
            Ok::<_, intendant_journal::error::AppendError>(count)
        }));
    }
    let mut total = 0;
    for task in tasks {
        total += task
            .await
            .map_err(BenchError::of)?
            .map_err(BenchError::of)?;
    }
    let per_s = total as f64 / begun.elapsed().as_secs_f64();
    drop(journal);
    std::fs::remove_dir_all(folder).map_err(BenchError::of)?;
    Ok(per_s)
}
