//! Job files: durable jobs for people who write no Rust.
//!
//! What is read from a job file, its schemas and its rows is checked as a whole before anything
//! runs, and every mistake is told with its place and its remedy.

pub mod arguments;
mod check;
mod declaration;
mod difference;
mod document;
mod draft;
pub mod duration;
mod file;
pub mod input;
mod nearest;
pub mod plan;
pub mod problem;
pub mod recorded;
pub mod rows;
pub mod schema;
mod script;
pub mod step;
pub mod template;
#[cfg(test)]
mod testing;
pub mod tool;
pub mod tools;
pub mod word;
pub mod workflow;

pub use check::{StepSummary, Summary, ToolSummary, check, summary};
pub use difference::{Conflict, differences, new_rows, row_conflicts};
pub use file::{Job, Loaded, load};
pub use input::JobInput;
pub use problem::Problem;
