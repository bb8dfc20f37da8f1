//! The files of the log, `journal/%016d.seg`: their names, and making them ready ahead of use.
//!
//! Invariants:
//! - A file bears its final name only when it is zero-filled to its full size, has its header, and
//!   is synced; it is used only after its folder is synced too. So an append changes no metadata.
//! - Segments are used in the order of their numbers, without gaps.

mod maker;
mod name;
mod supply;

pub(crate) use name::SegmentName;
pub(crate) use supply::{Refusal, Spare, Supply, SupplyStart};
