//! The write-ahead intent journal of Intendant.
#![deny(missing_docs)]

mod blobs;
mod clocks;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod disk;
pub mod error;
pub mod face;
pub mod format;
mod identity;
mod journal;
pub mod lock;
#[cfg(feature = "conformance")]
pub mod memory;
mod projection;
pub mod recovery;
pub mod scan;
mod segments;
mod writer;

pub use journal::{Journal, Options, Recovered};
pub use writer::Follower;
