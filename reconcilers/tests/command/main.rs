//! Commands under a guard process, with real processes.
#![allow(clippy::unwrap_used, reason = "all of it is test code")]

mod outcomes;
mod place;
mod questions;
mod supervision;
mod takeover;
