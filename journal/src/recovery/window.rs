//! Reading a segment through a buffer that moves along, so that memory stays bounded.

use std::io;
use std::sync::Arc;

use crate::disk::{DiskFile, read_full_at};

/// Unit tests have small segments, in which the buffer is to move too.
const PIECE_BYTES: usize = if cfg!(test) { 16 * 1024 } else { 1024 * 1024 };

/// A buffer over part of a file.
#[derive(Debug)]
pub(super) struct Window {
    file: Arc<dyn DiskFile>,
    base: u64,
    bytes: Vec<u8>,
}

impl Window {
    pub(super) fn new(file: Arc<dyn DiskFile>) -> Self {
        Self {
            file,
            base: 0,
            bytes: Vec::new(),
        }
    }

    /// The bytes at an offset: fewer only if the file ends before. The caller bounds the length.
    pub(super) fn at(&mut self, offset: u64, length: usize) -> io::Result<&[u8]> {
        let inside =
            offset >= self.base && offset + length as u64 <= self.base + self.bytes.len() as u64;
        if !inside {
            self.bytes.resize(length.max(PIECE_BYTES), 0);
            let read = read_full_at(&*self.file, &mut self.bytes, offset)?;
            self.bytes.truncate(read);
            self.base = offset;
        }
        let from = usize::try_from(offset - self.base).unwrap_or(usize::MAX);
        let from = from.min(self.bytes.len());
        let to = (from + length).min(self.bytes.len());
        Ok(&self.bytes[from..to])
    }

    /// Forgets what was read, to read it again.
    pub(super) fn forget(&mut self) {
        self.bytes.clear();
    }

    /// Offset of the first byte that is not zero, from one offset to another or the file's end.
    pub(super) fn first_nonzero(&mut self, from: u64, to: u64) -> io::Result<Option<u64>> {
        let mut offset = from;
        while offset < to {
            let length = usize::try_from(to - offset).unwrap_or(PIECE_BYTES);
            let piece = self.at(offset, length.min(PIECE_BYTES))?;
            if piece.is_empty() {
                break;
            }
            if let Some(at) = position_of_nonzero(piece) {
                return Ok(Some(offset + at as u64));
            }
            offset += piece.len() as u64;
        }
        Ok(None)
    }
}

fn position_of_nonzero(bytes: &[u8]) -> Option<usize> {
    // Whole blocks first: comparing them is many times faster than byte by byte.
    const BLOCK: [u8; 512] = [0; 512];
    let mut at = 0;
    for block in bytes.chunks(BLOCK.len()) {
        if block != &BLOCK[..block.len()] {
            return block
                .iter()
                .position(|byte| *byte != 0)
                .map(|in_it| at + in_it);
        }
        at += block.len();
    }
    None
}
