//! How commands reach a live engine: JSON lines over a socket in its folder.
//!
//! One line asks, one line answers. Only the same user (or root) is heard; who asks is what the
//! kernel says of the peer, never what the line says.

mod client;
mod path;
mod protocol;
mod server;

pub(crate) use client::{Client, Lost};
pub(crate) use protocol::Ask;
pub(crate) use server::Server;
