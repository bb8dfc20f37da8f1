//! The write-ahead intent journal of Intendant.
#![deny(missing_docs)]

pub mod disk;
pub mod error;
pub mod face;
pub mod format;
pub mod recovery;
pub mod segments;
pub mod writer;
