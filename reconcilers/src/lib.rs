//! Ready tools with their reconcilers, one folder a target.
#![deny(missing_docs)]

pub mod command;
