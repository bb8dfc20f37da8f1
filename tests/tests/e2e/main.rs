//! The real program, killed and started again. One scenario a file.
#![allow(clippy::unwrap_used)]

mod payouts_kill;
mod payouts_opaque;
