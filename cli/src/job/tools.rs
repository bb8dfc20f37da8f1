//! From declared tools to tools that run: commands under their guard.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use intendant::engine::Builder;
use intendant_reconcilers::command::{
    Argv, CommandReconciler, CommandSpec, CommandTool, ExitCodes, GuardPlace, SpecError,
};

use super::file::Job;
use super::tool::JobTool;

/// A tool ready to be registered.
struct Ready {
    tool: CommandTool,
    reconciler: Option<CommandReconciler>,
}

/// Why a declared tool cannot run. A checked job file has none such.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("tool \"{tool}\": {why}")]
pub struct ToolFault {
    /// The tool.
    pub tool: String,
    /// Why.
    pub why: SpecError,
}

/// Declared tools of one or more versions of a job, by name; the first declaration of a name counts.
#[derive(Default)]
pub struct Toolbox {
    ready: BTreeMap<String, Ready>,
}

impl Toolbox {
    /// Adds the tools of a job, except those whose name is known already. Tools of earlier versions
    /// are added too: an attempt in doubt may need a reconciler that the job no longer names.
    ///
    /// # Errors
    /// [`ToolFault`] for a command line that cannot run.
    pub fn add(&mut self, job: &Job, attempts: &Path) -> Result<(), ToolFault> {
        for (name, declared) in &job.tools {
            if self.ready.contains_key(name) {
                continue;
            }
            let ready = ready(job, name, declared, attempts).map_err(|why| ToolFault {
                tool: name.clone(),
                why,
            })?;
            self.ready.insert(name.clone(), ready);
        }
        Ok(())
    }

    /// Registers all of them.
    #[must_use]
    pub fn register(self, mut builder: Builder) -> Builder {
        for (name, ready) in self.ready {
            builder = builder.json_tool(Arc::new(ready.tool));
            if let Some(reconciler) = ready.reconciler {
                builder = builder.json_reconciler(&name, Arc::new(reconciler));
            }
        }
        builder
    }
}

fn ready(job: &Job, name: &str, declared: &JobTool, attempts: &Path) -> Result<Ready, SpecError> {
    let codes = |list: &[u8]| list.iter().copied().map(i64::from).collect::<Vec<_>>();
    let spec = CommandSpec {
        run: Argv::new(declared.run_command(&job.folder))?,
        reconcile: declared
            .reconcile_command(&job.folder)
            .map(Argv::new)
            .transpose()?,
        cwd: job.folder.clone(),
        exit_codes: ExitCodes::new(
            codes(&declared.exit_codes.failed),
            codes(&declared.exit_codes.not_executed),
        )?,
        place: GuardPlace::this_program(attempts),
    };
    Ok(Ready {
        tool: CommandTool::new(declared.contract(name, job.version), &spec),
        reconciler: CommandReconciler::new(&spec, declared.reconcile_timeout),
    })
}
