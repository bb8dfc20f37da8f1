//! End-to-end tests of Intendant: the real program is started as a child process, killed with
//! SIGKILL, started again, and judged by what its tools did.
//!
//! | module | holds |
//! |---|---|
//! | `program` | the program under test: building it once, starting, killing, awaiting it |
//! | `scene` | the folder of one test; kept and named when the test fails |
//! | `payouts` | a copy of `examples/payouts` with variations |
//! | `ledger` | the oracle: reads what the tools did and says what is wrong with it |
//! | `log_file` | the journal's files as a saboteur sees them |
//! | `marks` | what the tools began and ended, by their own account |
//! | `campaign` | killing at seeded moments until the work is done |
//! | `stub` | a target on the network that counts, holds back, drops and refuses |
//! | `stub_job` | job files whose tool talks to that target |
//! | `moments` | seeded choices |
//!
//! Rules: the engine's own counters are never the oracle. A campaign that did not kill where it
//! meant to, or in which nothing happened, fails. Nothing is asserted about time; deadlines only
//! keep a hanging program from hanging the suite. A failure prints the seed and the kept folder.
//!
//! Environment: `INTENDANT_SEED` replaces the seed of all campaigns; `INTENDANT_WHOLE=1` runs those
//! whole that are sampled by default.
#![allow(clippy::unwrap_used)]

pub mod calls;
pub mod campaign;
pub mod ledger;
pub mod log_file;
pub mod marks;
pub mod moments;
pub mod payouts;
pub mod program;
pub mod scene;
pub mod stub;
pub mod stub_job;
