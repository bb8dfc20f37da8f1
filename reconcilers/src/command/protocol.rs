//! What engine and guard say to each other, over a pair of sockets.
//!
//! The engine says one thing, the [`Order`], and then nothing more: from then on its end being open
//! is the message. The guard answers with [`Report`]s. Each message is a length (4 bytes, little
//! end first) and that many bytes of JSON.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Raised when a message changes. A guard refuses an order of another version: the program on disk
/// may have been replaced while the engine ran.
pub(crate) const PROTOCOL: u32 = 1;

/// Longest message. Far above any order (arguments are bounded by the engine); it keeps a broken
/// length from becoming an allocation.
const MESSAGE_BYTES_MAX: usize = 256 * 1024 * 1024;

/// What the guard shall run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    /// [`PROTOCOL`] of the engine.
    pub(crate) protocol: u32,
    /// Program and arguments.
    pub(crate) argv: Vec<String>,
    /// The folder to run in, as the system's own bytes (a path need not be text).
    pub(crate) cwd: Vec<u8>,
    /// Environment beside the inherited one.
    pub(crate) env: BTreeMap<String, String>,
    /// What the command reads on standard input.
    pub(crate) stdin: String,
    /// The lock file of the attempt.
    pub(crate) lock: Vec<u8>,
}

/// What the guard has to say.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// Somebody holds the attempt's lock: something of the attempt lives, or recovery has taken it
    /// over. Nothing was started here.
    LockHeld,
    /// Certainly nothing was started: the command cannot be run, or not even tried.
    NotStarted {
        /// Why.
        why: String,
    },
    /// The command runs.
    Started {
        /// Its process id.
        pid: i32,
    },
    /// The command ended by itself, and nothing that it started is left.
    Ended(Ended),
}

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Ended {
    /// With an exit code.
    Exited(i32),
    /// By a signal.
    Signalled(i32),
}

/// A message as it goes over the wire.
pub(crate) fn encode(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message)?;
    let length = bytes.len() - 4;
    if length > MESSAGE_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("a message of {length} bytes is longer than {MESSAGE_BYTES_MAX}"),
        ));
    }
    let prefix = u32::try_from(length).map_err(io::Error::other)?;
    bytes[..4].copy_from_slice(&prefix.to_le_bytes());
    Ok(bytes)
}

/// Takes the first whole message off the front of `bytes`; `None` until there is one.
pub(crate) fn take<T: DeserializeOwned>(bytes: &mut Vec<u8>) -> io::Result<Option<T>> {
    let Some((prefix, rest)) = bytes.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let length = checked_length(*prefix)?;
    let Some(body) = rest.get(..length) else {
        return Ok(None);
    };
    let message = serde_json::from_slice(body)?;
    bytes.drain(..4 + length);
    Ok(Some(message))
}

/// Reads one message, waiting for it. An end before it is whole is an error.
pub(crate) fn read<T: DeserializeOwned>(mut from: impl Read) -> io::Result<T> {
    let mut prefix = [0; 4];
    from.read_exact(&mut prefix)?;
    let length = checked_length(prefix)?;
    let mut body = Vec::new();
    from.take(length as u64).read_to_end(&mut body)?;
    if body.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&body)?)
}

/// Writes one message.
pub(crate) fn write(mut to: impl Write, message: &impl Serialize) -> io::Result<()> {
    to.write_all(&encode(message)?)
}

fn checked_length(prefix: [u8; 4]) -> io::Result<usize> {
    let length = u32::from_le_bytes(prefix) as usize;
    if length > MESSAGE_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a message claims {length} bytes, more than {MESSAGE_BYTES_MAX}"),
        ));
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Order {
        Order {
            protocol: PROTOCOL,
            argv: vec!["sh".into(), "-c".into(), "true".into()],
            cwd: b"/tmp/\xff".to_vec(),
            env: BTreeMap::from([("A".into(), "b=c".into())]),
            stdin: "{\"é\":1}".into(),
            lock: b"/x".to_vec(),
        }
    }

    #[test]
    fn an_order_survives_the_wire_and_half_of_it_is_no_order() {
        let bytes = encode(&order()).unwrap();
        assert_eq!(read::<Order>(bytes.as_slice()).unwrap(), order());
        for cut in 0..bytes.len() {
            let error = read::<Order>(&bytes[..cut]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "cut at {cut}");
        }
    }

    #[test]
    fn reports_are_taken_one_by_one_as_they_become_whole() {
        let reports = [
            Report::Started { pid: 7 },
            Report::Ended(Ended::Signalled(9)),
        ];
        let wire: Vec<u8> = reports.iter().flat_map(|r| encode(r).unwrap()).collect();
        let mut buffer = Vec::new();
        let mut seen: Vec<Report> = Vec::new();
        for byte in wire {
            buffer.push(byte);
            seen.extend(take::<Report>(&mut buffer).unwrap());
        }
        assert_eq!(seen, reports);
        assert!(buffer.is_empty());
    }

    #[test]
    fn a_length_that_cannot_be_is_refused_before_it_is_allocated() {
        let mut bytes = u32::MAX.to_le_bytes().to_vec();
        assert!(take::<Report>(&mut bytes).is_err());
        assert!(read::<Report>(bytes.as_slice()).is_err());
    }
}
