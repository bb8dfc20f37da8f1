//! Gathering what a command writes, within bounds, to the end.
//!
//! A command is never made to wait because it wrote too much: beyond the bound its bytes are still
//! read, and only what identifies them is kept.

use intendant::tool::contract::OUTPUT_BYTES_MAX;
use sha2::{Digest, Sha256};

/// How much of standard error is kept: the last 64 KiB.
pub(crate) const LOG_BYTES_MAX: usize = 64 * 1024;

/// What was gathered of standard output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Gathered {
    /// All of it.
    Whole(Vec<u8>),
    /// It was longer than [`OUTPUT_BYTES_MAX`].
    TooLong {
        /// SHA-256 of all of it.
        sha256: [u8; 32],
        /// Its length in bytes.
        bytes: u64,
    },
}

/// Standard output on its way.
#[derive(Default)]
pub(crate) struct Output {
    kept: Vec<u8>,
    beyond: Option<(Sha256, u64)>,
}

impl Output {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        match &mut self.beyond {
            Some((hash, length)) => {
                hash.update(bytes);
                *length += bytes.len() as u64;
            }
            None => {
                self.kept.extend_from_slice(bytes);
                if self.kept.len() > OUTPUT_BYTES_MAX {
                    let whole = std::mem::take(&mut self.kept);
                    let mut hash = Sha256::new();
                    hash.update(&whole);
                    self.beyond = Some((hash, whole.len() as u64));
                }
            }
        }
    }

    pub(crate) fn finish(self) -> Gathered {
        match self.beyond {
            None => Gathered::Whole(self.kept),
            Some((hash, bytes)) => Gathered::TooLong {
                sha256: hash.finalize().into(),
                bytes,
            },
        }
    }
}

/// The end of standard error.
#[derive(Default)]
pub(crate) struct Log {
    kept: Vec<u8>,
}

impl Log {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
        // Cut only at twice the bound, so that a byte is moved once on average and not at each
        // push.
        if self.kept.len() > 2 * LOG_BYTES_MAX {
            self.cut();
        }
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.cut();
        self.kept
    }

    fn cut(&mut self) {
        let excess = self.kept.len().saturating_sub(LOG_BYTES_MAX);
        self.kept.drain(..excess);
    }
}

/// The last line of a log that says something, for a message of one line.
pub(crate) fn last_line(log: &[u8]) -> Option<String> {
    const CHARS_MAX: usize = 300;
    let text = String::from_utf8_lossy(log);
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(
        line.chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .take(CHARS_MAX)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_whole_up_to_the_bound_and_hashed_beyond() {
        let mut at = Output::default();
        at.push(&vec![b'x'; OUTPUT_BYTES_MAX]);
        assert_eq!(at.finish(), Gathered::Whole(vec![b'x'; OUTPUT_BYTES_MAX]));

        let mut beyond = Output::default();
        let all: Vec<u8> = (0..OUTPUT_BYTES_MAX + 70_001).map(|i| i as u8).collect();
        for chunk in all.chunks(65_536) {
            beyond.push(chunk);
        }
        assert_eq!(
            beyond.finish(),
            Gathered::TooLong {
                sha256: Sha256::digest(&all).into(),
                bytes: all.len() as u64,
            }
        );
    }

    #[test]
    fn of_a_log_the_end_is_kept() {
        let all: Vec<u8> = (0..5 * LOG_BYTES_MAX + 17).map(|i| (i / 7) as u8).collect();
        let mut log = Log::default();
        for chunk in all.chunks(1000) {
            log.push(chunk);
            assert!(log.kept.len() <= 2 * LOG_BYTES_MAX);
        }
        assert_eq!(log.finish(), all[all.len() - LOG_BYTES_MAX..]);

        let mut short = Log::default();
        short.push(b"one line\n");
        assert_eq!(short.finish(), b"one line\n");
    }

    #[test]
    fn the_last_line_is_the_last_that_says_something() {
        assert_eq!(
            last_line(b"first\nbank says no\n\n  \n").unwrap(),
            "bank says no"
        );
        assert_eq!(last_line(b"\n \n"), None);
        assert_eq!(last_line(b"a\x1b[31mb\xff").unwrap(), "a [31mb\u{fffd}");
        assert_eq!(last_line(&[b'z'; 1000]).unwrap().len(), 300);
    }
}
