//! Who does the work that goes on beside the callers: writing what was handed over, making segments
//! ready, projecting.

/// Who does it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Drive {
    /// Threads of the journal's own.
    #[default]
    Threads,
    /// Whoever waits for it, on the waiting thread, so that the same calls always do the same in
    /// the same order. For simulations.
    #[cfg_attr(not(any(test, feature = "simulated")), expect(dead_code))]
    Caller,
}
