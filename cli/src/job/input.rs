//! What the journal fixes of a job at first sight: its definition, its rows, and the values of the
//! environment names it may read. A later start adds to it and never changes what is known.

use std::collections::BTreeMap;

use intendant_journal::format::canonical::{self, CanonicalError};
use intendant_journal::format::entry::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::difference::{Conflict, differences, new_rows, row_conflicts};
use super::file::{Job, Loaded};
use super::problem::Problem;
use super::rows::Row;

/// Tells the digest of a job's definition from all others.
const DOMAIN: &str = "intendant.job.definition.v1";

/// The input of a job's run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobInput {
    /// The job's definition.
    pub job: Job,
    /// Rows by step.
    pub rows: BTreeMap<String, Vec<Row>>,
    /// Values of the allowed environment names.
    pub env: BTreeMap<String, String>,
}

/// Why a recorded input cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "the recorded job cannot be read by this program: {why}; use the program that recorded it, or a newer one"
)]
pub struct InputError {
    why: String,
}

/// Why a job cannot go on with what its file says now. Nothing was changed.
#[derive(Clone, PartialEq, Debug)]
pub enum Refusal {
    /// The job changed while its run is open, and its version was not raised.
    Changed(Vec<String>),
    /// The version is lower than the recorded one.
    Lowered {
        /// Recorded.
        old: u32,
        /// Of the file now.
        new: u32,
    },
    /// Known keys with other arguments.
    Conflicts(Vec<Conflict>),
    /// Allowed environment names that are neither set nor recorded.
    Unset(Vec<Problem>),
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Changed(changes) => {
                writeln!(f, "the job changed while its run is open:")?;
                for change in changes {
                    writeln!(f, "  {change}")?;
                }
                write!(
                    f,
                    "raise version in [job] to go on with the change, or take it back"
                )
            }
            Self::Lowered { old, new } => write!(
                f,
                "the job's version went back from {old} to {new}; use the newer job file, or raise version above {old}"
            ),
            Self::Conflicts(conflicts) => lines(f, conflicts),
            Self::Unset(problems) => lines(f, problems),
        }
    }
}

fn lines<T: std::fmt::Display>(f: &mut std::fmt::Formatter<'_>, all: &[T]) -> std::fmt::Result {
    for (index, line) in all.iter().enumerate() {
        if index > 0 {
            writeln!(f)?;
        }
        write!(f, "{line}")?;
    }
    Ok(())
}

impl JobInput {
    /// The input of a job that is started for the first time.
    ///
    /// # Errors
    /// Allowed environment names that are not set.
    pub fn first(loaded: Loaded) -> Result<Self, Vec<Problem>> {
        if !loaded.unset.is_empty() {
            return Err(loaded.unset.into_values().collect());
        }
        Ok(Self {
            job: loaded.job,
            rows: loaded.rows,
            env: loaded.env,
        })
    }

    /// The input with which a recorded job goes on: what is known stays as it is, rows with new
    /// keys are added after those known, and the definition is that of the file now. Equal to
    /// `self` if there is nothing new.
    ///
    /// `open` says that the run has not ended.
    ///
    /// # Errors
    /// [`Refusal`], if the file contradicts what is recorded.
    pub fn go_on(&self, loaded: Loaded, open: bool) -> Result<Self, Refusal> {
        let Loaded {
            job,
            rows,
            mut env,
            unset,
        } = loaded;
        let (old, new) = (self.job.version, job.version);
        if new < old {
            return Err(Refusal::Lowered { old, new });
        }
        let changes = differences(&self.job, &job);
        if open && new == old && !changes.is_empty() {
            return Err(Refusal::Changed(changes));
        }
        let unknown: Vec<Problem> = unset
            .into_iter()
            .filter(|(name, _)| !self.env.contains_key(name))
            .map(|(_, problem)| problem)
            .collect();
        if !unknown.is_empty() {
            return Err(Refusal::Unset(unknown));
        }
        env.extend(self.env.clone());
        let new = Self { job, rows, env };
        let conflicts = row_conflicts(self, &new);
        if !conflicts.is_empty() {
            return Err(Refusal::Conflicts(conflicts));
        }
        let mut rows = self.rows.clone();
        for (step, added) in new_rows(self, &new) {
            rows.entry(step).or_default().extend(added);
        }
        Ok(Self { rows, ..new })
    }

    /// As JSON, for the journal.
    #[must_use]
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("the input holds text, numbers and JSON only")
    }

    /// From the journal's JSON.
    ///
    /// # Errors
    /// [`InputError`] for what this program does not understand.
    pub fn from_value(value: Value) -> Result<Self, InputError> {
        serde_json::from_value(value).map_err(|error| InputError {
            why: error.to_string(),
        })
    }

    /// Digest of the definition: everything but rows and values.
    ///
    /// # Errors
    /// [`CanonicalError`] if the job is nested deeper than any job file can be written.
    pub fn definition_digest(&self) -> Result<Digest, CanonicalError> {
        let value = serde_json::to_value(&self.job)
            .expect("the definition holds text, numbers and JSON only");
        Ok(canonical::digest(DOMAIN, &canonical::to_text(&value)?))
    }
}
