//! What a power cut makes of one change that was not durable.

use std::fmt;

/// Size of a sector: what a disk writes as one, if it is a good one.
pub const SECTOR_BYTES: usize = 512;

/// What becomes of a change.
///
/// Names and lengths are kept or lost; of written bytes any part may be kept. For a name or a
/// length everything but [`Fate::Lost`] means kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fate {
    /// Nothing of it is there.
    Lost,
    /// All of it is there.
    Whole,
    /// So many bytes from its beginning are there.
    Prefix(u32),
    /// The sectors whose bit is set are there; the bits are used again from the first one for
    /// every 128 sectors.
    Sectors(u128),
    /// Single bytes are there, half of them on average: which ones follows from the number.
    Bytes(u64),
}

impl Fate {
    /// False if nothing is kept of a name or a length.
    pub(super) fn keeps(self) -> bool {
        self != Self::Lost
    }

    /// The parts of a write at an offset that are kept, as ranges within it.
    pub(super) fn kept(self, offset: u64, bytes: usize) -> Vec<std::ops::Range<usize>> {
        match self {
            Self::Lost => Vec::new(),
            Self::Whole => std::iter::once(0..bytes).collect(),
            Self::Prefix(length) => std::iter::once(0..bytes.min(length as usize)).collect(),
            Self::Sectors(mask) => {
                let mut kept = Vec::new();
                let mut at = 0;
                let mut number = 0;
                while at < bytes {
                    // Sectors are those of the file, so a write need not begin with a whole one.
                    let inside = usize::try_from(offset).unwrap_or(0) + at;
                    let length = (SECTOR_BYTES - inside % SECTOR_BYTES).min(bytes - at);
                    if mask >> (number % 128) & 1 == 1 {
                        kept.push(at..at + length);
                    }
                    number += 1;
                    at += length;
                }
                kept
            }
            Self::Bytes(seed) => {
                let mut random = SplitMix(seed);
                let mut word = 0;
                (0..bytes)
                    .filter(|at| {
                        if at % 64 == 0 {
                            word = random.next();
                        }
                        word >> (at % 64) & 1 == 1
                    })
                    .map(|at| at..at + 1)
                    .collect()
            }
        }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost => f.write_str("lost"),
            Self::Whole => f.write_str("whole"),
            Self::Prefix(bytes) => write!(f, "first {bytes} bytes"),
            Self::Sectors(mask) => write!(f, "sectors {mask:b}"),
            Self::Bytes(seed) => write!(f, "bytes of {seed}"),
        }
    }
}

/// Steele, Lea and Flood: "Fast splittable pseudorandom number generators" (2014). Enough for
/// choosing bytes, and the same everywhere.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fate_keeps_its_part() {
        let kept = |fate: Fate, offset| {
            let ranges = fate.kept(offset, 1000).into_iter();
            ranges
                .map(|range| (range.start, range.end))
                .collect::<Vec<_>>()
        };
        assert_eq!(kept(Fate::Lost, 0), []);
        assert_eq!(kept(Fate::Whole, 0), [(0, 1000)]);
        assert_eq!(kept(Fate::Prefix(7), 0), [(0, 7)]);
        assert_eq!(kept(Fate::Prefix(2000), 0), [(0, 1000)]);
        // 100 bytes of the first sector, the whole second one, 388 of the third.
        assert_eq!(kept(Fate::Sectors(0b101), 412), [(0, 100), (612, 1000)]);
        let bytes = Fate::Bytes(3).kept(0, 1000).len();
        assert!((300..700).contains(&bytes), "{bytes}");
        assert_eq!(Fate::Bytes(3).kept(0, 1000), Fate::Bytes(3).kept(0, 1000));
        assert_ne!(Fate::Bytes(3).kept(0, 1000), Fate::Bytes(4).kept(0, 1000));
    }
}
