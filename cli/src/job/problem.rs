//! One mistake in a job file, a schema or a source of rows: where it is, what is wrong, what to do.

use std::path::PathBuf;

use serde::Serialize;

/// One mistake. Shown as `job.toml:12: tool "pay": unknown field "reconcille"; did you mean
/// "reconcile"?`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct Problem {
    /// The file as the user named it, or as the job file names it.
    pub file: PathBuf,
    /// Line, from 1; 0 if the problem is the file as a whole.
    pub line: u64,
    /// Column in characters, from 1; 0 if the problem is the line as a whole.
    pub column: u64,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub remedy: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if self.line > 0 {
            write!(f, "{}:", self.line)?;
        }
        write!(f, " {}; {}", self.message, self.remedy)
    }
}

impl std::error::Error for Problem {}

/// Line and column, both from 1, of a byte offset in a text.
pub(super) fn place(text: &str, offset: usize) -> (u64, u64) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() as u64 + 1;
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    (line, before[start..].chars().count() as u64 + 1)
}
