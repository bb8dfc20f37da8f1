//! Seeded choices: the same seed gives the same moments.

/// A small deterministic generator (SplitMix64).
#[derive(Clone, Debug)]
pub struct Moments {
    seed: u64,
    state: u64,
}

impl Moments {
    /// From the seed of a test, unless `INTENDANT_SEED` replaces it.
    ///
    /// # Panics
    /// If `INTENDANT_SEED` is no number.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let seed = match std::env::var("INTENDANT_SEED") {
            Ok(text) => text.parse().expect("INTENDANT_SEED must be a number"),
            Err(_) => seed,
        };
        Self { seed, state: seed }
    }

    /// The seed, for messages.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The next number.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, `high` excluded.
    ///
    /// # Panics
    /// If there is none.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        assert!(low < high, "no number from {low} below {high}");
        low + self.next() % (high - low)
    }

    /// A sample of at most `count`, in the order of `all`.
    pub fn sample<T: Clone>(&mut self, all: &[T], count: usize) -> Vec<T> {
        let mut left = count.min(all.len());
        let mut sample = Vec::with_capacity(left);
        for (at, one) in all.iter().enumerate() {
            let rest = (all.len() - at) as u64;
            if left > 0 && self.next() % rest < left as u64 {
                sample.push(one.clone());
                left -= 1;
            }
        }
        sample
    }
}

/// Whether sampled campaigns shall run whole.
#[must_use]
pub fn whole() -> bool {
    std::env::var_os("INTENDANT_WHOLE").is_some_and(|value| value == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_the_size_asked_for_and_the_order_of_the_whole() {
        let all: Vec<u32> = (0..100).collect();
        for count in [0, 1, 7, 100, 200] {
            let sample = Moments::new(5).sample(&all, count);
            assert_eq!(sample.len(), count.min(100));
            assert!(sample.is_sorted());
        }
    }
}
