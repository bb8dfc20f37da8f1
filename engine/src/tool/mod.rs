//! What a tool is: its contract, how it is called, how it may end, and how to ask whether its
//! effect happened.

pub mod call;
pub mod contract;
pub mod error;
pub mod json;
pub mod reconciler;
pub mod typed;
