//! The bytes of a simulated file, in pages that clones share.

use std::sync::Arc;

/// Size of a page: what the system writes back as one.
pub(super) const PAGE_BYTES: usize = 4096;

type Page = [u8; PAGE_BYTES];

/// Bytes and a length. Bytes behind the length read as nothing; holes read as zeros.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    /// `None` is a page of zeros.
    pages: Vec<Option<Arc<Page>>>,
    len: u64,
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Reads up to the length; returns how much.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let there = self.len.saturating_sub(offset);
        let wanted = usize::try_from(there)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        for (page, inside, range) in pieces(offset, wanted) {
            let to = &mut buffer[range.clone()];
            match self.pages.get(page).and_then(Option::as_ref) {
                Some(page) => to.copy_from_slice(&page[inside..inside + range.len()]),
                None => to.fill(0),
            }
        }
        wanted
    }

    /// Changes bytes; the length stays what it is. What lies behind it is kept, to be seen if the
    /// length is raised.
    pub(super) fn patch(&mut self, bytes: &[u8], offset: u64) {
        for (number, inside, range) in pieces(offset, bytes.len()) {
            let from = &bytes[range];
            if self.pages.len() <= number {
                self.pages.resize(number + 1, None);
            }
            let page = self.pages[number].get_or_insert_with(|| Arc::new([0; PAGE_BYTES]));
            Arc::make_mut(page)[inside..inside + from.len()].copy_from_slice(from);
        }
    }

    /// Sets the length. What is behind a lower one is gone.
    pub(super) fn set_len(&mut self, len: u64) {
        self.len = len;
        let whole = usize::try_from(len).unwrap_or(usize::MAX) / PAGE_BYTES;
        let inside = usize::try_from(len).unwrap_or(usize::MAX) % PAGE_BYTES;
        if self.pages.len() > whole {
            if inside == 0 {
                self.pages.truncate(whole);
            } else {
                self.pages.truncate(whole + 1);
                if let Some(page) = &mut self.pages[whole] {
                    Arc::make_mut(page)[inside..].fill(0);
                }
            }
        }
    }

    /// Takes over a page as another content has it; the length stays what it is.
    pub(super) fn take_page(&mut self, other: &Self, number: usize) {
        if self.pages.len() <= number {
            self.pages.resize(number + 1, None);
        }
        self.pages[number] = other.pages.get(number).cloned().flatten();
    }

    /// The bytes of a page, whatever the length.
    pub(super) fn page(&self, number: usize) -> Page {
        match self.pages.get(number).and_then(Option::as_ref) {
            Some(page) => **page,
            None => [0; PAGE_BYTES],
        }
    }

    /// Sets the length without touching bytes: what an earlier patch put behind it comes to light.
    pub(super) fn show_up_to(&mut self, len: u64) {
        self.len = len;
    }
}

/// Numbers of the pages that a range touches.
pub(super) fn pages_of(offset: u64, bytes: usize) -> std::ops::Range<usize> {
    let first = usize::try_from(offset).unwrap_or(usize::MAX) / PAGE_BYTES;
    let end = usize::try_from(offset).unwrap_or(usize::MAX) + bytes;
    first..end.div_ceil(PAGE_BYTES)
}

/// The parts of a range by page: page, offset inside it, and which part of the range.
fn pieces(
    offset: u64,
    bytes: usize,
) -> impl Iterator<Item = (usize, usize, std::ops::Range<usize>)> {
    let start = usize::try_from(offset).expect("simulated files fit in memory");
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == bytes {
            return None;
        }
        let at = start + done;
        let inside = at % PAGE_BYTES;
        let length = (PAGE_BYTES - inside).min(bytes - done);
        let range = done..done + length;
        done += length;
        Some((at / PAGE_BYTES, inside, range))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(content: &Content) -> Vec<u8> {
        let mut bytes = vec![7; usize::try_from(content.len()).unwrap()];
        assert_eq!(content.read(&mut bytes, 0), bytes.len());
        bytes
    }

    #[test]
    fn bytes_length_and_holes() {
        let mut content = Content::default();
        content.patch(&[1; 10], 4090);
        assert_eq!(content.len(), 0, "bytes and length are apart");
        content.show_up_to(5000);
        let mut expected = vec![0; 5000];
        expected[4090..4100].fill(1);
        assert_eq!(all(&content), expected);
        let copy = content.clone();
        content.set_len(4095);
        content.set_len(5000);
        expected[4095..].fill(0);
        assert_eq!(all(&content), expected, "cut bytes do not come back");
        assert_eq!(all(&copy)[4099], 1, "clones are apart");
        assert_eq!(content.read(&mut [0; 10], 4995), 5);
        assert_eq!(content.read(&mut [0; 10], 5001), 0);
    }
}
