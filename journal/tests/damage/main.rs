//! Damage: whatever is changed in the folder of a journal, the next opening either has everything
//! that was acknowledged, or stops with an error that says where, what is lost and what to do, or (at
//! a torn end alone) cuts and says so. Never a panic, never silence, and where it stops no byte is
//! changed. `verify` says the same from outside.
//!
//! Whole journals are damaged on a disk in memory, a case at a time; [`oracle`] judges each. By
//! default stretches in which every byte is alike (zeros, long texts) are sampled;
//! `INTENDANT_WHOLE=1` takes every byte.
#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod absent;
mod beside;
mod bytes;
mod canary;
mod lengths;
mod live;
mod oracle;
mod sectors;
mod segments;
mod specimen;
