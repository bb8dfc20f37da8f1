//! `intendant bench`: what the engine does in a second, beside the bare limit of the same disk.

use std::path::PathBuf;

use clap::Args;

use super::Common;
use crate::bench::{self, Figures, Plan};
use crate::exit::{Exit, Failure};
use crate::print;

/// Measure durable steps, and the bare limit of the same disk beside them
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  intendant bench --concurrency 128 --json

Works in a new folder under --folder (by default the present one) and removes it. Only the ratios
compare between machines: the limit is a bare writer of 300-byte records into a zero-filled file,
one write and one fdatasync for whatever has gathered.")]
pub(super) struct BenchArgs {
    /// Workflows to run
    #[arg(long, default_value_t = 1_000)]
    runs: u64,
    /// Steps of each workflow
    #[arg(long, default_value_t = 10)]
    steps: u32,
    /// Workflows at a time
    #[arg(long, default_value_t = 128)]
    concurrency: usize,
    /// Bytes of each step's result
    #[arg(long, default_value_t = 200)]
    payload: usize,
    /// Folder on the disk to measure
    #[arg(long, default_value = ".")]
    folder: PathBuf,
}

pub(super) fn run(common: &Common, args: &BenchArgs) -> Result<Exit, Failure> {
    if args.runs == 0 || args.steps == 0 || args.concurrency == 0 {
        let remedy = "give each at least 1";
        return Err(Failure::usage(
            "--runs, --steps and --concurrency measure nothing at 0",
            remedy,
        ));
    }
    let place = args
        .folder
        .join(format!(".intendant-bench-{}", std::process::id()));
    std::fs::create_dir(&place).map_err(|error| Failure::io(&place, "creating it", &error))?;
    let plan = Plan {
        runs: args.runs,
        steps: args.steps,
        concurrency: args.concurrency,
        payload_bytes: args.payload,
    };
    let measured = measure(&place, plan);
    let removed = std::fs::remove_dir_all(&place);
    let figures = measured?;
    removed.map_err(|error| Failure::io(&place, "removing it", &error))?;
    if common.json {
        print::json(&figures);
    } else {
        print::out(print::table(&[], &[0], rows(&figures)));
    }
    Ok(Exit::Done)
}

fn measure(place: &std::path::Path, plan: Plan) -> Result<Figures, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io(place, "starting threads", &error))?;
    runtime.block_on(bench::run(place, plan)).map_err(|error| {
        Failure::new(
            Exit::Storage,
            "bench",
            error.to_string(),
            "name another disk with --folder",
        )
    })
}

fn rows(figures: &Figures) -> Vec<Vec<String>> {
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    vec![
        row("steps a second", format!("{:.0}", figures.steps_per_s)),
        row("step p50", format!("{:.0} µs", figures.p50_us)),
        row("step p99", format!("{:.0} µs", figures.p99_us)),
        row("syncs a step", format!("{:.3}", figures.syncs_per_step)),
        row("log bytes a step", format!("{:.0}", figures.bytes_per_step)),
        row(
            "bare limit, records a second",
            format!("{:.0}", figures.limit_appends_per_s),
        ),
        row("steps / bare limit", format!("{:.3}", figures.ratio)),
        row(
            "journal appends / bare limit",
            format!("{:.3}", figures.append_ratio),
        ),
        row(
            "one append p50 / bare append p50",
            format!("{:.3}", figures.append_p50_ratio),
        ),
    ]
}
