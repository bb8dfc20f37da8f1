//! `intendant check`: reads a job with all it names, and says what it would do and what an
//! interruption of each tool would mean.

use std::path::Path;

use serde::Serialize;

use super::duration;
use super::file::{Loaded, load};
use super::problem::Problem;
use super::tool::{JobTool, Recovery};
use super::word::Word;

/// What a sound job would do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Summary {
    /// The job's name.
    pub job: String,
    /// Its version.
    pub version: u32,
    /// Its steps, in order.
    pub steps: Vec<StepSummary>,
    /// Calls in all.
    pub items: usize,
    /// Its tools by name.
    pub tools: Vec<ToolSummary>,
}

/// A step in a few words.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct StepSummary {
    /// Its name.
    pub step: String,
    /// Its tool.
    pub tool: String,
    /// The file of its rows, if it has one.
    pub for_each: Option<String>,
    /// Calls that it makes.
    pub items: usize,
    /// Calls that may be under way at once.
    pub concurrency: u32,
    /// `stop` or `continue`.
    pub on_error: String,
}

/// A tool in a few words.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ToolSummary {
    /// Its name.
    pub tool: String,
    /// Its recovery class, as the job file writes it.
    pub recovery: String,
    /// The closure that its reconciler gives.
    pub closure: Option<String>,
    /// `never` or `always`.
    pub approval: String,
    /// What an interruption of a call means, in plain words.
    pub interruption: String,
}

/// Reads a job file and checks it with all it names. Runs nothing.
///
/// # Errors
/// Every mistake found; never empty.
pub fn check(path: &Path) -> Result<Summary, Vec<Problem>> {
    let loaded = load(path)?;
    if !loaded.unset.is_empty() {
        return Err(loaded.unset.into_values().collect());
    }
    Ok(summary(&loaded))
}

/// What a loaded job would do.
#[must_use]
pub fn summary(loaded: &Loaded) -> Summary {
    let job = &loaded.job;
    let steps: Vec<StepSummary> = job
        .steps
        .iter()
        .map(|step| StepSummary {
            step: step.name.clone(),
            tool: step.tool.clone(),
            for_each: step.for_each.as_ref().map(|source| source.path.clone()),
            items: match &step.for_each {
                Some(_) => loaded.rows.get(&step.name).map_or(0, Vec::len),
                None => 1,
            },
            concurrency: step.concurrency,
            on_error: step.on_error.word().to_owned(),
        })
        .collect();
    let tools = job.tools.iter().map(|(name, tool)| ToolSummary {
        tool: name.clone(),
        recovery: recovery(tool),
        closure: tool.closure.map(|closure| closure.word().to_owned()),
        approval: tool.approval.word().to_owned(),
        interruption: interruption(tool),
    });
    Summary {
        job: job.name.clone(),
        version: job.version,
        items: steps.iter().map(|step| step.items).sum(),
        steps,
        tools: tools.collect(),
    }
}

fn recovery(tool: &JobTool) -> String {
    match tool.recovery {
        Recovery::ReadOnly => "read_only".to_owned(),
        Recovery::Opaque => "opaque".to_owned(),
        Recovery::Reconcilable => "reconcilable".to_owned(),
        Recovery::Idempotent { window } => format!("idempotent for {}", duration::text(window)),
    }
}

fn interruption(tool: &JobTool) -> String {
    let asked = || {
        let command = tool.reconcile.as_deref().unwrap_or_default().join(" ");
        let again = match tool.closure {
            Some(closure) => format!(
                "\"never_will\" ({}) lets it run again under the same key",
                closure.word()
            ),
            None => "\"never_will\" counts as unknown, because no closure is declared".to_owned(),
        };
        format!(
            "{command} is asked whether it happened, up to {} times, then it is parked for a person; {again}",
            tool.asks.attempts
        )
    };
    match (tool.recovery, &tool.reconcile) {
        (Recovery::ReadOnly, _) => "it has no effect, so it runs again".to_owned(),
        (Recovery::Opaque, None) => {
            "nobody can tell whether it happened: it is parked for a person and never runs again by itself"
                .to_owned()
        }
        (Recovery::Opaque, Some(_)) => {
            "it is parked for a person and never runs again by itself; the reconciler is there for `intendant reconcile`"
                .to_owned()
        }
        (Recovery::Reconcilable, _) => asked(),
        (Recovery::Idempotent { window }, None) => format!(
            "it runs again under the same key within {} of the first attempt; after that it is parked for a person",
            duration::text(window)
        ),
        (Recovery::Idempotent { window }, Some(_)) => format!(
            "it runs again under the same key within {} of the first attempt; after that {}",
            duration::text(window),
            asked()
        ),
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "{} (version {}): {}",
            self.job,
            self.version,
            count(self.items, "call")
        )?;
        for step in &self.steps {
            write!(f, "step {}: tool {}, ", step.step, step.tool)?;
            match &step.for_each {
                Some(file) => writeln!(
                    f,
                    "{} of {file}, {} at a time, on error: {}",
                    count(step.items, "row"),
                    step.concurrency,
                    step.on_error
                )?,
                None => writeln!(f, "once, on error: {}", step.on_error)?,
            }
        }
        for tool in &self.tools {
            write!(f, "tool {}: {}", tool.tool, tool.recovery)?;
            if tool.approval == "always" {
                write!(f, ", each attempt needs a person's approval")?;
            }
            writeln!(f, "\n  if it is interrupted: {}", tool.interruption)?;
        }
        Ok(())
    }
}

fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::testing::JobFolder;

    #[test]
    fn the_summary_says_what_an_interruption_means() {
        let job = r#"
[job]
name = "mix"
version = 3
[tool.look]
input = { id = "string" }
run = ["./pay.sh"]
recovery = "read_only"
[tool.pay]
run = ["./pay.sh"]
reconcile = ["./pay.sh", "ask"]
recovery = "reconcilable"
closure = "abort_claim"
approval = "always"
[tool.guess]
run = ["./pay.sh"]
reconcile = ["./pay.sh", "ask"]
recovery = "reconcilable"
asks = 3
[tool.put]
run = ["./pay.sh"]
recovery = { idempotent = { window = "24h" } }
[tool.dark]
run = ["./pay.sh"]
[[step]]
name = "look"
tool = "look"
for_each = "r.csv"
args = { id = "{{ row.id }}" }
[[step]]
name = "pay"
tool = "pay"
on_error = "continue"
"#;
        let folder = JobFolder::new(&[("job.toml", job), ("r.csv", "id\na\nb\n")]);
        let summary = check(&folder.job()).unwrap();
        assert_eq!(summary.items, 3);
        assert_eq!(
            summary.to_string(),
            "mix (version 3): 3 calls
step look: tool look, 2 rows of r.csv, 8 at a time, on error: stop
step pay: tool pay, once, on error: continue
tool dark: opaque
  if it is interrupted: nobody can tell whether it happened: it is parked for a person and never runs again by itself
tool guess: reconcilable
  if it is interrupted: ./pay.sh ask is asked whether it happened, up to 3 times, then it is parked for a person; \"never_will\" counts as unknown, because no closure is declared
tool look: read_only
  if it is interrupted: it has no effect, so it runs again
tool pay: reconcilable, each attempt needs a person's approval
  if it is interrupted: ./pay.sh ask is asked whether it happened, up to 8 times, then it is parked for a person; \"never_will\" (abort_claim) lets it run again under the same key
tool put: idempotent for 24h
  if it is interrupted: it runs again under the same key within 24h of the first attempt; after that it is parked for a person
"
        );
        let unset = job.replace("version = 3", "env = [\"INTENDANT_TEST_NOT_SET\"]");
        folder.write("job.toml", &unset);
        assert_eq!(check(&folder.job()).unwrap_err().len(), 1);
    }
}
