//! The real program, killed and started again. One scenario a file.
#![allow(clippy::unwrap_used)]

mod fail_points;
mod failing_sync;
mod graceful;
mod late_request;
mod payouts_kill;
mod payouts_opaque;
mod system_calls;
mod trial_b01_b02_b07;
mod trial_b13;
mod trial_b16;
mod trial_b17;
mod trial_b55;
mod trial_b56;

/// The tool and reconciler of jobs that talk to the stub.
const CLIENT: &str = env!("CARGO_BIN_EXE_stub-client");
