//! Reaching a journal: through the live engine that owns it or, where there is none, by itself.
//! Commands need not know which.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use intendant::clock::SystemClock;
use intendant::engine::Engine;
use intendant::operator::command::{Change, Done, Refusal, Request};
use intendant::operator::report::{
    ActionDetail, AttemptLog, HistoryLine, Pending, RunDetail, RunLine,
};
use intendant::operator::{direct, plan};
use intendant_journal::Journal;
use intendant_journal::error::OpenError;
use intendant_journal::face::IntentLog;
use intendant_journal::format::entry::{BlobRef, Digest};
use serde::de::DeserializeOwned;
use std::sync::Arc;

use crate::checkpoint::{self, Given};
use crate::exit::{Exit, Failure};
use crate::job::recorded::inputs_of;
use crate::job::tools::Toolbox;
use crate::open;
use crate::socket::{Ask, Client, Lost};
use crate::still::{self, Still};
use crate::who;

/// How long an owner that serves no socket (yet, or any more) is waited for.
const PATIENCE: Duration = Duration::from_secs(3);
const AGAIN_AFTER: Duration = Duration::from_millis(30);

/// A journal by its folder.
pub(crate) struct Reach {
    data: PathBuf,
}

/// Who can be asked.
enum Found {
    Live(Client),
    /// Nobody owns the journal.
    Stopped,
    /// A process owns it and serves no socket.
    Silent,
}

impl Reach {
    pub(crate) fn new(data: &Path) -> Self {
        Self {
            data: data.to_owned(),
        }
    }

    fn find(&self) -> Result<Found, Failure> {
        let until = Instant::now() + PATIENCE;
        loop {
            let Some(owner) = open::owner(&self.data)? else {
                return Ok(Found::Stopped);
            };
            let client = owner.socket.as_deref().map(Client::connect);
            if let Some(Ok(client)) = client {
                return Ok(Found::Live(client));
            }
            if Instant::now() >= until {
                return Ok(Found::Silent);
            }
            std::thread::sleep(AGAIN_AFTER);
        }
    }

    /// Looks at something: asks the live engine, or reads the journal.
    fn look<T: DeserializeOwned>(
        &self,
        ask: &Ask,
        in_full: Option<&str>,
        read: impl Fn(&Still) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let until = Instant::now() + PATIENCE;
        loop {
            let live = match self.find()? {
                Found::Live(mut client) => match client.ask(ask) {
                    Ok(answer) => return Ok(answer?),
                    // It has just ended; then its journal can be read.
                    Err(lost) if Instant::now() >= until => return Err(silent(&lost)),
                    Err(_) => continue,
                },
                Found::Stopped => false,
                Found::Silent => true,
            };
            return Still::read(&self.data, in_full, live).and_then(|still| read(&still));
        }
    }

    pub(crate) fn pending(&self) -> Result<Pending, Failure> {
        self.look(&Ask::Pending, None, |still| Ok(still.pending()))
    }

    pub(crate) fn runs(&self) -> Result<Vec<RunLine>, Failure> {
        self.look(&Ask::Runs, None, |still| Ok(still.runs()))
    }

    pub(crate) fn show(&self, run: &str) -> Result<RunDetail, Failure> {
        let ask = Ask::Show {
            run: run.to_owned(),
        };
        self.look(&ask, Some(run), |still| still.show(run))?
            .ok_or_else(|| still::no_run(run))
    }

    /// An action by its id or by the id of one of its attempts.
    pub(crate) fn action(&self, id: &str) -> Result<ActionDetail, Failure> {
        let (action, attempt) = match id.rsplit_once('#') {
            Some((action, attempt)) => (action, Some(attempt)),
            None => (id, None),
        };
        let run = action.split('/').next().unwrap_or_default();
        let detail = self.show(run)?;
        let found = detail
            .actions_list
            .into_iter()
            .find(|of| of.action == action);
        let missing = |what: String| {
            Failure::new(
                Exit::Usage,
                "not_found",
                what,
                "see `intendant pending`, or `intendant show RUN`",
            )
        };
        let mut found = found.ok_or_else(|| missing(format!("no action is called {action}")))?;
        for log in &mut found.logs {
            self.read_log(log);
        }
        match attempt.map(str::parse::<u32>) {
            None => Ok(found),
            Some(Ok(n)) if n >= 1 && n <= found.attempt => Ok(found),
            Some(_) => Err(missing(format!(
                "{action} has no such attempt; its latest is {}",
                found.attempt
            ))),
        }
    }

    /// Reads the text of an attempt's log out of its blob. Blobs never change, so it does not
    /// matter whether an engine is at work.
    fn read_log(&self, log: &mut AttemptLog) {
        let Some(blob) = blob_of(&log.text) else {
            return;
        };
        match intendant_journal::scan::read_blob(&self.data, &blob) {
            Ok(bytes) => log.text = String::from_utf8_lossy(&bytes).into_owned().into(),
            // The action is shown all the same.
            Err(error) => crate::print::note(format!("warning: a log cannot be read: {error}")),
        }
    }

    /// Lines of the log behind a sequence, and up to where they reach.
    pub(crate) fn tail(
        &self,
        run: Option<&str>,
        after: u64,
    ) -> Result<(Vec<HistoryLine>, u64), Failure> {
        // The log itself can be read while it is written.
        still::tail(&self.data, run, after)
    }

    /// As [`Reach::tail`], without reading the whole log if an engine can be asked.
    pub(crate) fn tail_on(
        &self,
        run: Option<&str>,
        after: u64,
    ) -> Result<Option<(Vec<HistoryLine>, u64)>, Failure> {
        let socket = open::owner(&self.data)?.and_then(|owner| owner.socket);
        let Some(Ok(mut client)) = socket.as_deref().map(Client::connect) else {
            return Ok(None);
        };
        let ask = Ask::Tail {
            run: run.map(str::to_owned),
            after,
        };
        match client.ask(&ask) {
            Ok(answer) => Ok(Some(answer?)),
            Err(_) => Ok(None),
        }
    }

    /// Changes something: durable when this returns. Sent again under the same request id, it
    /// changes nothing more.
    pub(crate) fn change(
        &self,
        reason: &str,
        request: &str,
        change: &Change,
    ) -> Result<Done, Failure> {
        let ask = Ask::Change {
            reason: reason.to_owned(),
            request: request.to_owned(),
            change: change.clone(),
        };
        self.act(&ask, |journal| {
            let request = Request {
                who: who::who(who::me()),
                reason: reason.to_owned(),
                request: request.to_owned(),
                change: change.clone(),
            };
            block_on(change_directly(&journal, &request))
        })
    }

    /// Asks a reconciler now; the answer is recorded when this returns.
    pub(crate) fn reconcile(&self, intent: &str) -> Result<String, Failure> {
        let ask = Ask::Reconcile {
            intent: intent.to_owned(),
        };
        let attempts = open::attempts(&self.data);
        self.act(&ask, |journal| {
            block_on(async {
                let journal = Arc::new(journal);
                let asked = reconcile_directly(journal.clone(), intent, &attempts).await;
                drop(journal);
                asked
            })
        })
    }

    /// A signed checkpoint of what is durable now.
    pub(crate) fn checkpoint(&self) -> Result<Given, Failure> {
        self.act(&Ask::Checkpoint, |journal| checkpoint::make(&journal))
    }

    fn act<T: DeserializeOwned>(
        &self,
        ask: &Ask,
        directly: impl Fn(Journal) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let until = Instant::now() + PATIENCE;
        loop {
            let late = Instant::now() >= until;
            match self.find()? {
                Found::Live(mut client) => match client.ask(ask) {
                    Ok(answer) => return Ok(answer?),
                    Err(lost) if late => return Err(silent(&lost)),
                    // It ended before it answered. What it recorded is found by the request id.
                    Err(_) => continue,
                },
                Found::Stopped | Found::Silent => {
                    let done = match open::existing(&self.data) {
                        Ok(journal) => directly(journal),
                        Err(OpenError::Owned { .. }) if !late => continue,
                        Err(error) => Err(error.into()),
                    };
                    return done.inspect_err(|failure| open::leave_word(&self.data, failure));
                }
            }
        }
    }
}

/// The blob that stands for a text.
fn blob_of(text: &serde_json::Value) -> Option<BlobRef> {
    let blob = text.get("blob")?;
    let hex = blob["sha256"].as_str().filter(|hex| hex.is_ascii())?;
    let mut sha256 = [0; 32];
    for (index, byte) in sha256.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(index * 2..index * 2 + 2)?, 16).ok()?;
    }
    Some(BlobRef {
        sha256: Digest(sha256),
        bytes: blob["bytes"].as_u64()?,
    })
}

fn silent(lost: &Lost) -> Failure {
    Failure::new(
        Exit::Owned,
        "no_answer",
        lost.to_string(),
        "send the same request again",
    )
}

async fn change_directly(journal: &Journal, request: &Request) -> Result<Done, Failure> {
    let run = plan::run_of(&request.change)?;
    let history = journal.history(&run)?;
    let inputs = inputs_of(journal, &history);
    let check = |tool: &str, output: &serde_json::Value| match inputs
        .iter()
        .find(|input| input.job.tools.contains_key(tool))
    {
        Some(input) => input.check_output(tool, output),
        None => Ok(()),
    };
    Ok(direct::change(journal, &SystemClock, request, &check).await?)
}

async fn reconcile_directly(
    journal: Arc<Journal>,
    intent: &str,
    attempts: &Path,
) -> Result<String, Failure> {
    let run = intent.split('/').next().unwrap_or_default();
    let history = journal.history(run)?;
    let mut tools = Toolbox::default();
    for input in inputs_of(journal.as_ref(), &history) {
        tools
            .add(&input.job, attempts)
            .map_err(|fault| Failure::usage(fault.to_string(), "correct the job file"))?;
    }
    let builder = Engine::builder_over(journal).drive_on_request();
    let engine = tools.register(builder).start().await?;
    let answer: Result<String, Refusal> = engine.reconcile(intent).await;
    Ok(answer?)
}

fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io(Path::new("/proc/self"), "starting a runtime", &error))?;
    runtime.block_on(future)
}
