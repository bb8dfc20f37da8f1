//! Intendant: a durable workflow engine that knows what happened to an action that was cut.
#![deny(missing_docs)]

pub mod operator;
pub mod tool;
