//! `intendant bench`: what the engine does in a second, beside what this disk can do at most.
//!
//! Both are measured in one run on the same folder, since machines and disks differ too much for a
//! bare number to mean anything. The limit is a bare writer: 300-byte records, a zero-filled file,
//! group commit by what has gathered, one write and one `fdatasync` a group.

mod raw;
mod steps;

use std::path::Path;

use serde::Serialize;

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Workflows to run.
    pub runs: u64,
    /// Steps of each.
    pub steps: u32,
    /// Workflows at a time, and callers of the bare limit.
    pub concurrency: usize,
    /// Bytes of each step's result.
    pub payload_bytes: usize,
}

/// The figures of one run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figures {
    /// Workflows run.
    pub runs: u64,
    /// Steps of each.
    pub steps: u32,
    /// At a time.
    pub concurrency: usize,
    /// Bytes of each step's result.
    pub payload_bytes: usize,
    /// Durable steps a second.
    pub steps_per_s: f64,
    /// Median time of a step, in microseconds.
    pub p50_us: f64,
    /// 99th percentile of the time of a step, in microseconds.
    pub p99_us: f64,
    /// Syncs of the log a step.
    pub syncs_per_step: f64,
    /// Bytes of the log a step, padding included.
    pub bytes_per_step: f64,
    /// Records a second of the bare limit with as many callers.
    pub limit_appends_per_s: f64,
    /// Steps a second against that limit.
    pub ratio: f64,
    /// Records a second that the journal alone appends with as many callers, against that limit.
    pub append_ratio: f64,
    /// Median time of one journal append by one caller, against one bare append and `fdatasync`.
    pub append_p50_ratio: f64,
    /// Bytes of a record of the limit.
    pub limit_record_bytes: usize,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[error("the benchmark could not be run: {0}")]
pub struct BenchError(pub String);

impl BenchError {
    fn of(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// Runs the benchmark in an empty folder.
///
/// # Errors
/// [`BenchError`] if the folder, the journal or the engine failed.
pub async fn run(folder: &Path, plan: Plan) -> Result<Figures, BenchError> {
    // Bare and journal in turns, and the better of each: what disturbs the machine then disturbs
    // no side alone.
    let mut bare_p50 = Vec::new();
    let mut journal_p50 = Vec::new();
    let mut limits = Vec::new();
    let mut appends = Vec::new();
    for round in 0..3 {
        let place = folder.join(format!("round-{round}"));
        std::fs::create_dir_all(&place).map_err(BenchError::of)?;
        bare_p50.push(raw::single_p50_us(&place.join("single"))?);
        journal_p50.push(raw::journal_single_p50_us(&place.join("journal-single")).await?);
        limits.push(raw::grouped_per_s(&place.join("grouped"), plan.concurrency).await?);
        appends.push(raw::journal_per_s(&place.join("journal-grouped"), plan.concurrency).await?);
    }
    let measured = steps::run(&folder.join("steps"), plan).await?;
    let best = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let limit = best(&limits);
    Ok(Figures {
        runs: plan.runs,
        steps: plan.steps,
        concurrency: plan.concurrency,
        payload_bytes: plan.payload_bytes,
        steps_per_s: measured.steps_per_s,
        p50_us: measured.p50_us,
        p99_us: measured.p99_us,
        syncs_per_step: measured.syncs_per_step,
        bytes_per_step: measured.bytes_per_step,
        limit_appends_per_s: limit,
        ratio: measured.steps_per_s / limit,
        append_ratio: best(&appends) / limit,
        append_p50_ratio: least(&journal_p50) / least(&bare_p50),
        limit_record_bytes: raw::RECORD_BYTES,
    })
}

/// The value at a fraction of sorted values.
fn percentile(sorted: &[f64], fraction: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let index = ((last as f64) * fraction).round() as usize;
    sorted.get(index).copied().unwrap_or(f64::NAN)
}
