//! One simulated file: what is durable, what everybody sees, and the changes in between.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::content::{Content, PAGE_BYTES, pages_of};
use super::fate::Fate;

/// A change of a file that no sync has covered.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// Bytes were written.
    Write { offset: u64, bytes: Arc<[u8]> },
    /// The length changed: by [`super::DiskFile::set_len`], or by a write behind the end. A length
    /// is durable apart from the bytes.
    Len(u64),
}

/// Invariant: applying all of `unsynced` and all of `abandoned` to `durable` gives `seen`.
#[derive(Clone, Debug, Default)]
pub(super) struct File {
    durable: Content,
    seen: Content,
    unsynced: Vec<Change>,
    /// Pages under a sync that failed. The system holds them for clean: no later sync writes them,
    /// until they are written to again; on disk is their old content, or part of the new.
    abandoned: BTreeSet<usize>,
}

impl File {
    /// A file that has this content, durably.
    pub(super) fn holding(bytes: &[u8]) -> Self {
        let mut content = Content::default();
        for (page, at) in bytes.chunks(PAGE_BYTES).zip((0..).step_by(PAGE_BYTES)) {
            // Pages of zeros need no memory.
            if page.iter().any(|byte| *byte != 0) {
                content.patch(page, at);
            }
        }
        content.show_up_to(bytes.len() as u64);
        Self::durable(content)
    }

    fn durable(content: Content) -> Self {
        Self {
            durable: content.clone(),
            seen: content,
            unsynced: Vec::new(),
            abandoned: BTreeSet::new(),
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.seen.len()
    }

    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        self.seen.read(buffer, offset)
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        self.seen.patch(bytes, offset);
        self.unsynced.push(Change::Write {
            offset,
            bytes: bytes.into(),
        });
        let end = offset + bytes.len() as u64;
        if end > self.seen.len() {
            self.seen.show_up_to(end);
            self.unsynced.push(Change::Len(end));
        }
    }

    pub(super) fn set_len(&mut self, len: u64) {
        self.seen.set_len(len);
        self.unsynced.push(Change::Len(len));
    }

    pub(super) fn sync(&mut self) {
        for change in std::mem::take(&mut self.unsynced) {
            if let Change::Write { offset, bytes } = change {
                for page in pages_of(offset, bytes.len()) {
                    self.abandoned.remove(&page);
                }
            }
        }
        let old = std::mem::replace(&mut self.durable, self.seen.clone());
        for page in &self.abandoned {
            self.durable.take_page(&old, *page);
        }
    }

    /// A sync that failed. Lengths stay open.
    pub(super) fn abandon(&mut self) {
        for change in std::mem::take(&mut self.unsynced) {
            match change {
                Change::Write { offset, bytes } => {
                    self.abandoned.extend(pages_of(offset, bytes.len()));
                }
                Change::Len(_) => self.unsynced.push(change),
            }
        }
    }

    /// Changes a bit of what is durable and of what is seen.
    pub(super) fn flip(&mut self, offset: u64, bit: u8) {
        for content in [&mut self.durable, &mut self.seen] {
            let mut byte = [0];
            if content.read(&mut byte, offset) == 1 {
                content.patch(&[byte[0] ^ (1 << bit)], offset);
            }
        }
    }

    /// What a power cut decides about: one word for each change, and its size in bytes.
    pub(super) fn open_changes(&self) -> Vec<(String, usize)> {
        let unsynced = self.unsynced.iter().map(|change| match change {
            Change::Write { offset, bytes } => {
                (format!("{} bytes at {offset}", bytes.len()), bytes.len())
            }
            Change::Len(len) => (format!("length {len}"), 0),
        });
        let abandoned = self.abandoned.iter().map(|page| {
            let offset = page * PAGE_BYTES;
            (format!("abandoned page at {offset}"), PAGE_BYTES)
        });
        unsynced.chain(abandoned).collect()
    }

    /// The file after a power cut; takes one fate for each of [`File::open_changes`].
    pub(super) fn cut(&self, fates: &mut impl FnMut() -> Fate) -> Self {
        let mut content = self.durable.clone();
        for change in &self.unsynced {
            let fate = fates();
            match change {
                Change::Write { offset, bytes } => {
                    for kept in fate.kept(*offset, bytes.len()) {
                        content.patch(&bytes[kept.clone()], offset + kept.start as u64);
                    }
                }
                // A lower length takes what is behind it; a higher one shows what has come there.
                Change::Len(len) if fate.keeps() && *len < content.len() => content.set_len(*len),
                Change::Len(len) if fate.keeps() => content.show_up_to(*len),
                Change::Len(_) => {}
            }
        }
        for page in &self.abandoned {
            let offset = (page * PAGE_BYTES) as u64;
            let bytes = self.seen.page(*page);
            for kept in fates().kept(offset, PAGE_BYTES) {
                content.patch(&bytes[kept.clone()], offset + kept.start as u64);
            }
        }
        // Bytes that came to lie behind the length are not in the file.
        let len = content.len();
        content.set_len(len);
        Self::durable(content)
    }
}
