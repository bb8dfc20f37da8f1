//! Job files: durable jobs for people who write no Rust.
//!
//! What is read from a job file, its schemas and its rows is checked as a whole before anything
//! runs, and every mistake is told with its place and its remedy.

pub mod arguments;
mod declaration;
mod document;
mod draft;
pub mod duration;
mod file;
mod nearest;
pub mod problem;
pub mod rows;
pub mod schema;
mod script;
pub mod step;
pub mod template;
pub mod tool;
pub mod word;

pub use file::{Job, Loaded, load};
pub use problem::Problem;
