//! Checkpoints: signed statements that the log had this chain value at this sequence. A copy kept
//! elsewhere proves a later truncation or change, whoever made it without the key.
//!
//! A checkpoint is a C2SP signed note (<https://c2sp.org/signed-note>) signed with Ed25519; its body
//! has the lines of a C2SP checkpoint (<https://c2sp.org/tlog-checkpoint>), with the value of the
//! hash chain in the place of a Merkle root.
//!
//! Invariants:
//! - Only what is durable is signed, so a checkpoint never names more than the log held.
//! - A checkpoint is written off the path of appends, and that it cannot be written never stops
//!   recording: it is told instead.
//! - Text is believed only once a signature over it holds by a key that the reader was given.
//! - The secret half of a key is in the key's file and in memory, never in a message.

pub mod audit;
mod checkpoint;
mod folder;
mod key;
pub mod key_file;
mod notary;
mod note;
#[cfg(test)]
mod tests;

pub use checkpoint::{BadCheckpoint, Checkpoint};
pub(crate) use folder::Testimony;
pub use key::{BadKey, Signer, Verifier};
pub use notary::{CheckpointError, Written};
pub(crate) use notary::{Head, Notary, NotaryStart};
pub use note::{BadNote, Note, Standing};

/// Name of the folder of checkpoints in the journal's folder.
pub(crate) const CHECKPOINTS: &str = "checkpoints";
