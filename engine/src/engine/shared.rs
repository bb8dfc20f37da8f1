//! What all drivers of one engine share.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use intendant_journal::face::IntentLog;
use intendant_journal::format::canonical;
use intendant_journal::format::entry::{Digest, Epoch, PassStarted, Sequence};
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use super::run::{Run, StartPass, StartRunError};
use super::status::{RunEnd, RunStatus};
use crate::action::doubt::{AskRule, Surroundings};
use crate::action::id::check_run_id;
use crate::clock::Clock;
use crate::kernel::Kernel;
use crate::run::state::RunState;
use crate::workflow::Workflows;
use crate::workflow::driver::{Begin, Driver, Mail};

/// How many gates are kept before unused ones are forgotten.
const GATES_MAX: usize = 1_024;

/// How often the journal is looked at between appends.
const JOURNAL_WATCH: Duration = Duration::from_millis(250);

/// Domain of run input digests.
const INPUT_DOMAIN: &str = "intendant/run-input/1";

pub(crate) struct Shared {
    pub(crate) log: Arc<dyn IntentLog>,
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) workflows: Workflows,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) started_after: Sequence,
    boot_since: Epoch,
    last_wall_ms: i64,
    /// One gate a run: whoever reads its history to begin a driver, or to change it without one,
    /// holds it until the driver is known or the change is durable.
    gates: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    runs: Mutex<Runs>,
    driving: watch::Sender<usize>,
    failed: watch::Sender<Option<String>>,
}

#[derive(Default)]
struct Runs {
    driven: HashMap<String, Driven>,
    /// Every run id there is in the journal.
    known: HashSet<String>,
    /// Nothing new is driven any more.
    stopping: bool,
}

struct Driven {
    post: mpsc::UnboundedSender<Mail>,
    status: watch::Sender<RunStatus>,
    workflow: String,
    input: Digest,
}

impl Shared {
    pub(crate) fn new(
        log: Arc<dyn IntentLog>,
        kernel: Arc<Kernel>,
        workflows: Workflows,
        clock: Arc<dyn Clock>,
        known: HashSet<String>,
    ) -> Arc<Self> {
        Arc::new(Self {
            started_after: log.durable(),
            boot_since: log.boot_since(),
            last_wall_ms: log.last_wall_ms(),
            log,
            kernel,
            workflows,
            clock,
            gates: Mutex::default(),
            runs: Mutex::new(Runs {
                driven: HashMap::new(),
                known,
                stopping: false,
            }),
            driving: watch::Sender::new(0),
            failed: watch::Sender::new(None),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn surroundings(&self, reconciler: Option<AskRule>) -> Surroundings {
        let now = self.clock.now();
        Surroundings {
            now,
            boot_since: self.boot_since,
            clock_behind: now.wall_ms < self.last_wall_ms,
            reconciler,
        }
    }

    pub(crate) fn ask_rule(&self, tool: &str) -> Option<AskRule> {
        let registered = self.kernel.declared(tool)?;
        registered.reconciler.as_ref()?;
        let asks = registered.contract.asks;
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Some(AskRule {
            asks_max: asks.asks_max,
            backoff_first_ms: ms(asks.backoff_first),
            backoff_max_ms: ms(asks.backoff_max),
        })
    }

    pub(crate) fn post(&self, run: &str) -> Option<mpsc::UnboundedSender<Mail>> {
        self.lock()
            .driven
            .get(run)
            .map(|driven| driven.post.clone())
    }

    pub(crate) fn status(&self, run: &str) -> Option<RunStatus> {
        self.lock()
            .driven
            .get(run)
            .map(|driven| driven.status.borrow().clone())
    }

    pub(crate) fn driven(self: &Arc<Self>, run: &str) -> Option<Run> {
        let status = self.lock().driven.get(run)?.status.subscribe();
        Some(Run::new(self.clone(), run, status))
    }

    pub(crate) fn driving(&self) -> usize {
        *self.driving.borrow()
    }

    /// A handle to a run that has ended.
    pub(crate) fn ended(self: &Arc<Self>, run: &str, end: RunEnd) -> Run {
        let (_, status) = watch::channel(RunStatus::Ended(end));
        Run::new(self.clone(), run, status)
    }

    /// Publishes where a driven run stands.
    pub(crate) fn publish(&self, run: &str, status: RunStatus) {
        if let Some(driven) = self.lock().driven.get(run) {
            let same =
                |old: &RunStatus| std::mem::discriminant(old) == std::mem::discriminant(&status);
            driven.status.send_if_modified(|old| {
                if same(old) {
                    return false;
                }
                *old = status.clone();
                true
            });
        }
    }

    /// The gate of a run.
    pub(crate) async fn gate(&self, run: &str) -> tokio::sync::OwnedMutexGuard<()> {
        let gate = {
            let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
            // Gates that nobody holds or waits for are forgotten once there are many.
            if gates.len() > GATES_MAX {
                gates.retain(|_, gate| Arc::strong_count(gate) > 1);
            }
            gates.entry(run.to_owned()).or_default().clone()
        };
        gate.lock_owned().await
    }

    /// Drives nothing new from here on.
    pub(crate) fn begin_stop(&self) {
        self.lock().stopping = true;
    }

    /// Tells everybody once the journal is disabled, whoever's append it was that failed.
    pub(crate) fn watch_journal(self: &Arc<Self>) {
        let shared = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(JOURNAL_WATCH).await;
                let Some(shared) = shared.upgrade() else {
                    return;
                };
                if let Some(why) = shared.log.disabled() {
                    shared.failed.send_replace(Some(why));
                    shared.tell_all(|| Mail::JournalGone);
                    return;
                }
            }
        });
    }

    pub(crate) fn tell_all(&self, mail: impl Fn() -> Mail) {
        for driven in self.lock().driven.values() {
            // A driver that has just ended needs no telling.
            let _ = driven.post.send(mail());
        }
    }

    pub(crate) async fn all_ended(&self) {
        let mut driving = self.driving.subscribe();
        // The sender lives in self, so waiting cannot fail.
        let _ = driving.wait_for(|count| *count == 0).await;
    }

    pub(crate) async fn journal_failed(&self) -> String {
        let mut failed = self.failed.subscribe();
        match failed.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            Err(_) => std::future::pending().await,
        }
    }

    pub(crate) async fn start_run(
        self: &Arc<Self>,
        workflow: &str,
        run: &str,
        input: &Value,
    ) -> Result<Run, StartRunError> {
        check_run_id(run).map_err(StartRunError::Input)?;
        let registered = self
            .workflows
            .get(workflow)
            .ok_or_else(|| StartRunError::NoWorkflow(workflow.to_owned()))?;
        let (text, digest) = digest_input(input)?;
        let _gate = self.gate(run).await;
        let may_be_known = {
            let runs = self.lock();
            if let Some(driven) = runs.driven.get(run) {
                same_run(run, (&driven.workflow, driven.input), (workflow, digest))?;
                return Ok(Run::new(self.clone(), run, driven.status.subscribe()));
            }
            runs.known.contains(run)
        };
        let known = if may_be_known { self.state(run)? } else { None };
        let Some(state) = known else {
            let pass = PassStarted {
                workflow: workflow.to_owned(),
                version: registered.version,
                pass: 1,
                input: crate::payload::keep_text(self.log.as_ref(), &text)?,
                input_digest: digest,
            };
            let begin = Begin::Pass {
                known: None,
                pass: Box::new(pass),
            };
            return self.spawn(run, begin).started().await;
        };
        same_run(
            run,
            (&state.pass.workflow, state.pass.input_digest),
            (workflow, digest),
        )?;
        Ok(self.take_up(run, state))
    }

    /// Takes up an open run that nobody drives yet.
    pub(crate) async fn resume(self: &Arc<Self>, run: &str) -> Result<Run, StartRunError> {
        let _gate = self.gate(run).await;
        if let Some(run) = self.driven(run) {
            return Ok(run);
        }
        let state = self.state(run)?;
        let state = state.ok_or_else(|| StartRunError::Unknown(run.to_owned()))?;
        Ok(self.take_up(run, state))
    }

    fn take_up(self: &Arc<Self>, run: &str, state: RunState) -> Run {
        match &state.end {
            Some(end) => self.ended(run, RunEnd::of(end)),
            None => self.spawn(run, Begin::Resume(Box::new(state))),
        }
    }

    /// The folded history of a run.
    pub(crate) fn state(&self, run: &str) -> Result<Option<RunState>, StartRunError> {
        let history = self.log.history(run)?;
        RunState::fold(run, &history).map_err(|misfit| StartRunError::Broken(misfit.to_string()))
    }

    pub(crate) async fn start_pass(
        self: &Arc<Self>,
        pass: StartPass,
    ) -> Result<Run, StartRunError> {
        check_run_id(&pass.run).map_err(StartRunError::Input)?;
        let _gate = self.gate(&pass.run).await;
        let known = self.state(&pass.run)?;
        if !self.workflows.contains_key(&pass.workflow) {
            return Err(StartRunError::NoWorkflow(pass.workflow));
        }
        if self.post(&pass.run).is_some() {
            return Err(StartRunError::Conflict(format!(
                "run {} is going on",
                pass.run
            )));
        }
        if let Some(known) = &known {
            if known.pass.workflow != pass.workflow {
                let why = format!(
                    "run {} is one of workflow {:?}, not {:?}",
                    pass.run, known.pass.workflow, pass.workflow
                );
                return Err(StartRunError::Conflict(why));
            }
            if known.end.is_none() && pass.version <= known.pass.version {
                let why = format!(
                    "run {} has not ended, and its version was not raised",
                    pass.run
                );
                return Err(StartRunError::Conflict(why));
            }
        }
        let (text, digest) = digest_input(&pass.input)?;
        let started = PassStarted {
            workflow: pass.workflow,
            version: pass.version,
            pass: known.as_ref().map_or(1, |known| known.pass.pass + 1),
            input: crate::payload::keep_text(self.log.as_ref(), &text)?,
            input_digest: digest,
        };
        let begin = Begin::Pass {
            known: known.map(Box::new),
            pass: Box::new(started),
        };
        self.spawn(&pass.run, begin).started().await
    }

    /// Spawns the driver of a run, unless it has one.
    pub(crate) fn spawn(self: &Arc<Self>, run: &str, begin: Begin) -> Run {
        let (workflow, input) = match &begin {
            Begin::Pass { pass, .. } => (pass.workflow.clone(), pass.input_digest),
            Begin::Resume(state) => (state.pass.workflow.clone(), state.pass.input_digest),
        };
        let (post, mailbox) = mpsc::unbounded_channel();
        let mut runs = self.lock();
        if let Some(driven) = runs.driven.get(run) {
            return Run::new(self.clone(), run, driven.status.subscribe());
        }
        if runs.stopping {
            let (_, status) = watch::channel(RunStatus::Stopped);
            return Run::new(self.clone(), run, status);
        }
        let status = watch::Sender::new(RunStatus::Starting);
        let handle = Run::new(self.clone(), run, status.subscribe());
        let driven = Driven {
            post: post.clone(),
            status: status.clone(),
            workflow,
            input,
        };
        runs.driven.insert(run.to_owned(), driven);
        runs.known.insert(run.to_owned());
        drop(runs);
        self.driving.send_modify(|count| *count += 1);
        let (shared, name): (_, Arc<str>) = (self.clone(), run.into());
        tokio::spawn(async move {
            let driving = Driver::drive(shared.clone(), name.clone(), begin, mailbox, post);
            // A panic here is a broken invariant of ours: it must not pass for a run that goes on.
            let last = match tokio::spawn(driving).await {
                Ok(last) => last,
                Err(broken) => {
                    let why = format!(
                        "the driver of run {name} broke: {broken}; keep the folder and report it"
                    );
                    RunStatus::Halted(super::status::Halt::Broken(why))
                }
            };
            if let RunStatus::JournalFailed(error) = &last {
                shared.failed.send_replace(Some(error.to_string()));
            }
            shared.lock().driven.remove(&*name);
            status.send_replace(last);
            shared.driving.send_modify(|count| *count -= 1);
        });
        handle
    }
}

fn digest_input(input: &Value) -> Result<(String, Digest), StartRunError> {
    let text = canonical::to_text(input).map_err(|why| StartRunError::Input(why.to_string()))?;
    let digest = canonical::digest(INPUT_DOMAIN, &text);
    Ok((text, digest))
}

fn same_run(run: &str, known: (&str, Digest), asked: (&str, Digest)) -> Result<(), StartRunError> {
    if known.0 != asked.0 {
        let why = format!(
            "run {run} exists already with workflow {:?}, not {:?}",
            known.0, asked.0
        );
        return Err(StartRunError::Conflict(why));
    }
    if known.1 != asked.1 {
        let why = format!(
            "run {run} exists already with another input (digest {:.12}, not {:.12})",
            known.1.to_string(),
            asked.1.to_string()
        );
        return Err(StartRunError::Conflict(why));
    }
    Ok(())
}
