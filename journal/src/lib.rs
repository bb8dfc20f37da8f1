//! The write-ahead intent journal of Intendant.
//!
//! A journal is a folder. Its segmented log is the authority: every fact (an intent, an outcome, an
//! answer) is an entry in it, durable before anybody acts on it. The projection, in redb, is derived
//! from the log, answers questions, and can be thrown away. `FORMAT.md` has the bytes.
//!
//! ```no_run
//! use intendant_journal::face::{Batch, IntentLog};
//! use intendant_journal::format::entry::{Body, Entry, Moment, NotedEntry, ScopePath};
//! use intendant_journal::Journal;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let journal = Journal::open_or_create("data")?; // recovers first
//! let entry = Entry {
//!     at: Moment::default(),
//!     run: Some("run-1".into()),
//!     body: Body::Noted(NotedEntry {
//!         path: ScopePath("now/0".into()),
//!         what: "now".into(),
//!         value: "1764000000123".into(),
//!     }),
//! };
//! let batch = Batch { entries: vec![entry], starts_effects: false };
//! let recorded = journal.append(batch).await?; // resolves once it is durable
//! assert_eq!(journal.history("run-1")?[0].sequence, recorded.first);
//! # Ok(())
//! # }
//! ```
//!
//! Where to look:
//! - [`face`]: all that an engine may know of a journal. [`Journal`] is the embedded one.
//! - `disk`: every file is reached through it, with a named place at each change.
//! - `format`: what is on disk, one file a structure.
//! - `segments`, `writer`: making files ready ahead; one thread, one write, one sync for whoever
//!   waits.
//! - `recovery`: reading back, the decision table of a torn end and damage, making durable what
//!   was read. [`mod@scan`]: reading from outside, without lock or change.
//! - [`checkpoints`]: signed statements of the log's end; [`checkpoints::audit`] checks them.
//! - `projection`, `blobs`: the runs and their histories; long payloads.
//! - `simulated` (cargo feature of that name): a journal without threads, clocks or chance, on a disk
//!   in memory that forgets what was not synced.
//!
//! What holds:
//! - Nobody is told that a batch is recorded before it is durable on disk.
//! - What was refused never turns up later; what is unsettled says so.
//! - A torn end is cut and reported. Damage stops the opening, and then no byte is changed.
//! - A failed sync is never tried again: it disables the journal until it is opened anew.
#![deny(missing_docs)]

mod blobs;
pub mod checkpoints;
mod clocks;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod disk;
mod drive;
pub mod error;
pub mod face;
pub mod format;
mod identity;
mod journal;
pub mod lock;
#[cfg(feature = "conformance")]
pub mod memory;
#[cfg(feature = "mutants")]
pub mod mutants;
#[cfg(not(feature = "mutants"))]
mod mutants;
mod opening;
mod projection;
pub mod recovery;
pub mod scan;
mod segments;
#[cfg(any(test, feature = "simulated"))]
pub mod simulated;
mod surroundings;
mod witnesses;
mod writer;

pub use journal::{Journal, Options, Recovered};
pub use writer::Follower;
