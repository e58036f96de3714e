//! Changes to bytes that decoders stumble over: lengths, signs, ends.

/// A stream of changes, the same for the same seed (splitmix64).
pub struct Mutator(u64);

/// Bytes that mean something in many encodings: ends of ranges, and of numbers of variable length.
const TELLING: [u8; 8] = [0, 1, 2, 0x7f, 0x80, 0xfe, 0xff, b'{'];

impl Mutator {
    pub fn new(seed: u64) -> Mutator {
        Mutator(seed)
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.number() % bound as u64) as usize
    }

    /// A few changes at once.
    pub fn changed(&mut self, original: &[u8]) -> Vec<u8> {
        let mut bytes = original.to_vec();
        for _ in 0..=self.below(4) {
            self.change(&mut bytes);
        }
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            bytes.push(self.number() as u8);
            return;
        }
        // What lies at the beginning (headers, counts) decides more than the rest.
        let reach = match self.below(3) {
            0 => bytes.len().min(256),
            _ => bytes.len(),
        };
        let at = self.below(reach);
        let end = at + self.below(bytes.len() - at).min(64);
        match self.below(9) {
            0 => bytes[at] ^= 1 << self.below(8),
            1 => bytes[at] = TELLING[self.below(TELLING.len())],
            2 => bytes[at] = self.number() as u8,
            // A huge number of variable length.
            3 => drop(bytes.splice(at..=at, [0xff, 0xff, 0xff, 0xff, 0x0f])),
            4 => drop(bytes.splice(at..=at, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1])),
            5 => drop(bytes.drain(at..end)),
            6 => {
                let again = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, again));
            }
            7 => {
                let word = self.number().to_le_bytes();
                let len = word.len().min(bytes.len() - at);
                bytes[at..at + len].copy_from_slice(&word[..len]);
            }
            _ => bytes.truncate(at),
        }
    }
}
