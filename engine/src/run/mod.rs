//! What is known of a run: the pure fold of its entries.

pub mod state;
pub mod trace;
