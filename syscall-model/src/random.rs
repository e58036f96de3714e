//! Randomness that is the same in every run: what `getrandom` and `/dev/urandom` give.

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

/// A seeded stream and the position in it; cheap to clone and to hash.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Random {
    seed: u64,
    words_used: u128,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Self { seed, words_used: 0 }
    }

    /// The stream of another process. Each has its own, so that it does not matter who draws first.
    pub(crate) fn of_process(&self, pid: u32) -> Self {
        Self::new(self.seed ^ (u64::from(pid) << 32))
    }

    pub fn fill(&mut self, out: &mut [u8]) {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_word_pos(self.words_used);
        rng.fill_bytes(out);
        self.words_used += (out.len() as u128).div_ceil(4);
    }
}
