//! Chance that repeats itself: the same seed, the same course.
//!
//! How it fails: it does not. Invariant: no number depends on anything but the seed and what was
//! drawn before; the demo needs variety, not secrets.

/// A generator (SplitMix64): small, even enough, and the same on every machine.
#[derive(Debug, Clone)]
pub(super) struct Chance(u64);

impl Chance {
    /// A generator of its own for each `stream` of one seed.
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        let mut chance = Self(seed);
        chance.0 = chance.next() ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        chance
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which must not be 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        // Multiplying instead of dividing: the high half is evenly spread over 0..end.
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// True in `percent` of 100 cases.
    pub(super) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// The number that stands for a text under a seed (FNV-1a).
pub(super) fn stream_of(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_course_and_another_stream_another() {
        let draw = |seed, stream| {
            let mut chance = Chance::new(seed, stream);
            (0..8).map(|_| chance.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7, 1), draw(7, 1));
        assert_ne!(draw(7, 1), draw(7, 2));
        assert_ne!(draw(7, 1), draw(8, 1));
    }

    #[test]
    fn numbers_stay_below_their_end_and_reach_all_of_it() {
        let mut chance = Chance::new(1, 1);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[chance.below(5) as usize] = true;
        }
        assert_eq!(seen, [true; 5]);
    }
}
