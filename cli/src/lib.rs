//! What the `intendant` program is made of, as a library so that tests reach it.
//!
//! | folder or file | holds |
//! |---|---|
//! | `job/` | job files: reading, checking, walking |
//! | `commands/` | one file a command |
//! | `socket/` | how commands reach a live engine |
//! | `reach` | live engine or stopped journal: the commands need not know |
//! | `still` | a journal read without lock, projection or writes |
//! | `open` | opening a journal |
//! | `keys`, `checkpoint` | the signing key and the keys that are believed; checkpoints on demand |
//! | `bench/` | measuring against the raw limit of the same disk |
//! | `exit` | exit codes and errors as people and programs get them |
#![deny(missing_docs)]

pub mod bench;
mod checkpoint;
mod commands;
mod exit;
pub mod job;
mod keys;
mod open;
mod print;
mod reach;
mod socket;
mod still;
mod who;

/// The program: reads the command line, runs the command, says how it ended.
#[must_use]
pub fn main() -> std::process::ExitCode {
    commands::main()
}
