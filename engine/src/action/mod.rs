//! The life of an action: pure, no I/O and no clock of its own.
//!
//! Production, simulation, model checking and replay all run [`life`]; identity is in [`id`] and
//! [`key`].

pub mod doubt;
pub mod id;
pub mod key;
pub mod life;
