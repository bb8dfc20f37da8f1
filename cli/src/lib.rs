//! What the `intendant` program is made of, as a library so that tests reach it.
#![deny(missing_docs)]

pub mod bench;
pub mod job;
