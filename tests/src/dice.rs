//! Chance for the native runs of an oracle: who takes how long.

use std::time::Duration;

/// Numbers that look random, the same for each case: what the machine does with them differs.
pub struct Dice(pub u64);

impl Dice {
    /// A number below `sides`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    /// Often no time at all.
    pub fn dawdle(&mut self) {
        let micros = [0, 0, 50, 200, 1000, 3000][self.roll(6) as usize];
        if micros > 0 {
            std::thread::sleep(Duration::from_micros(micros));
        }
    }
}
