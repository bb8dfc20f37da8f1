//! From the bytes of a folder to a log that can be trusted again.
//!
//! Order: `layout` lists and checks the files, `scan` reads them and judges where reading ends
//! ([`table`]; threads of `ahead` may read before it, and judge nothing), and only if all of that
//! found no damage does `repair` change anything.
//!
//! Invariants:
//! - On damage no byte is changed.
//! - What was read is made durable again before anybody acts on it: a killed process tells nobody
//!   that its last sync had not happened, or had failed.
//! - Every step can be cut anywhere and done again.

mod ahead;
mod evidence;
mod layout;
mod repair;
mod scan;
mod step;
pub mod table;
mod testimony;
mod window;

pub(crate) use ahead::Backlog;
pub(crate) use layout::{Found, Layout, io as io_error, missing, read_layout};
pub(crate) use repair::{Repaired, discard_spares, repair};
pub(crate) use scan::{Begin, Patience, Readers, Scan, ScanStart, Witness, scan, scan_gist};
pub(crate) use step::Seen;
pub(crate) use testimony::{Testimony, testimony};
