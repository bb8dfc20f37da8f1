//! `intendant check`: reads a job file and runs nothing.

use std::path::PathBuf;

use clap::Args;

use super::Common;
use crate::exit::{Exit, Failure};
use crate::job;
use crate::print;

/// Check a job file with all it names; run nothing
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  intendant check examples/payouts/job.toml")]
pub(super) struct CheckArgs {
    /// The job file
    #[arg(value_name = "JOB.toml")]
    job: PathBuf,
}

pub(super) fn run(common: &Common, args: &CheckArgs) -> Result<Exit, Failure> {
    let summary = job::check(&args.job).map_err(Failure::problems)?;
    if common.json {
        print::json(&summary);
    } else {
        print::out(summary.to_string().trim_end());
    }
    Ok(Exit::Done)
}
