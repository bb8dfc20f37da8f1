//! The envelope of every stored value: a CRC-32 over its place and its bytes, then the bytes.
//!
//! redb gives back whatever lies on the disk. With the place (table and key) under the checksum, a
//! value that is whole but stands under a wrong key is found too.

/// Wraps the bytes of a value. `place` is its table and key.
pub(super) fn seal(place: &[&[u8]], bytes: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::with_capacity(4 + bytes.len());
    sealed.extend_from_slice(&checksum(place, bytes).to_le_bytes());
    sealed.extend_from_slice(bytes);
    sealed
}

/// The bytes of a value, if its checksum holds.
pub(super) fn unseal<'a>(place: &[&[u8]], sealed: &'a [u8]) -> Result<&'a [u8], String> {
    let (stored, bytes) = sealed.split_first_chunk().ok_or_else(|| {
        format!(
            "a value of {} bytes, too short for a checksum",
            sealed.len()
        )
    })?;
    let stored = u32::from_le_bytes(*stored);
    let found = checksum(place, bytes);
    if stored == found {
        Ok(bytes)
    } else {
        Err(format!(
            "a value of {} bytes has the checksum {found:08x}, it should be {stored:08x}",
            sealed.len()
        ))
    }
}

fn checksum(place: &[&[u8]], bytes: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    for part in place {
        crc.update(&(part.len() as u64).to_le_bytes());
        crc.update(part);
    }
    crc.update(bytes);
    crc.finalize()
}

/// Takes a stored value apart from its beginning; every step is an error once the bytes run out.
pub(super) struct Parts<'a>(pub(super) &'a [u8]);

impl<'a> Parts<'a> {
    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or_else(|| format!("{count} bytes should follow, there are {}", self.0.len()))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn array<const COUNT: usize>(&mut self) -> Result<[u8; COUNT], String> {
        let (taken, rest) = self
            .0
            .split_first_chunk()
            .ok_or_else(|| format!("{COUNT} bytes should follow, there are {}", self.0.len()))?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, String> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, String> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_bit_and_every_cut_is_found() {
        let place: [&[u8]; 2] = [b"runs", b"r"];
        let sealed = seal(&place, b"some value");
        assert_eq!(unseal(&place, &sealed), Ok(&b"some value"[..]));
        for bit in 0..sealed.len() * 8 {
            let mut changed = sealed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(unseal(&place, &changed).is_err(), "bit {bit}");
        }
        for cut in 0..sealed.len() {
            assert!(unseal(&place, &sealed[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn a_value_under_a_wrong_key_is_found() {
        let sealed = seal(&[b"runs", b"ab", b"c"], b"x");
        assert!(unseal(&[b"runs", b"a", b"bc"], &sealed).is_err());
        assert!(unseal(&[b"history", b"ab", b"c"], &sealed).is_err());
    }
}
