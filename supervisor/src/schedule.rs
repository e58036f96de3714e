//! Who goes next, for a single schedule.

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use syscall_model::Tid;

/// Picks one of the enabled threads. `enabled` is sorted and not empty.
pub trait Scheduler {
    fn choose(&mut self, enabled: &[Tid]) -> Tid;
}

/// Uniformly random, from a stream that is the same on every machine.
pub struct RandomScheduler {
    rng: ChaCha8Rng,
}

impl RandomScheduler {
    pub fn new(seed: u64) -> Self {
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
        }
    }
}

impl Scheduler for RandomScheduler {
    fn choose(&mut self, enabled: &[Tid]) -> Tid {
        if enabled.len() == 1 {
            // Not drawn: operations of a lone thread do not move the stream.
            return enabled[0];
        }
        // Multiply-shift instead of modulo; the bias of 2⁻³² is of no account here.
        let index = (u64::from(self.rng.next_u32()) * enabled.len() as u64) >> 32;
        enabled[index as usize]
    }
}
