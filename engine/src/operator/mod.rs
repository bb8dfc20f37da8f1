//! What operators see and do: the same on a live engine (through its socket) and on a stopped
//! journal.

pub mod command;
pub mod direct;
pub mod history;
pub mod plan;
pub mod report;
pub mod view;
