//! Chance, that can be had again.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// Xorshift.
pub struct Dice(u64);

impl Dice {
    /// A game of its own; shown if the test fails.
    pub fn new() -> Self {
        let seed = RandomState::new().hash_one("dice") | 1;
        println!("the dice begin with {seed}");
        Self::with(seed)
    }

    pub fn with(seed: u64) -> Self {
        Self(seed.max(1))
    }

    /// One of so many.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }

    pub fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }

    /// For somebody else.
    pub fn split(&mut self) -> Self {
        Self::with(self.roll(u64::MAX) | 1)
    }
}
