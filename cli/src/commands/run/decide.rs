//! What to do with a job's run: begin it, go on with it, begin a new pass of it, or nothing.

use intendant::run::state::RunState;
use intendant_journal::format::entry::ScopePath;

use crate::exit::{Exit, Failure};
use crate::job::input::Refusal;
use crate::job::plan::Plan;
use crate::job::recorded::WORKFLOW;
use crate::job::{JobInput, Loaded};

/// What to do.
#[derive(Debug)]
pub(super) enum Course {
    /// The current pass goes on as recorded.
    Resume,
    /// A pass begins: the first one, or a new one over what is known.
    Start(Box<JobInput>),
    /// It has ended and there is nothing new.
    Done,
}

/// Decides by what is recorded and what the job file says now.
pub(super) fn decide(
    state: Option<&RunState>,
    recorded: Option<&JobInput>,
    loaded: Loaded,
) -> Result<Course, Failure> {
    let Some(state) = state else {
        let input = JobInput::first(loaded).map_err(Failure::problems)?;
        return Ok(Course::Start(Box::new(input)));
    };
    let recorded = recorded.ok_or_else(|| foreign(state))?;
    let open = state.end.is_none();
    let next = recorded.go_on(loaded, open).map_err(refused)?;
    let raised = next.job.version > state.pass.version;
    let start = if open {
        raised
    } else {
        count(&next) > count(recorded)
            || state.has_renewed()
            || (raised && lacks_actions(&next, state)?)
    };
    Ok(match (start, open) {
        (true, _) => Course::Start(Box::new(next)),
        (false, true) => Course::Resume,
        (false, false) => Course::Done,
    })
}

fn count(input: &JobInput) -> usize {
    input.rows.values().map(Vec::len).sum()
}

/// True if the job has items that no action was made of.
fn lacks_actions(input: &JobInput, state: &RunState) -> Result<bool, Failure> {
    let plan = Plan::new(input, &state.run)
        .map_err(|why| Failure::usage(why.to_string(), "correct the job file"))?;
    let mut items = plan.steps().iter().flat_map(|step| &step.items);
    Ok(items.any(|item| state.action(&ScopePath(item.path.clone())).is_none()))
}

fn foreign(state: &RunState) -> Failure {
    let (message, remedy) = if state.pass.workflow == WORKFLOW {
        (
            format!(
                "the job recorded for run {} cannot be read by this program",
                state.run
            ),
            "use the program that recorded it, or a newer one",
        )
    } else {
        (
            format!(
                "run {} is one of workflow {:?}, not of a job file",
                state.run, state.pass.workflow
            ),
            "use another run id with --run-id",
        )
    };
    Failure::new(Exit::Usage, "conflict", message, remedy)
}

fn refused(refusal: Refusal) -> Failure {
    let text = refusal.to_string();
    match refusal {
        Refusal::Unset(problems) => Failure::problems(problems),
        Refusal::Changed(changes) => Failure::new(
            Exit::Diverged,
            "job_changed",
            format!(
                "the job changed while its run is open:\n  {}",
                changes.join("\n  ")
            ),
            "raise version in [job] to go on with the change, or take it back",
        ),
        Refusal::Lowered { .. } => Failure::new(
            Exit::Diverged,
            "version_lowered",
            text,
            "nothing was started",
        ),
        Refusal::Conflicts(_) => {
            Failure::new(Exit::Diverged, "row_conflict", text, "nothing was started")
        }
    }
}
