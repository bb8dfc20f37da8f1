//! A job as the journal knows it: what commands need of a run whose job file may have changed, or
//! may be gone.

use intendant::action::doubt::AskRule;
use intendant::payload;
use intendant_journal::face::IntentLog;
use intendant_journal::format::entry::{Body, PassStarted, Recorded};
use serde_json::Value;

use super::input::JobInput;

/// The name under which the program registers the workflow that walks a job.
pub const WORKFLOW: &str = "job";

/// The job that a pass was started with; `None` if it is no job's, or of a program that writes it
/// differently.
#[must_use]
pub fn input_of(log: &dyn IntentLog, pass: &PassStarted) -> Option<JobInput> {
    if pass.workflow != WORKFLOW {
        return None;
    }
    JobInput::from_value(payload::show(Some(log), &pass.input)).ok()
}

/// The jobs of all passes of a run, the latest first.
#[must_use]
pub fn inputs_of(log: &dyn IntentLog, history: &[Recorded]) -> Vec<JobInput> {
    let mut inputs: Vec<JobInput> = history
        .iter()
        .filter_map(|recorded| match &recorded.entry.body {
            Body::PassStarted(pass) => input_of(log, pass),
            _ => None,
        })
        .collect();
    inputs.reverse();
    inputs
}

impl JobInput {
    /// How the reconciler of a tool is asked, if it has one.
    #[must_use]
    pub fn ask_rule(&self, tool: &str) -> Option<AskRule> {
        let tool = self.job.tools.get(tool)?;
        tool.reconcile.as_ref()?;
        let ms = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Some(AskRule {
            asks_max: tool.asks.attempts,
            backoff_first_ms: ms(tool.asks.first),
            backoff_max_ms: ms(tool.asks.max),
        })
    }

    /// Whether an output fits what its tool declares.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check_output(&self, tool: &str, output: &Value) -> Result<(), String> {
        let Some(schema) = self
            .job
            .tools
            .get(tool)
            .and_then(|tool| tool.output.as_ref())
        else {
            return Ok(());
        };
        let validator = jsonschema::validator_for(schema)
            .map_err(|why| format!("its recorded schema is not valid: {why}"))?;
        let problems: Vec<String> = validator
            .iter_errors(output)
            .map(|error| match error.instance_path().to_string() {
                place if place.is_empty() => error.to_string(),
                place => format!("{place}: {error}"),
            })
            .collect();
        match problems.is_empty() {
            true => Ok(()),
            false => Err(problems.join("; ")),
        }
    }
}
