//! Building and starting an engine: it recovers first.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use intendant_journal::error::ReadError;
use intendant_journal::face::{IntentLog, RunFilter};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Engine;
use super::shared::Shared;
use crate::clock::{Clock, SystemClock};
use crate::kernel::Kernel;
use crate::kernel::policy::{Declared, Policy};
pub use crate::kernel::tools::BadTool;
use crate::kernel::tools::Tools;
use crate::run::state::{Misfit, RunState};
use crate::tool::json::{JsonReconciler, JsonTool};
use crate::tool::typed::{Reconciler, Tool, TypedReconciler, TypedTool};
use crate::workflow::driver::Begin;
use crate::workflow::{Registration, Workflow, Workflows};

/// Why an engine did not start. No effect was started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A declaration is wrong.
    #[error(transparent)]
    Tool(#[from] BadTool),
    /// A reconciler was given for a tool that is not registered.
    #[error("a reconciler is registered for tool {0:?}, which is not; register the tool too")]
    NoTool(String),
    /// Two workflows have one name.
    #[error("workflow {0:?} is registered twice")]
    TwoWorkflows(String),
    /// The journal cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A run's history does not fold.
    #[error(transparent)]
    Misfit(#[from] Misfit),
}

/// Declares what an engine knows before it starts.
pub struct Builder {
    log: Arc<dyn IntentLog>,
    tools: Vec<Arc<dyn JsonTool>>,
    reconcilers: HashMap<String, Arc<dyn JsonReconciler>>,
    workflows: Vec<(String, Registration)>,
    policy: Arc<dyn Policy>,
    clock: Arc<dyn Clock>,
    drive_all: bool,
}

impl Builder {
    pub(super) fn new(log: Arc<dyn IntentLog>) -> Self {
        Self {
            log,
            tools: Vec::new(),
            reconcilers: HashMap::new(),
            workflows: Vec::new(),
            policy: Arc::new(Declared),
            clock: Arc::new(SystemClock),
            drive_all: true,
        }
    }

    /// Registers a tool.
    pub fn tool<T: Tool>(self, tool: T) -> Self {
        self.json_tool(TypedTool::new(tool))
    }

    /// Registers the reconciler of a tool.
    pub fn reconciler<T: Tool>(self, reconciler: impl Reconciler<T>) -> Self {
        self.json_reconciler(T::NAME, TypedReconciler::<T, _>::new(reconciler))
    }

    /// Registers a tool with JSON arguments.
    pub fn json_tool(mut self, tool: Arc<dyn JsonTool>) -> Self {
        self.tools.push(tool);
        self
    }

    /// Registers the reconciler of a tool by name.
    pub fn json_reconciler(mut self, tool: &str, reconciler: Arc<dyn JsonReconciler>) -> Self {
        self.reconcilers.insert(tool.to_owned(), reconciler);
        self
    }

    /// Registers a workflow: an async function over its scope and input.
    pub fn workflow<F, Fut, In, Out, Err>(mut self, name: &str, version: u32, function: F) -> Self
    where
        F: Fn(Workflow, In) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Out, Err>> + Send + 'static,
        In: DeserializeOwned,
        Out: Serialize,
        Err: std::fmt::Display,
    {
        self.workflows
            .push((name.to_owned(), Registration::of(version, function)));
        self
    }

    /// The policy that decides on every attempt. The default allows what is declared and asks for
    /// approval where the declaration wants it.
    pub fn policy(mut self, policy: impl Policy) -> Self {
        self.policy = Arc::new(policy);
        self
    }

    /// Another clock than the machine's.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Takes up no run by itself: each is resumed or started by id.
    pub fn drive_on_request(mut self) -> Self {
        self.drive_all = false;
        self
    }

    /// Starts the engine. Open runs whose workflow is registered are taken up: replayed first,
    /// then each action that was cut is run again, asked about or parked, as declared.
    ///
    /// # Errors
    /// [`StartError`]; nothing was started.
    pub async fn start(mut self) -> Result<Engine, StartError> {
        let mut tools = Tools::default();
        for tool in self.tools {
            let reconciler = self.reconcilers.remove(&tool.contract().name);
            tools.register(tool, reconciler)?;
        }
        if let Some(name) = self.reconcilers.into_keys().next() {
            return Err(StartError::NoTool(name));
        }
        let mut workflows = Workflows::new();
        for (name, registration) in self.workflows {
            if workflows.insert(name.clone(), registration).is_some() {
                return Err(StartError::TwoWorkflows(name));
            }
        }
        let kernel = Arc::new(Kernel::new(self.log.clone(), tools, self.policy));
        let known = self
            .log
            .runs(RunFilter::All)?
            .into_iter()
            .map(|row| row.run)
            .collect();
        let shared = Shared::new(self.log.clone(), kernel, workflows, self.clock, known);
        let mut open = Vec::new();
        if self.drive_all {
            for run in self.log.claim()? {
                let history = self.log.history(&run)?;
                if let Some(state) = RunState::fold(&run, &history)?
                    && shared.workflows.contains_key(&state.pass.workflow)
                {
                    open.push((run, state));
                }
            }
        }
        shared.watch_journal();
        for (run, state) in open {
            shared.spawn(&run, Begin::Resume(Box::new(state)));
        }
        Ok(Engine { shared })
    }
}
