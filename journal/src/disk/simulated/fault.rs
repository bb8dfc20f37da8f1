//! Errors that a simulated disk is told to return.

use std::io;

/// What happens to one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It fails and changes nothing; after a failed sync, what it should have covered is as good as
    /// lost.
    Error(io::ErrorKind),
    /// A write takes only half of its bytes, and every later write finds the disk full until
    /// [`super::SimulatedDisk::set_quota`] is called. Other calls fail with `StorageFull`.
    Short,
}

/// Which calls are counted for faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Calls {
    /// Those that change the disk; [`super::Operation::number`] counts them.
    Changes,
    /// Opening, reading, listing, asking for lengths and kinds.
    Reads,
}

/// Which call meets a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Planned {
    pub(super) calls: Calls,
    pub(super) number: u64,
    pub(super) fault: Fault,
}
