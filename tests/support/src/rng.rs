//! Reproducible random numbers.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// Xorshift.
pub struct Rng(u64);

impl Rng {
    /// Creates a generator with a random seed, which the output of a failed test shows.
    pub fn random() -> Self {
        let seed = RandomState::new().hash_one("rng") | 1;
        println!("the random numbers begin with seed {seed}");
        Self::with(seed)
    }

    pub fn with(seed: u64) -> Self {
        Self(seed.max(1))
    }

    /// Returns a number below `sides`.
    pub fn below(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }

    pub fn one_in(&mut self, sides: u64) -> bool {
        self.below(sides) == 0
    }

    /// Returns a generator with a seed from this one.
    pub fn split(&mut self) -> Self {
        Self::with(self.below(u64::MAX) | 1)
    }
}
