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
const SINGLE_APPENDS: usize = 1_000;
const GROUPED_TIME: Duration = Duration::from_millis(700);
/// Appends that are not measured, on either side: the first ones pay for what is made once.
const UNTIMED_APPENDS: usize = 200;
/// How long the journal may take to make its next segment ready.
const READY_MAX: Duration = Duration::from_secs(60);

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
    let mut times = Vec::with_capacity(UNTIMED_APPENDS + SINGLE_APPENDS);
    for n in 0..UNTIMED_APPENDS + SINGLE_APPENDS {
        let begun = Instant::now();
        file.write_all_at(&record, (n * RECORD_BYTES) as u64)
            .map_err(BenchError::of)?;
        file.sync_data().map_err(BenchError::of)?;
        times.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    times.drain(..UNTIMED_APPENDS);
    drop(file);
    std::fs::remove_file(path).map_err(BenchError::of)?;
    times.sort_by(f64::total_cmp);
    Ok(percentile(&times, 0.5))
}

/// Records a second of a bare group commit: one thread drains what has gathered, writes it at once
/// and syncs.
pub(super) async fn grouped_per_s(path: &Path, callers: usize) -> Result<f64, BenchError> {
    let file = zero_filled(path)?;
    for n in 0..UNTIMED_APPENDS {
        file.write_all_at(&[0x5a; RECORD_BYTES], (n * RECORD_BYTES) as u64)
            .map_err(BenchError::of)?;
        file.sync_data().map_err(BenchError::of)?;
    }
    let (submit, mut submitted) = mpsc::channel::<oneshot::Sender<()>>(callers.max(1) * 2);
    let writer = std::thread::spawn(move || -> std::io::Result<()> {
        let mut offset = UNTIMED_APPENDS * RECORD_BYTES;
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

/// A new journal.
pub(super) fn journal(folder: &Path) -> Result<Journal, BenchError> {
    Options::new()
        .state_home(folder.with_extension("state"))
        .program("intendant bench")
        .open_or_create(folder)
        .map_err(BenchError::of)
}

/// Waits until the segment behind the first one lies ready. It is made once for 64 MiB of log and
/// beside the appends, so it would disturb a short measurement more than a long job.
pub(super) async fn next_segment_is_ready(folder: &Path) -> Result<(), BenchError> {
    let until = Instant::now() + READY_MAX;
    loop {
        let names = std::fs::read_dir(folder.join("journal")).map_err(BenchError::of)?;
        let ready = names
            .filter_map(Result::ok)
            .filter(|entry| entry.path().extension().is_some_and(|end| end == "seg"))
            .count();
        if ready >= 2 {
            return Ok(());
        }
        if Instant::now() >= until {
            let why = "the journal's next segment does not become ready".to_owned();
            return Err(BenchError(why));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A journal that has done what it does once.
async fn settled_journal(folder: &Path) -> Result<Journal, BenchError> {
    let journal = journal(folder)?;
    for _ in 0..UNTIMED_APPENDS {
        journal
            .append(batch("untimed"))
            .await
            .map_err(BenchError::of)?;
    }
    next_segment_is_ready(folder).await?;
    Ok(journal)
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
    let journal = settled_journal(folder).await?;
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
    let journal = Arc::new(settled_journal(folder).await?);
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
