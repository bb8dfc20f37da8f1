//! What is on disk, one file a structure; `FORMAT.md` has the bytes.

pub mod canonical;
pub mod entry;
