//! The kernel: the only code that can mint a permit or reach a tool. The trusted base.
//!
//! The path of an action: [`Kernel::freeze`] makes a private copy of what was proposed,
//! [`Kernel::authorize`] asks policy about that copy and mints a [`Permit`] last,
//! [`Kernel::commit`] makes the intent durable, consuming the permit, and gives back
//! [`Armed`], which alone opens the door ([`Kernel::open`]).
//!
//! Invariants:
//! - A [`Permit`] and an [`Armed`] are neither `Clone` nor constructible outside this folder; both
//!   are moved on use. So order and single use are checked by the compiler.
//! - A tool's implementation is reachable only through the private table in [`tools`], and its
//!   `call` takes a [`Call`](crate::tool::call::Call), which only the door makes.
//! - An error of policy is a denial.
//! - No effect starts once the journal is disabled.

mod commit;
mod door;
mod permit;
pub mod policy;
mod proposal;
pub(crate) mod tools;

use std::sync::Arc;

use intendant_journal::face::IntentLog;

pub use commit::Commit;
pub(crate) use door::{Contained, Exit, ExitEnd, Unusable, panic_text};
pub use permit::{Armed, Permit};
pub(crate) use proposal::{Acting, action_digest};
pub use proposal::{Frozen, Refused};

use policy::Policy;
use tools::Tools;

/// The kernel of one engine.
pub struct Kernel {
    log: Arc<dyn IntentLog>,
    tools: Tools,
    policy: Arc<dyn Policy>,
}

impl Kernel {
    /// A kernel over a journal, the declared tools and a policy.
    pub(crate) fn new(log: Arc<dyn IntentLog>, tools: Tools, policy: Arc<dyn Policy>) -> Self {
        Self { log, tools, policy }
    }
}
