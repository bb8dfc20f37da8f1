//! The engine: registered tools and workflows over one journal, a driver for each open run.

pub(crate) mod build;
mod run;
pub(crate) mod shared;
pub mod status;
mod undriven;

pub use build::{BadTool, Builder, StartError};
pub use run::{Run, RunError, StartPass, StartRunError};
pub(crate) use shared::Shared;

use std::sync::Arc;
use std::time::Duration;

use intendant_journal::error::ReadError;
use intendant_journal::face::{IntentLog, RunFilter};
use intendant_journal::format::entry::Sequence;
use serde::Serialize;
use tokio::sync::oneshot;

use crate::action::id::IntentId;
use crate::operator::command::{Done, Refusal, Request};
use crate::operator::report::{Pending, RunDetail, RunLine};
use crate::operator::{direct, plan, view};
use crate::run::state::RunState;
use crate::workflow::driver::Mail;
use status::RunStatus;

/// A running engine. Cloning it gives another handle to the same engine.
///
/// Dropping handles stops nothing: runs go on for as long as the runtime does. [`Engine::stop`] ends
/// them in good order.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

impl Engine {
    /// Begins an engine over a journal.
    pub fn builder(log: impl IntentLog) -> Builder {
        Builder::new(Arc::new(log))
    }

    /// Begins an engine over a journal that others hold too.
    pub fn builder_over(log: Arc<dyn IntentLog>) -> Builder {
        Builder::new(log)
    }

    /// Starts a run, or attaches to the one with this id: the same id is the same run.
    ///
    /// # Errors
    /// [`StartRunError::Conflict`] if a run of this id has another workflow or input; nothing is
    /// changed.
    pub async fn run(
        &self,
        workflow: &str,
        run: &str,
        input: impl Serialize,
    ) -> Result<Run, StartRunError> {
        let input =
            serde_json::to_value(input).map_err(|why| StartRunError::Input(why.to_string()))?;
        self.shared.start_run(workflow, run, &input).await
    }

    /// Takes up an open run that this engine does not drive yet.
    ///
    /// # Errors
    /// [`StartRunError::Unknown`] if there is no such run; [`StartRunError::Read`] if its history
    /// cannot be read.
    pub async fn resume(&self, run: &str) -> Result<Run, StartRunError> {
        self.shared.resume(run).await
    }

    /// Starts a pass of a run: the first one, or a new one over the actions already known (new
    /// rows, a raised version, a retry).
    ///
    /// # Errors
    /// [`StartRunError::Conflict`] if the current pass has not ended and the version was not raised,
    /// or if the run is being driven.
    pub async fn start_pass(&self, pass: StartPass) -> Result<Run, StartRunError> {
        self.shared.start_pass(pass).await
    }

    /// The folded state of a run, at a durable moment.
    ///
    /// # Errors
    /// [`ReadError`] or a broken invariant, in words.
    pub fn state(&self, run: &str) -> Result<Option<RunState>, StartRunError> {
        self.shared.state(run)
    }

    /// Carries out an operator's change: durable when this returns.
    ///
    /// # Errors
    /// [`Refusal`]: nothing was recorded.
    pub async fn change(&self, request: Request) -> Result<Done, Refusal> {
        let run = plan::run_of(&request.change)?;
        if let Some(answer) = self.change_driven(&run, &request).await {
            return answer;
        }
        // Nobody drives it, unless a driver began meanwhile: under the gate that is certain.
        let _gate = self.shared.gate(&run).await;
        if let Some(answer) = self.change_driven(&run, &request).await {
            return answer;
        }
        let kernel = self.shared.kernel.clone();
        let check = move |tool: &str, output: &serde_json::Value| match kernel.declared(tool) {
            Some(registered) => registered.check_output(output),
            None => Ok(()),
        };
        direct::change(
            self.shared.log.as_ref(),
            self.shared.clock.as_ref(),
            &request,
            &check,
        )
        .await
    }

    /// The answer of a run's driver, `None` if it has none or has just ended.
    async fn change_driven(&self, run: &str, request: &Request) -> Option<Result<Done, Refusal>> {
        let post = self.shared.post(run)?;
        let (reply, answer) = oneshot::channel();
        post.send(Mail::Change(request.clone(), reply)).ok()?;
        answer.await.ok()
    }

    /// Asks a tool's reconciler about an attempt in doubt now, instead of when it is due. In a run
    /// that this engine drives, the answer is recorded when it comes; in any other, it has come
    /// and is recorded when this returns, and nothing follows from it until the run is driven.
    ///
    /// # Errors
    /// [`Refusal`] if the attempt is not in doubt, parked, or nobody can be asked.
    pub async fn reconcile(&self, intent: &str) -> Result<String, Refusal> {
        let refuse = |code: &str, message: String, remedy: &str| Refusal {
            code: code.into(),
            message,
            remedy: remedy.into(),
        };
        let id: IntentId = intent
            .parse()
            .map_err(|why| refuse("bad_id", why, "copy the id from `intendant pending`"))?;
        let post = match self.shared.post(&id.run) {
            Some(post) => post,
            None => {
                let _gate = self.shared.gate(&id.run).await;
                match self.shared.post(&id.run) {
                    Some(post) => post,
                    None => return undriven::ask(&self.shared, &id).await,
                }
            }
        };
        let (reply, answer) = oneshot::channel();
        let gone = || {
            refuse(
                "ended",
                format!("run {} has just ended", id.run),
                "see `intendant show`",
            )
        };
        post.send(Mail::AskNow(id.attempt, reply))
            .map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// All that is pending, in every open run.
    ///
    /// # Errors
    /// [`ReadError`] if a run that is not driven here cannot be read.
    pub async fn pending(&self) -> Result<Pending, ReadError> {
        let mut items = Vec::new();
        for row in self.shared.log.runs(RunFilter::Open)? {
            let shared = self.shared.clone();
            let pending = self
                .look(&row.run, move |state, live| {
                    let around = |tool: &str| shared.surroundings(shared.ask_rule(tool));
                    view::pending_of(state, live, &around)
                })
                .await?;
            items.extend(pending.into_iter().flatten());
        }
        view::add_keys(&mut items, self.shared.log.id());
        items.sort_by(|a, b| (&a.since, &a.intent).cmp(&(&b.since, &b.intent)));
        let alarms = self
            .shared
            .log
            .disabled()
            .map(|why| format!("the journal is disabled: {why}"));
        Ok(Pending {
            schema: 1,
            engine: "live".to_owned(),
            as_of_sequence: self.shared.log.durable().0,
            alarms: alarms.into_iter().collect(),
            items,
        })
    }

    /// All runs, oldest first.
    ///
    /// # Errors
    /// [`ReadError`] if a history cannot be read.
    pub async fn runs(&self) -> Result<Vec<RunLine>, ReadError> {
        let mut lines = Vec::new();
        for row in self.shared.log.runs(RunFilter::All)? {
            let status = self.shared.status(&row.run);
            let after = self.shared.started_after;
            let line = self.look(&row.run, move |state, _| {
                view::run_line(state, status.as_ref(), after)
            });
            lines.extend(line.await?);
        }
        Ok(lines)
    }

    /// One run in full, `None` if there is none of that id.
    ///
    /// # Errors
    /// [`ReadError`] if its history cannot be read.
    pub async fn show(&self, run: &str) -> Result<Option<RunDetail>, ReadError> {
        let history = self.shared.log.history(run)?;
        let folded = RunState::fold(run, &history).unwrap_or_else(told);
        let Some(state) = folded else {
            return Ok(None);
        };
        let status = self.shared.status(run);
        let around = |tool: &str| self.shared.surroundings(self.shared.ask_rule(tool));
        let live = self.shared.post(run).is_some();
        Ok(Some(view::run_detail(
            &state,
            &history,
            status.as_ref(),
            self.shared.started_after,
            live,
            &around,
            Some(self.shared.log.as_ref()),
        )))
    }

    /// Looks at the state of a run at a durable moment: in its driver, whose state it is, or at its
    /// folded history. The look is told whether a driver has it.
    async fn look<T: Send + 'static>(
        &self,
        run: &str,
        look: impl FnOnce(&RunState, bool) -> T + Clone + Send + 'static,
    ) -> Result<Option<T>, ReadError> {
        if let Some(post) = self.shared.post(run) {
            let (reply, seen) = oneshot::channel();
            let driven = look.clone();
            let mail = Mail::Look(Box::new(move |state| {
                // Whoever asked may be gone.
                let _ = reply.send(driven(state, true));
            }));
            if post.send(mail).is_ok()
                && let Ok(seen) = seen.await
            {
                return Ok(Some(seen));
            }
        }
        let history = self.shared.log.history(run)?;
        let folded = RunState::fold(run, &history).unwrap_or_else(told);
        Ok(folded.map(|state| look(&state, false)))
    }

    /// The journal under the engine.
    pub fn log(&self) -> &Arc<dyn IntentLog> {
        &self.shared.log
    }

    /// The last sequence that was durable before this engine started: what settled up to it is
    /// replayed, not done anew.
    pub fn started_after(&self) -> Sequence {
        self.shared.started_after
    }

    /// Stops in good order: nothing new starts; running actions get `grace` to end; what then
    /// still runs is recorded as interrupted.
    pub async fn stop(&self, grace: Duration) {
        self.shared.begin_stop();
        self.shared.tell_all(|| Mail::Stop);
        let all_ended = self.shared.all_ended();
        if tokio::time::timeout(grace, all_ended).await.is_err() {
            self.shared.tell_all(|| Mail::Cut);
            self.shared.all_ended().await;
        }
    }

    /// Resolves once the journal has failed: the program should end, a restart is safe.
    pub async fn journal_failed(&self) -> String {
        self.shared.journal_failed().await
    }

    /// Runs that this engine drives now.
    pub fn driving(&self) -> usize {
        self.shared.driving()
    }

    /// Counts of a run's actions, as far as this engine knows it.
    ///
    /// # Errors
    /// [`ReadError`] if its history cannot be read.
    pub async fn counts(
        &self,
        run: &str,
    ) -> Result<Option<crate::operator::report::ActionCounts>, ReadError> {
        let after = self.shared.started_after;
        self.look(run, move |state, _| view::counts(state, after))
            .await
    }

    /// The status of a run that is driven here.
    pub fn status(&self, run: &str) -> Option<RunStatus> {
        self.shared.status(run)
    }
}

/// A history that does not fold holds up only its own run.
fn told(misfit: crate::run::state::Misfit) -> Option<RunState> {
    tracing::error!("{misfit}");
    None
}
