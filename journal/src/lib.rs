//! The write-ahead intent journal of Intendant.
#![deny(missing_docs)]

pub mod blobs;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod disk;
pub mod error;
pub mod face;
pub mod format;
#[cfg(feature = "conformance")]
pub mod memory;
pub mod projection;
