//! A job as a course of steps and items, without the engine: which calls there are, what they are
//! called, what their arguments are, and when the next one may begin. Pure: the same input and the
//! same outputs always give the same calls.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::arguments::{ArgumentError, Arguments};
use super::input::JobInput;
use super::rows::Source;
use super::step::{OnError, Step};
use super::template::{Output, Shared};

/// A job ready to be walked.
#[derive(Clone, Debug)]
pub struct Plan {
    steps: Vec<PlannedStep>,
    shared: Shared,
}

/// A step with its items in file order.
#[derive(Clone, Debug)]
pub struct PlannedStep {
    /// The step as declared.
    pub step: Step,
    /// Its items; exactly one for a step without `for_each`.
    pub items: Vec<Item>,
    arguments: Arguments,
}

/// One call that a step makes.
#[derive(Clone, PartialEq, Debug)]
pub struct Item {
    /// Its place in the run: the step's name, and the key for a row.
    pub path: String,
    /// The row's key, for a step with `for_each`.
    pub key: Option<String>,
    /// The row's line.
    pub line: Option<u64>,
    row: Option<Value>,
}

/// Why a job cannot be walked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PlanError {
    /// A step's tool is not declared.
    #[error("step \"{step}\" calls the tool \"{tool}\", which the job does not declare")]
    NoTool {
        /// The step.
        step: String,
        /// The tool.
        tool: String,
    },
    /// A template cannot be read.
    #[error("step \"{step}\": {error}")]
    Template {
        /// The step.
        step: String,
        /// Which one.
        error: ArgumentError,
    },
}

/// Why an item's arguments cannot be made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unready {
    /// They need the output of a call that ended without one. The item is left out.
    #[error("step \"{step}\" gave no output for it")]
    NoOutput {
        /// The step whose output is missing.
        step: String,
    },
    /// A template failed on the values it met.
    #[error(transparent)]
    Argument(#[from] ArgumentError),
}

impl Plan {
    /// The plan of a recorded input under a run id.
    ///
    /// # Errors
    /// [`PlanError`], only for an input that no checked job file makes.
    pub fn new(input: &JobInput, run: &str) -> Result<Self, PlanError> {
        let mut steps = Vec::new();
        for step in &input.job.steps {
            let tool = input
                .job
                .tools
                .get(&step.tool)
                .ok_or_else(|| PlanError::NoTool {
                    step: step.name.clone(),
                    tool: step.tool.clone(),
                })?;
            let cells = step.for_each.as_ref().is_some_and(Source::cells);
            let arguments =
                Arguments::compile(&step.args, &tool.input, cells).map_err(|error| {
                    PlanError::Template {
                        step: step.name.clone(),
                        error,
                    }
                })?;
            let items = match &step.for_each {
                None => vec![Item {
                    path: step.name.clone(),
                    key: None,
                    line: None,
                    row: None,
                }],
                Some(_) => {
                    let rows = input.rows.get(&step.name).into_iter().flatten();
                    rows.map(|row| Item {
                        path: path(&step.name, &row.key),
                        key: Some(row.key.clone()),
                        line: Some(row.line),
                        row: Some(row.value.clone()),
                    })
                    .collect()
                }
            };
            steps.push(PlannedStep {
                step: step.clone(),
                items,
                arguments,
            });
        }
        Ok(Self {
            steps,
            shared: Shared::new(run, &input.env),
        })
    }

    /// The steps, in order.
    #[must_use]
    pub fn steps(&self) -> &[PlannedStep] {
        &self.steps
    }

    /// What the items of a step may read, once all items of the steps before it have ended.
    /// Made once a step, so that the outputs of a large step are not gathered for each item.
    ///
    /// # Panics
    /// If there is no step at `index`.
    #[must_use]
    pub fn begin<'a>(&'a self, index: usize, outputs: &'a Outputs) -> Beginning<'a> {
        let planned = &self.steps[index];
        let mut whole = BTreeMap::new();
        let mut by_key = Vec::new();
        for name in &planned.arguments.variables().steps {
            let Some(other) = self.steps[..index].iter().find(|s| s.step.name == *name) else {
                continue;
            };
            let known = outputs.by_path.get(name);
            let output = |item: &Item| known.and_then(|known| known.get(&item.path)).cloned();
            match (&planned.step.for_each, &other.step.for_each) {
                (Some(ours), Some(theirs)) if ours.path == theirs.path => {
                    by_key.push(name.clone());
                }
                (_, Some(_)) => {
                    let all = other.items.iter().filter_map(output);
                    whole.insert(name.clone(), Some(Output::list(all)));
                }
                (_, None) => {
                    let output = other.items.first().and_then(output);
                    whole.insert(name.clone(), output);
                }
            }
        }
        Beginning {
            planned,
            shared: &self.shared,
            outputs,
            whole,
            by_key,
        }
    }
}

/// Outputs of the calls that succeeded.
#[derive(Clone, Default)]
pub struct Outputs {
    by_path: HashMap<String, HashMap<String, Output>>,
}

impl Outputs {
    /// Notes the output of an item.
    pub fn note(&mut self, step: &PlannedStep, item: &Item, output: &Value) {
        self.by_path
            .entry(step.step.name.clone())
            .or_default()
            .insert(item.path.clone(), Output::from(output));
    }
}

/// A step whose items can be called now.
pub struct Beginning<'a> {
    planned: &'a PlannedStep,
    shared: &'a Shared,
    outputs: &'a Outputs,
    /// Outputs that are the same for all items; `None` where a call ended without one.
    whole: BTreeMap<String, Option<Output>>,
    /// Steps over the same rows, read by the item's own key.
    by_key: Vec<String>,
}

impl Beginning<'_> {
    /// The arguments of an item of this step.
    ///
    /// # Errors
    /// [`Unready`], before anything was called.
    pub fn arguments(&self, item: &Item) -> Result<Value, Unready> {
        let mut outputs = Vec::new();
        for (name, output) in &self.whole {
            let output = output
                .clone()
                .ok_or_else(|| Unready::NoOutput { step: name.clone() })?;
            outputs.push((name.clone(), output));
        }
        for name in &self.by_key {
            let key = item.key.as_deref().unwrap_or_default();
            let known = self.outputs.by_path.get(name);
            let output = known.and_then(|known| known.get(&path(name, key)));
            let output = output
                .cloned()
                .ok_or_else(|| Unready::NoOutput { step: name.clone() })?;
            outputs.push((name.clone(), output));
        }
        let context = self.shared.context(item.row.as_ref(), outputs);
        Ok(self.planned.arguments.render(&context)?)
    }
}

/// How a call ended. A call in doubt or parked has not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// With a usable output.
    Done,
    /// The effect did not happen and will not.
    Failed,
    /// By policy or an approver.
    Denied,
    /// A person gave it up.
    GivenUp,
    /// It succeeded, and its output cannot be used.
    OutputUnusable,
    /// It was not called, because a call it builds on gave no output. Counted where that call was.
    LeftOut,
}

impl Ended {
    /// True if `on_error` counts it.
    #[must_use]
    pub fn is_error(self) -> bool {
        !matches!(self, Self::Done | Self::LeftOut)
    }
}

/// How a step is getting on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Course {
    on_error: OnError,
    items: usize,
    ended: usize,
    errors: usize,
}

impl Course {
    /// A step none of whose items has begun.
    #[must_use]
    pub fn new(step: &PlannedStep) -> Self {
        Self {
            on_error: step.step.on_error,
            items: step.items.len(),
            ended: 0,
            errors: 0,
        }
    }

    /// Notes that an item ended.
    ///
    /// # Panics
    /// If more items end than there are.
    pub fn ended(&mut self, how: Ended) {
        assert!(self.ended < self.items, "an item ends once");
        self.ended += 1;
        self.errors += usize::from(how.is_error());
    }

    /// Whether further items of this step may begin.
    #[must_use]
    pub fn may_begin(&self) -> bool {
        self.errors == 0 || self.on_error == OnError::Continue
    }

    /// Items that ended in a way that `on_error` counts.
    #[must_use]
    pub fn errors(&self) -> usize {
        self.errors
    }

    /// Whether the next step may begin: every item has ended, and none in a way that stops.
    #[must_use]
    pub fn next_step(&self) -> bool {
        self.ended == self.items && self.may_begin()
    }
}

/// An item's place in the run: step and key. In the key, characters that mean something in paths
/// and those that cannot be seen are percent-encoded.
#[must_use]
pub fn path(step: &str, key: &str) -> String {
    use std::fmt::Write;
    let mut path = format!("{step}/");
    let mut buffer = [0; 4];
    for character in key.chars() {
        if matches!(character, '/' | '#' | '~' | '%')
            || character.is_whitespace()
            || character.is_control()
        {
            for byte in character.encode_utf8(&mut buffer).bytes() {
                write!(path, "%{byte:02X}").expect("writing to a string cannot fail");
            }
        } else {
            path.push(character);
        }
    }
    path
}

/// The key in an item's path, if it is one.
#[must_use]
pub fn key(path: &str) -> Option<String> {
    let (_, encoded) = path.split_once('/')?;
    let mut bytes = Vec::new();
    let mut rest = encoded.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests;
