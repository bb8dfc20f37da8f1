//! What a tool is called with. Only the kernel's door makes one (promise P5).

use std::ops::Deref;

use super::json::AttemptContext;

/// One authorized attempt, as its tool sees it: action id, idempotency key, attempt, epoch, run and
/// deadline, through [`AttemptContext`].
///
/// It cannot be made outside the kernel, so a tool cannot be called without a permit.
#[derive(Debug)]
pub struct Call {
    attempt: AttemptContext,
}

impl Call {
    /// For the door alone.
    pub(crate) fn new(attempt: AttemptContext) -> Self {
        Self { attempt }
    }
}

impl Deref for Call {
    type Target = AttemptContext;

    fn deref(&self) -> &AttemptContext {
        &self.attempt
    }
}
