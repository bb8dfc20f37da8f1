//! `FORMAT.md` is complete and true: a reader written from it alone, which takes the types of entries
//! from its text and calls nothing of the crate's, reads what the crate writes; and its example is
//! what the crate writes.
#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod agreement;
mod example;
mod reader;
mod schema;

/// The document.
const FORMAT: &str = include_str!("../../FORMAT.md");
