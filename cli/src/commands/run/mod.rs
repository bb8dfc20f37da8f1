//! `intendant run`: starts a job, or goes on with it.

mod decide;
mod progress;
mod stop_signals;
mod summary;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use intendant::action::id::check_run_id;
use intendant::engine::status::{RunEnd, RunStatus};
use intendant::engine::{Engine, Run, StartPass};
use intendant::run::state::RunState;
use intendant_journal::Journal;
use intendant_journal::face::{IntentLog, RunFilter};
use intendant_journal::scan::Whereabouts;

use super::Common;
use crate::exit::{Exit, Failure};
use crate::job::recorded::{WORKFLOW, input_of, inputs_of};
use crate::job::tools::Toolbox;
use crate::job::workflow::walk;
use crate::job::{self, JobInput, Loaded};
use crate::open::{self, Creation};
use crate::print;
use crate::socket::Server;
use decide::{Course, decide};
use progress::Progress;
use stop_signals::StopSignals;
use summary::Summary;

/// How long running actions may still take after the first signal.
const GRACE: Duration = Duration::from_secs(10);

/// Start a job, or go on with it
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  intendant run examples/payouts/job.toml

Killed at any moment and started again with the same command, it goes on. It returns when nothing
can go on without a person (exit code 3; see intendant pending).")]
pub(super) struct RunArgs {
    /// The job file
    #[arg(value_name = "JOB.toml")]
    job: PathBuf,
    /// Id of the run [default: the job's name]
    #[arg(long, value_name = "ID")]
    run_id: Option<String>,
    /// Size of the journal's segments made from now on: a multiple of 4096 from 65536
    /// [default: 67108864]
    #[arg(long, value_name = "BYTES", value_parser = segment_bytes)]
    segment_bytes: Option<u64>,
    /// Begin a new journal although one is recorded for the folder, or take the one that is in
    /// the folder although another is recorded
    #[arg(long)]
    new_journal: bool,
}

fn segment_bytes(text: &str) -> Result<u64, String> {
    let valid = |bytes: &u64| intendant_journal::format::segment::size_is_valid(*bytes);
    text.parse()
        .ok()
        .filter(valid)
        .ok_or_else(|| "give a multiple of 4096 from 65536 to 1073741824".to_owned())
}

pub(super) fn run(common: &Common, args: RunArgs) -> Result<Exit, Failure> {
    let loaded = job::load(&args.job).map_err(Failure::problems)?;
    let run = args.run_id.unwrap_or_else(|| loaded.job.name.clone());
    check_run_id(&run)
        .map_err(|why| Failure::usage(why, "name the run with --run-id; nothing was started"))?;
    if !common.data.exists() && !loaded.unset.is_empty() {
        return Err(Failure::problems(loaded.unset.into_values().collect()));
    }
    let whereabouts = open::whereabouts(&common.data);
    if args.new_journal
        && let Ok(Whereabouts {
            there: Some(id),
            recorded,
            ..
        }) = whereabouts
        && recorded.is_none_or(|recorded| recorded == id)
    {
        return Err(Failure::new(
            Exit::Usage,
            "journal_there",
            format!(
                "{}: journal {id} is here, --new-journal begins none over it",
                common.data.display()
            ),
            "leave --new-journal out to go on with it, or name another folder with --data",
        )
        .at(&common.data));
    }
    if whereabouts.is_ok_and(|found| !found.can_be_recorded) {
        print::note(format!("warning: {}", open::NO_RECORDS));
    }
    let creation = Creation {
        segment_bytes: args.segment_bytes,
        new_journal: args.new_journal,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io(Path::new("/proc/self"), "starting a runtime", &error))?;
    let ended = runtime
        .block_on(session(common, creation, run, loaded))
        .and_then(|summary| Ok((summary.exit()?, summary)));
    let (exit, summary) = ended.inspect_err(|failure| open::leave_word(&common.data, failure))?;
    if common.json {
        print::json(&summary.json());
    } else {
        summary.print();
    }
    Ok(exit)
}

/// From the opening of the journal to its closing.
async fn session(
    common: &Common,
    creation: Creation,
    run: String,
    loaded: Loaded,
) -> Result<Summary, Failure> {
    let began = Instant::now();
    let mut signals = StopSignals::new()
        .map_err(|error| Failure::io(Path::new("/proc/self"), "awaiting signals", &error))?;
    let data = common.data.clone();
    let opening = tokio::task::spawn_blocking(move || {
        open::or_create(&data, creation).map_err(Failure::from)
    });
    let journal = tokio::select! {
        // Recovery can be cut anywhere.
        exit = signals.next() => stopped_at_once(common.json, exit),
        opened = opening => opened.map_err(|error| broken(&error.to_string()))?,
    };
    let journal = Arc::new(journal?);
    // What failed before did not fail now.
    let _ = std::fs::remove_file(open::last_failure(&common.data));
    told(&journal);
    let driven = drive(common, &journal, &run, loaded, &mut signals).await;
    let summary = driven.map(|driven| Summary {
        run: run.clone(),
        status: driven.status,
        counts: driven.counts,
        elapsed: began.elapsed(),
        syncs: journal.stats().syncs,
        epoch: journal.epoch().0,
        others: others(&journal, &run),
        idle: driven.idle,
        signal: driven.signal,
    });
    if let Some(trouble) = journal.checkpoint_trouble() {
        print::note(format!("warning: {trouble}"));
    }
    match Arc::try_unwrap(journal) {
        Ok(journal) => journal.close(),
        Err(shared) => drop(shared),
    }
    summary
}

fn others(journal: &Journal, run: &str) -> usize {
    let open = journal.runs(RunFilter::Open).unwrap_or_default();
    open.iter().filter(|row| row.run != run).count()
}

/// Says what recovery did, where it did anything.
fn told(journal: &Journal) {
    let recovered = journal.recovered();
    if recovered.cut_bytes > 0 {
        print::note(format!(
            "recovered: {} bytes of a torn end were cut; nothing of it was acknowledged",
            recovered.cut_bytes
        ));
    }
    if let Some((path, why)) = &recovered.set_aside {
        print::note(format!(
            "recovered: the projection was rebuilt from the log, the old one is {}: {why}",
            path.display()
        ));
    }
}

/// What came of it.
struct Driven {
    status: RunStatus,
    counts: intendant::operator::report::ActionCounts,
    idle: bool,
    signal: Option<Exit>,
}

async fn drive(
    common: &Common,
    journal: &Arc<Journal>,
    run: &str,
    loaded: Loaded,
    signals: &mut StopSignals,
) -> Result<Driven, Failure> {
    let log: Arc<dyn IntentLog> = journal.clone();
    let history = log.history(run)?;
    let state = RunState::fold(run, &history).map_err(|misfit| broken(&misfit.to_string()))?;
    let recorded = state
        .as_ref()
        .and_then(|state| input_of(log.as_ref(), &state.pass));
    let course = decide(state.as_ref(), recorded.as_ref(), loaded.clone())?;
    let attempts = open::attempts(&common.data);
    let mut tools = Toolbox::default();
    let declared = |fault: job::tools::ToolFault| {
        Failure::usage(
            fault.to_string(),
            "correct the job file; nothing was started",
        )
    };
    tools.add(&loaded.job, &attempts).map_err(declared)?;
    for input in inputs_of(log.as_ref(), &history) {
        tools.add(&input.job, &attempts).map_err(declared)?;
    }
    drop(history);
    let builder = Engine::builder_over(log).drive_on_request();
    let builder = tools.register(builder);
    let engine = builder
        .workflow(WORKFLOW, loaded.job.version, walk)
        .start()
        .await?;
    let server = match Server::start(engine.clone(), journal.clone(), &common.data) {
        Ok(server) => Some(server),
        Err(why) => {
            print::note(format!("warning: no socket, commands have to wait: {why}"));
            None
        }
    };
    let job = Driving {
        json: common.json,
        engine: &engine,
        run,
        loaded,
    };
    let driven = job.to_rest(course, signals).await;
    if let Some(server) = server {
        server.stop().await;
    }
    driven
}

struct Driving<'a> {
    json: bool,
    engine: &'a Engine,
    run: &'a str,
    loaded: Loaded,
}

impl Driving<'_> {
    /// Drives the run until it rests, with new passes for what is new once one has ended.
    async fn to_rest(
        &self,
        mut course: Course,
        signals: &mut StopSignals,
    ) -> Result<Driven, Failure> {
        let mut idle = true;
        let (status, signal) = loop {
            let handle = match course {
                Course::Done => self.engine.resume(self.run).await?,
                Course::Resume => {
                    idle = false;
                    self.engine.resume(self.run).await?
                }
                Course::Start(input) => {
                    idle = false;
                    self.start(*input).await?
                }
            };
            let (status, signal) = self.rests(handle, signals).await;
            let ended = matches!(status, RunStatus::Ended(_));
            if !ended || signal.is_some() {
                break (status, signal);
            }
            course = match self.again()? {
                Course::Done => break (status, signal),
                next => next,
            };
        };
        let counts = match self.engine.counts(self.run).await {
            Ok(counts) => counts.unwrap_or_default(),
            // The failure of the journal itself is told by the status.
            Err(_) if matches!(status, RunStatus::JournalFailed(_)) => Default::default(),
            Err(error) => return Err(error.into()),
        };
        Ok(Driven {
            status,
            counts,
            idle,
            signal,
        })
    }

    async fn start(&self, input: JobInput) -> Result<Run, Failure> {
        let pass = StartPass {
            run: self.run.to_owned(),
            workflow: WORKFLOW.to_owned(),
            version: input.job.version,
            input: input.to_value(),
        };
        Ok(self.engine.start_pass(pass).await?)
    }

    /// What to do after a pass ended.
    fn again(&self) -> Result<Course, Failure> {
        let Some(state) = self.engine.state(self.run)? else {
            return Ok(Course::Done);
        };
        let recorded = input_of(self.engine.log().as_ref(), &state.pass);
        decide(Some(&state), recorded.as_ref(), self.loaded.clone())
    }

    /// Waits until the run ends, halts or needs a person, or a signal stops it.
    async fn rests(&self, mut handle: Run, signals: &mut StopSignals) -> (RunStatus, Option<Exit>) {
        let items = self
            .loaded
            .job
            .steps
            .iter()
            .map(|step| match step.for_each {
                Some(_) => self.loaded.rows.get(&step.name).map_or(0, Vec::len),
                None => 1,
            });
        let progress = Progress::start(self.engine.clone(), self.run.to_owned(), items.sum());
        let signalled = tokio::select! {
            status = handle.rests() => Err(status),
            exit = signals.next() => Ok(exit),
        };
        let rested = match signalled {
            Err(status) => {
                if let RunStatus::NeedsPerson = status {
                    self.engine.stop(GRACE).await;
                }
                (status, None)
            }
            Ok(exit) => {
                print::note(format!(
                    "stopping: running actions have {} s to end; a second signal stops at once",
                    GRACE.as_secs()
                ));
                tokio::select! {
                    () = self.engine.stop(GRACE) => {}
                    again = signals.next() => stopped_at_once(self.json, again),
                }
                (handle.ends().await, Some(exit))
            }
        };
        progress.stop().await;
        match rested {
            // It ended within the grace: nothing is left, so nothing was stopped.
            (status @ RunStatus::Ended(RunEnd::Completed(_) | RunEnd::Failed(_)), Some(_)) => {
                (status, None)
            }
            rested => rested,
        }
    }
}

/// Ends the program without waiting for anything: what runs is cut as by a crash.
fn stopped_at_once(json: bool, exit: Exit) -> ! {
    let message = "stopped at once; what ran is in doubt until the next start looks after it";
    let remedy = "start the same command again to go on";
    let failure = Failure::new(exit, "stopped", message, remedy);
    if json {
        print::json(&failure.json());
    } else {
        print::note(failure.text());
    }
    std::process::exit(exit as i32)
}

fn broken(why: &str) -> Failure {
    Failure::new(
        Exit::JournalRefused,
        "broken",
        why,
        "keep the folder and report it; see intendant verify",
    )
}
