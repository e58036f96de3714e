//! Files as a stranger, a full disk or a cosmic ray leaves them: real ones, changed at random, packed again with a correct checksum.
//!
//! A [`Target`] is a decoder with everything that is done with what it decodes: bytes to success or a reason. Whatever the bytes are, it must come back.

pub mod mutate;
pub mod pack;
pub mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind};

use anyhow::{Result, bail};
use mutate::Mutator;

/// One decoder.
pub struct Target {
    pub name: &'static str,
    /// Real contents, without what packs them.
    pub corpus: Vec<Vec<u8>>,
    /// Packs contents, checksum and all.
    pub pack: fn(&[u8]) -> Vec<u8>,
    /// Decodes a file, and uses what it holds. The reason if it is refused.
    pub run: fn(&[u8]) -> std::result::Result<(), String>,
}

impl Target {
    /// Tries `cases` changed files. The contents of the corpus themselves must be taken.
    ///
    /// # Errors
    /// A file made it panic; the message has the seed.
    pub fn attack(&self, seed: u64, cases: u64) -> Result<()> {
        for content in &self.corpus {
            if let Err(reason) = (self.run)(&(self.pack)(content)) {
                bail!("{}: a real file is refused: {reason}", self.name);
            }
        }
        let mut mutator = Mutator::new(seed);
        let (mut taken, mut refused) = (0_u64, 0_u64);
        for case in 0..cases {
            let original = &self.corpus[mutator.below(self.corpus.len())];
            // Most changes are within the packing; the packing itself is tried, too.
            let file = match mutator.below(8) {
                0 => mutator.changed(&(self.pack)(original)),
                _ => (self.pack)(&mutator.changed(original)),
            };
            match catch_unwind(AssertUnwindSafe(|| (self.run)(&file))) {
                Ok(Ok(())) => taken += 1,
                Ok(Err(_)) => refused += 1,
                Err(_) => {
                    let kept = std::env::temp_dir().join(format!("hostile-{}-{seed}-{case}", self.name));
                    std::fs::write(&kept, &file)?;
                    bail!(
                        "{}: case {case} of seed {seed} panics: {}",
                        self.name,
                        kept.display()
                    );
                }
            }
        }
        println!("{}: {taken} taken, {refused} refused", self.name);
        Ok(())
    }
}
