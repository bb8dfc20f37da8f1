//! The asking side.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use intendant::operator::command::Refusal;
use serde::de::DeserializeOwned;

use super::protocol::{Answer, Ask, LINE_BYTES_MAX};

/// A connection to a live engine.
pub(crate) struct Client {
    stream: BufReader<UnixStream>,
}

/// Why no answer came. What was asked may or may not have been done: ask again with the same
/// request id.
#[derive(Debug, thiserror::Error)]
#[error("the engine did not answer: {0}")]
pub(crate) struct Lost(String);

impl Client {
    /// Connects.
    pub(crate) fn connect(socket: &Path) -> std::io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask<T: DeserializeOwned>(
        &mut self,
        ask: &Ask,
    ) -> Result<Result<T, Refusal>, Lost> {
        let lost = |why: &dyn std::fmt::Display| Lost(why.to_string());
        let mut line = serde_json::to_vec(ask).map_err(|why| lost(&why))?;
        line.push(b'\n');
        self.stream
            .get_mut()
            .write_all(&line)
            .map_err(|why| lost(&why))?;
        let mut answer = Vec::new();
        self.stream
            .by_ref()
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut answer)
            .map_err(|why| lost(&why))?;
        if answer.last() != Some(&b'\n') {
            return Err(Lost("the connection ended".to_owned()));
        }
        match serde_json::from_slice(&answer).map_err(|why| lost(&why))? {
            Answer::Ok(value) => serde_json::from_value(value)
                .map(Ok)
                .map_err(|why| lost(&why)),
            Answer::Refused(refusal) => Ok(Err(refusal)),
        }
    }
}
