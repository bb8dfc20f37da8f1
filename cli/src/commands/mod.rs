//! The command line: one file a command.

mod acknowledge;
mod approve;
mod bench;
mod cancel;
mod change;
mod check;
mod checkpoint;
mod deny;
mod doctor;
mod explain;
mod pending;
mod reconcile;
mod resolve;
mod retry;
mod run;
mod runs;
mod show;
mod signal;
mod tail;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::exit::{Exit, Failure};
use crate::print;

/// Durable jobs: what is about to be done is written down first, so that after any crash it is
/// known, asked for, or plainly said not to be known.
#[derive(Debug, Parser)]
#[command(name = "intendant", version, after_help = AFTER_HELP)]
struct CommandLine {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Example:
  intendant run job.toml        start a job, or go on with it
  intendant pending             what has not ended, why, and what happens next

Exit codes: 0 done as asked, 1 ended and some failed, 2 bad usage, 3 waits for a person,
4 journal refused, 5 owned by a live process, 6 storage error (a restart is safe), 7 diverged or
the job changed, 130/143 stopped with work left.";

/// What every command takes.
#[derive(Clone, Debug, Args)]
struct Common {
    /// Folder of the journal
    #[arg(
        long,
        global = true,
        value_name = "FOLDER",
        env = "INTENDANT_DATA",
        default_value = ".intendant"
    )]
    data: PathBuf,
    /// One JSON object on standard output, all else on standard error
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::RunArgs),
    Check(check::CheckArgs),
    Runs(runs::RunsArgs),
    Pending(pending::PendingArgs),
    Show(show::ShowArgs),
    Explain(explain::ExplainArgs),
    Reconcile(reconcile::ReconcileArgs),
    Resolve(resolve::ResolveArgs),
    Approve(approve::ApproveArgs),
    Deny(deny::DenyArgs),
    Signal(signal::SignalArgs),
    Cancel(cancel::CancelArgs),
    Retry(retry::RetryArgs),
    Acknowledge(acknowledge::AcknowledgeArgs),
    Tail(tail::TailArgs),
    Checkpoint(checkpoint::CheckpointArgs),
    Verify(verify::VerifyArgs),
    Doctor(doctor::DoctorArgs),
    Bench(bench::BenchArgs),
}

/// Reads the command line, runs the command, says how it ended.
pub(crate) fn main() -> ExitCode {
    let line = match CommandLine::try_parse() {
        Ok(line) => line,
        Err(error) => return misused(&error),
    };
    let json = line.common.json;
    match line.run() {
        Ok(exit) => exit.into(),
        Err(failure) => {
            if json {
                print::json(&failure.json());
            } else {
                print::note(failure.text());
            }
            failure.exit.into()
        }
    }
}

/// Help and version are no errors; all else is bad usage.
fn misused(error: &clap::Error) -> ExitCode {
    let json = std::env::args_os().any(|word| word == "--json");
    if json && error.use_stderr() {
        let text = error.to_string();
        let message = text.trim_start_matches("error: ").trim_end();
        print::json(&Failure::usage(message, "see --help").json());
    } else {
        // There is nobody left to tell that the output is closed.
        let _ = error.print();
    }
    match error.use_stderr() {
        true => Exit::Usage.into(),
        false => Exit::Done.into(),
    }
}

impl CommandLine {
    fn run(self) -> Result<Exit, Failure> {
        // Tools run in other folders than this process.
        let data = std::path::absolute(&self.common.data)
            .map_err(|error| Failure::io(&self.common.data, "resolving its path", &error))?;
        let common = Common {
            data,
            ..self.common
        };
        match self.command {
            Command::Run(args) => run::run(&common, args),
            Command::Check(args) => check::run(&common, &args),
            Command::Runs(args) => runs::run(&common, &args),
            Command::Pending(args) => pending::run(&common, &args),
            Command::Show(args) => show::run(&common, &args),
            Command::Explain(args) => explain::run(&common, &args),
            Command::Reconcile(args) => reconcile::run(&common, &args),
            Command::Resolve(args) => resolve::run(&common, args),
            Command::Approve(args) => approve::run(&common, args),
            Command::Deny(args) => deny::run(&common, args),
            Command::Signal(args) => signal::run(&common, args),
            Command::Cancel(args) => cancel::run(&common, args),
            Command::Retry(args) => retry::run(&common, args),
            Command::Acknowledge(args) => acknowledge::run(&common, args),
            Command::Tail(args) => tail::run(&common, &args),
            Command::Checkpoint(args) => checkpoint::run(&common, &args),
            Command::Verify(args) => verify::run(&common, &args),
            Command::Doctor(args) => doctor::run(&common, &args),
            Command::Bench(args) => bench::run(&common, &args),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_command_has_help_with_an_example() {
        let mut line = CommandLine::command();
        line.build();
        line.clone().debug_assert();
        for command in line.get_subcommands_mut() {
            if command.get_name() == "help" {
                continue;
            }
            let name = command.get_name().to_owned();
            let help = command.render_long_help().to_string();
            assert!(help.contains(&format!("intendant {name}")), "{help}");
            assert!(help.contains("Example"), "{help}");
            assert!(help.contains("--data") && help.contains("--json"), "{help}");
        }
    }
}
