//! Intendant: a durable workflow engine that knows what happened to an action that was cut.
#![deny(missing_docs)]

pub mod action;
pub mod kernel;
pub mod operator;
pub mod run;
pub mod tool;
