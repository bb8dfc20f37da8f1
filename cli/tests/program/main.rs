//! The program from outside: every command on a live engine and on a stopped journal, its exit
//! codes and its JSON.

#![allow(clippy::unwrap_used)]

mod approvals;
mod bad_input;
mod bench;
mod checkpoints;
mod doubt;
mod going_on;
mod live;
mod pending;
mod stopped;
mod world;
