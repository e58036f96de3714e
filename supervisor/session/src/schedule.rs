//! Who goes next, for a single schedule.

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use syscall_model::Tid;

/// Picks one of the enabled threads. `enabled` is sorted and not empty.
pub trait Scheduler {
    fn choose(&mut self, enabled: &[Tid]) -> Tid;
    /// Picks one of the alternatives that its operation has. Not empty.
    fn choose_alternative(&mut self, alternatives: &[u32]) -> u32;
}

/// Each thread goes on as long as it can.
pub struct FirstEnabled;

impl Scheduler for FirstEnabled {
    fn choose(&mut self, enabled: &[Tid]) -> Tid {
        enabled[0]
    }

    fn choose_alternative(&mut self, alternatives: &[u32]) -> u32 {
        alternatives[0]
    }
}

/// Uniformly random, from a stream that is the same on every machine.
pub struct RandomScheduler {
    rng: ChaCha8Rng,
    /// What peers say arrives at once.
    is_prompt: bool,
}

impl RandomScheduler {
    pub fn new(seed: u64) -> Self {
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            is_prompt: seed == 0,
        }
    }
}

impl RandomScheduler {
    fn draw(&mut self, among: &[u32]) -> u32 {
        if among.len() == 1 {
            // Not drawn: operations of a lone thread do not move the stream.
            return among[0];
        }
        // Multiply-shift instead of modulo; the bias of 2⁻³² is of no account here.
        let index = (u64::from(self.rng.next_u32()) * among.len() as u64) >> 32;
        among[index as usize]
    }
}

impl Scheduler for RandomScheduler {
    fn choose(&mut self, enabled: &[Tid]) -> Tid {
        self.draw(enabled)
    }

    fn choose_alternative(&mut self, alternatives: &[u32]) -> u32 {
        if self.is_prompt {
            return alternatives[0];
        }
        self.draw(alternatives)
    }
}
