//! What a checkpoint says: the lines of its note's text.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::format::entry::{Digest, JournalId, Sequence};
use crate::identity::parse_id;

const ORIGIN: &str = "intendant/journal/";
const TIME: &str = "time ";

/// That a journal's log had this chain value behind this entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checkpoint {
    /// The journal.
    pub journal: JournalId,
    /// The entry; everything up to it was durable.
    pub sequence: Sequence,
    /// Value of the hash chain behind it.
    pub chain: Digest,
    /// When it was made, by the clock of the machine: milliseconds since 1970.
    pub wall_ms: i64,
}

/// Why a note's text is not a checkpoint of a journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line} of its text is not that of a checkpoint: expected {expected}")]
pub struct BadCheckpoint {
    /// From 1.
    pub line: usize,
    /// What should be there.
    pub expected: &'static str,
}

/// As the text of a note.
impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{ORIGIN}{}", self.journal)?;
        writeln!(f, "{}", self.sequence)?;
        writeln!(f, "{}", STANDARD.encode(self.chain.0))?;
        writeln!(f, "{TIME}{}", self.wall_ms)
    }
}

impl Checkpoint {
    /// Reads a note's text. Further lines, as a later program may add, are let be; none is empty.
    ///
    /// # Errors
    /// [`BadCheckpoint`]: the first line that does not fit.
    pub fn parse(text: &str) -> Result<Self, BadCheckpoint> {
        let bad = |line, expected| BadCheckpoint { line, expected };
        let mut lines = text.split_terminator('\n');
        let mut line = || lines.next().unwrap_or_default();
        let journal = line().strip_prefix(ORIGIN).and_then(parse_id);
        let journal = journal.ok_or(bad(1, "intendant/journal/ and 32 hex digits"))?;
        let sequence = canonical::<u64>(line()).ok_or(bad(2, "a sequence"))?;
        let chain = STANDARD.decode(line()).ok();
        let chain = chain.and_then(|bytes| bytes.try_into().ok());
        let chain = chain.ok_or(bad(3, "a hash of 32 bytes in base64"))?;
        let wall_ms = line().strip_prefix(TIME).and_then(canonical::<i64>);
        let wall_ms = wall_ms.ok_or(bad(4, "time and milliseconds since 1970"))?;
        if let Some(at) = lines.position(str::is_empty) {
            return Err(bad(5 + at, "no empty line"));
        }
        Ok(Self {
            journal,
            sequence: Sequence(sequence),
            chain: Digest(chain),
            wall_ms,
        })
    }
}

/// A number as it is written, in one way only.
fn canonical<T: std::str::FromStr + ToString>(text: &str) -> Option<T> {
    text.parse()
        .ok()
        .filter(|number: &T| number.to_string() == text)
}
