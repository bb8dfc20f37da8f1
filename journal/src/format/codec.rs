//! Entries to bytes and back. The only place that knows bincode.
//!
//! bincode 2 with its standard configuration: little-endian, integers in variable length, enum
//! variants by number, fields by position. The golden files in `tests/golden` hold the bytes.

use super::entry::Entry;

/// Longest encoded entry, in bytes.
pub const MAX_BYTES: usize = 8 * 1024 * 1024;

/// bincode counts what it decodes by the size in memory, up to eight times the size on disk
/// (a number in one byte): whatever was encoded must stay below.
const DECODED_MAX_BYTES: usize = 8 * MAX_BYTES;

const CONFIG: bincode::config::Configuration<
    bincode::config::LittleEndian,
    bincode::config::Varint,
    bincode::config::Limit<DECODED_MAX_BYTES>,
> = bincode::config::standard().with_limit::<DECODED_MAX_BYTES>();

/// An entry that cannot be encoded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the entry cannot be encoded: {0}")]
pub struct NotEncoded(String);

/// Bytes whose checksum holds and that are no entry of this format version.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("an entry that cannot be decoded: {0}")]
pub struct NotDecoded(String);

/// Appends the bytes of an entry to the buffer.
///
/// # Errors
/// If the entry cannot be encoded or is longer than [`MAX_BYTES`]. Part of it may be in the buffer
/// then.
pub fn encode(entry: &Entry, buffer: &mut Vec<u8>) -> Result<(), NotEncoded> {
    let bytes = bincode::serde::encode_into_std_write(entry, buffer, CONFIG)
        .map_err(|error| NotEncoded(error.to_string()))?;
    if bytes > MAX_BYTES {
        return Err(NotEncoded(format!(
            "it takes {bytes} bytes, at most {MAX_BYTES} are possible; keep long payloads as blobs"
        )));
    }
    Ok(())
}

/// Reads an entry from exactly these bytes.
///
/// # Errors
/// If they are no entry, if there are more than [`MAX_BYTES`], or if bytes are left over.
pub fn decode(bytes: &[u8]) -> Result<Entry, NotDecoded> {
    if bytes.len() > MAX_BYTES {
        return Err(NotDecoded(format!("{} bytes are too many", bytes.len())));
    }
    let (entry, read) = bincode::serde::decode_from_slice(bytes, CONFIG)
        .map_err(|error| NotDecoded(error.to_string()))?;
    if read != bytes.len() {
        return Err(NotDecoded(format!(
            "{} bytes left over behind it",
            bytes.len() - read
        )));
    }
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::entry::{Body, Moment, ScopePath};

    fn entry() -> Entry {
        Entry {
            at: Moment {
                wall_ms: 1,
                boot_ms: 2,
            },
            run: Some("run".into()),
            body: Body::TimerFired(ScopePath("wait/0".into())),
        }
    }

    #[test]
    fn trailing_bytes_and_every_cut_are_refused() {
        let mut bytes = Vec::new();
        encode(&entry(), &mut bytes).unwrap();
        assert_eq!(decode(&bytes), Ok(entry()));
        for cut in 0..bytes.len() {
            assert!(decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        bytes.push(0);
        assert!(decode(&bytes).is_err());
    }

    #[test]
    fn what_can_be_encoded_can_be_decoded_and_longer_entries_are_refused() {
        use crate::format::entry::{ActionRef, OperatorNote, Payload, RetryRequested};
        let decodes = |body| {
            let mut bytes = Vec::new();
            let entry = Entry { body, ..entry() };
            encode(&entry, &mut bytes).map(|()| assert_eq!(decode(&bytes), Ok(entry)))
        };
        // Many small parts are what takes most room in memory for its size on disk.
        let action = ActionRef {
            path: ScopePath(String::new()),
            generation: 1,
        };
        let retry = |count| {
            Body::RetryRequested(RetryRequested {
                actions: vec![action.clone(); count],
                note: OperatorNote {
                    who: String::new(),
                    reason: String::new(),
                    request: String::new(),
                },
            })
        };
        assert_eq!(decodes(retry(MAX_BYTES / 2 - 100)), Ok(()));
        let end = |text| {
            Body::PassEnded(crate::format::entry::PassEnded {
                pass: 1,
                end: crate::format::entry::End::Completed(text),
            })
        };
        let text = |count| end(Payload::Json("7".repeat(count)));
        assert_eq!(decodes(text(MAX_BYTES - 100)), Ok(()));
        assert!(decodes(text(MAX_BYTES + 1)).is_err());
    }

    #[test]
    fn a_length_beyond_the_bytes_is_refused() {
        // Moment, Some(run), then a length of 2^40 where the run's name should be.
        let mut bytes = vec![2, 2, 1, 253];
        bytes.extend_from_slice(&(1u64 << 40).to_le_bytes());
        assert!(decode(&bytes).is_err());
    }
}
