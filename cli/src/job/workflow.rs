//! The workflow that walks a job: its steps in order, the items of a step side by side.
//!
//! Everything it does follows from the recorded input and from the outcomes in their recorded
//! order, so a replay does the same.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use intendant::workflow::{CallError, Scope, Workflow};
use serde::Serialize;
use serde_json::Value;

use super::input::JobInput;
use super::plan::{Course, Ended, Outputs, Plan, PlannedStep, Unready};

/// Items that did not succeed and are named in a run's error; the others are counted.
const NAMED_MAX: usize = 5;

/// What a walked job did, by step.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Walked {
    /// The steps that were begun, in order.
    pub steps: Vec<WalkedStep>,
}

/// What a step did.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct WalkedStep {
    /// Its name.
    pub step: String,
    /// Its items.
    pub items: usize,
    /// Those that succeeded.
    pub done: usize,
    /// Those left out, because a call that they build on gave no output.
    pub left_out: usize,
}

/// Walks a job. The error names what did not succeed.
///
/// # Errors
/// A text for people, if any item failed, was denied, given up or has an unusable output.
pub async fn walk(mut root: Workflow, input: JobInput) -> Result<Walked, String> {
    let plan = Plan::new(&input, root.run_id()).map_err(|why| why.to_string())?;
    let mut outputs = Outputs::default();
    let mut walked = Vec::new();
    let mut total = 0;
    let mut bad = Bad::default();
    for (index, planned) in plan.steps().iter().enumerate() {
        let stage = Arc::new(Stage::new(planned));
        let scope = root.scope(&planned.step.name);
        let results = {
            let beginning = plan.begin(index, &outputs);
            let call = |scope: Scope, item: usize| {
                let arguments = stage
                    .may_begin()
                    .then(|| beginning.arguments(&planned.items[item]));
                call(scope, stage.clone(), planned.step.tool.clone(), arguments)
            };
            match planned.step.for_each {
                None => vec![call(scope, 0).await],
                Some(_) => {
                    let items: Vec<(String, usize)> = planned
                        .items
                        .iter()
                        .enumerate()
                        .map(|(index, item)| (item.key.clone().unwrap_or_default(), index))
                        .collect();
                    let limit = usize::try_from(planned.step.concurrency).unwrap_or(usize::MAX);
                    scope.each(limit, items, call).await
                }
            }
        };
        let mut step = WalkedStep {
            step: planned.step.name.clone(),
            items: planned.items.len(),
            ..WalkedStep::default()
        };
        for (item, result) in planned.items.iter().zip(results) {
            match result {
                Called::Done(output) => {
                    step.done += 1;
                    outputs.note(planned, item, &output);
                }
                Called::LeftOut => step.left_out += 1,
                Called::NotBegun => bad.not_begun += 1,
                Called::Not(why) => bad.note(&item.path, &why),
            }
        }
        total += planned.items.len();
        walked.push(step);
        if !stage.course().next_step() && !stage.course().may_begin() {
            break;
        }
    }
    match bad.words(total) {
        None => Ok(Walked { steps: walked }),
        Some(words) => Err(words),
    }
}

/// What became of an item.
enum Called {
    /// It succeeded.
    Done(Value),
    /// A call it builds on gave no output.
    LeftOut,
    /// An error stopped the step, or the run was asked to end, before it began.
    NotBegun,
    /// It did not succeed.
    Not(String),
}

/// What the items of a step share.
struct Stage {
    course: Mutex<Course>,
    cancelled: Mutex<bool>,
}

impl Stage {
    fn new(planned: &PlannedStep) -> Self {
        Self {
            course: Mutex::new(Course::new(planned)),
            cancelled: Mutex::new(false),
        }
    }

    fn course(&self) -> MutexGuard<'_, Course> {
        self.course.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cancelled(&self) -> MutexGuard<'_, bool> {
        self.cancelled
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn may_begin(&self) -> bool {
        self.course().may_begin() && !*self.cancelled()
    }
}

/// One item: `None` for arguments if it is not to begin.
async fn call(
    scope: Scope,
    stage: Arc<Stage>,
    tool: String,
    arguments: Option<Result<Value, Unready>>,
) -> Called {
    let (how, called) = match arguments {
        None => return Called::NotBegun,
        Some(Err(Unready::NoOutput { .. })) => (Ended::LeftOut, Called::LeftOut),
        Some(Err(why)) => (Ended::Failed, Called::Not(why.to_string())),
        Some(Ok(arguments)) => match scope.call_here_once(&tool, &arguments).await {
            Ok(output) => (Ended::Done, Called::Done(output)),
            Err(CallError::Cancelled(_)) => {
                *stage.cancelled() = true;
                return Called::NotBegun;
            }
            Err(error) => (ended(&error), Called::Not(error.to_string())),
        },
    };
    stage.course().ended(how);
    called
}

fn ended(error: &CallError) -> Ended {
    match error {
        CallError::Denied { .. } => Ended::Denied,
        CallError::GivenUp(_) => Ended::GivenUp,
        CallError::Unusable(_) => Ended::OutputUnusable,
        _ => Ended::Failed,
    }
}

/// What did not succeed.
#[derive(Default)]
struct Bad {
    named: Vec<String>,
    count: usize,
    not_begun: usize,
}

impl Bad {
    fn note(&mut self, path: &str, why: &str) {
        self.count += 1;
        if self.named.len() < NAMED_MAX {
            self.named.push(format!("{path} {why}"));
        }
    }

    fn words(&self, total: usize) -> Option<String> {
        if self.count == 0 && self.not_begun == 0 {
            return None;
        }
        let mut words = format!("{} of {total} item(s) did not succeed", self.count);
        if self.not_begun > 0 {
            words.push_str(&format!(", {} not begun", self.not_begun));
        }
        if !self.named.is_empty() {
            words.push_str(": ");
            words.push_str(&self.named.join("; "));
        }
        if self.count > self.named.len() {
            words.push_str(&format!("; and {} more", self.count - self.named.len()));
        }
        Some(words)
    }
}
