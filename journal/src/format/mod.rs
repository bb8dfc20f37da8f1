//! What is on disk, one file a structure; `FORMAT.md` has the bytes.

pub mod batch;
pub mod canonical;
pub mod chain;
pub mod codec;
pub mod entry;
pub mod frame;
pub mod mark;
pub mod named_blobs;
pub mod segment;
