//! `intendant bench`: steps a second, beside the raw limit of the same disk.

use clap::Args;

use super::Common;
use crate::bench::{self, Plan};
use crate::exit::{Exit, Failure};
use crate::print;

/// Measure durable steps a second beside the raw limit of the same disk
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  intendant bench --runs 2000 --steps 10 --concurrency 128

It works in a new folder beside the journal's (named by --data) and removes it at the end; a journal
that is there is not touched.")]
pub(super) struct BenchArgs {
    /// Workflows to run
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// Steps of each
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// Workflows at a time
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..))]
    concurrency: u16,
    /// Bytes of each step's result
    #[arg(long, value_name = "BYTES", default_value_t = 200, value_parser = clap::value_parser!(u32).range(..=60_000))]
    payload: u32,
}

pub(super) fn run(common: &Common, args: &BenchArgs) -> Result<Exit, Failure> {
    let plan = Plan {
        runs: args.runs,
        steps: args.steps,
        concurrency: usize::from(args.concurrency),
        payload_bytes: usize::try_from(args.payload).unwrap_or(usize::MAX),
    };
    // Beside the journal, so that it is the same disk.
    let name = format!("intendant-bench-{}", std::process::id());
    let folder = common.data.with_file_name(name);
    std::fs::create_dir_all(&folder)
        .map_err(|error| Failure::io(&folder, "creating it", &error))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io(&folder, "starting a runtime", &error))?;
    let measured = runtime.block_on(bench::run(&folder, plan));
    drop(runtime);
    if let Err(error) = std::fs::remove_dir_all(&folder) {
        print::note(format!("warning: {}: {error}", folder.display()));
    }
    let figures = measured.map_err(|error| {
        Failure::new(
            Exit::Storage,
            "bench",
            error.to_string(),
            "name a folder on a disk with room in --data",
        )
        .at(&folder)
    })?;
    if common.json {
        print::json(&figures);
        return Ok(Exit::Done);
    }
    let rows = [
        ("steps/s", format!("{:.0}", figures.steps_per_s)),
        ("step p50", format!("{:.0} us", figures.p50_us)),
        ("step p99", format!("{:.0} us", figures.p99_us)),
        ("syncs a step", format!("{:.3}", figures.syncs_per_step)),
        ("log bytes a step", format!("{:.0}", figures.bytes_per_step)),
        (
            "raw limit",
            format!(
                "{:.0} appends/s of {} bytes",
                figures.limit_appends_per_s, figures.limit_record_bytes
            ),
        ),
        (
            "steps against it",
            format!("{:.1} %", figures.ratio * 100.0),
        ),
        (
            "appends against it",
            format!("{:.1} %", figures.append_ratio * 100.0),
        ),
        (
            "one append against one sync",
            format!("{:.2} x", figures.append_p50_ratio),
        ),
    ];
    let rows = rows
        .into_iter()
        .map(|(name, value)| vec![name.to_owned(), value])
        .collect();
    print::out(print::table(&[], &[0], rows));
    Ok(Exit::Done)
}
