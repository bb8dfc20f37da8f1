//! A piece of a run's history as bytes: for each entry its sequence, epoch and length
//! (little-endian), then the bytes of the entry's codec.

use crate::format::codec;
use crate::format::entry::{Epoch, Recorded, Sequence};

use super::value::Parts;

/// Appends an entry to a chunk.
pub(super) fn push(chunk: &mut Vec<u8>, recorded: &Recorded) -> Result<(), String> {
    chunk.extend_from_slice(&recorded.sequence.0.to_le_bytes());
    chunk.extend_from_slice(&recorded.epoch.0.to_le_bytes());
    let length_at = chunk.len();
    chunk.extend_from_slice(&[0; 4]);
    codec::encode(&recorded.entry, chunk).map_err(|error| error.to_string())?;
    let length = u32::try_from(chunk.len() - length_at - 4)
        .map_err(|_| "an entry longer than 4 GiB".to_owned())?;
    chunk[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

/// Reads the entries of a chunk behind those already in `history`. They must go on in order and
/// belong to the run.
pub(super) fn decode(run: &str, bytes: &[u8], history: &mut Vec<Recorded>) -> Result<(), String> {
    let mut parts = Parts(bytes);
    while !parts.is_empty() {
        let sequence = Sequence(parts.u64()?);
        let epoch = Epoch(parts.u32()?);
        let length = parts.u32()?;
        let length = usize::try_from(length).map_err(|error| error.to_string())?;
        let entry = codec::decode(parts.bytes(length)?).map_err(|error| error.to_string())?;
        if entry.run.as_deref() != Some(run) {
            return Err(format!(
                "entry {sequence} is of the run {:?}, it lies in the history of {run:?}",
                entry.run
            ));
        }
        if history.last().is_some_and(|last| last.sequence >= sequence) {
            return Err(format!("entry {sequence} is out of order"));
        }
        history.push(Recorded {
            sequence,
            epoch,
            entry,
        });
    }
    Ok(())
}
