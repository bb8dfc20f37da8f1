//! The write-ahead intent journal of Intendant.
#![deny(missing_docs)]

pub mod error;
pub mod face;
pub mod format;
