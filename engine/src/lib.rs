//! Intendant: a durable workflow engine that knows what happened to an action that was cut.
#![deny(missing_docs)]

pub mod action;
pub mod clock;
pub mod engine;
pub mod kernel;
pub mod operator;
pub mod payload;
pub mod prelude;
pub mod run;
pub mod tool;
pub mod workflow;
