//! Memory and registers compared, but for what the clock has shown: a program that waits until a moment has that moment in its memory.
//!
//! A word that has changed may hold a time if it has grown like the time that has passed, in one of the units that programs count in, or is the part of a `timespec`
//! or `timeval` below the second. What is compared lies so far apart, in rounds that take ever longer, that a counter does not look like that in the end.

use std::collections::BTreeMap;
use syscall_model::clock::Nanos;
use syscall_model::processes::Pid;
use xxhash_rust::xxh3::xxh3_128;

pub(super) const PAGE: usize = 4096;
/// Of a program with more memory that is not zero, only sums are kept, and what differs is not looked at.
const MOST: usize = 2048;

/// Whose memory it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Place {
    Registers,
    Memory(Pid),
}

/// The contents of memory, by address; and what is handled in the same way.
#[derive(Debug, Default)]
pub(super) struct Words {
    pages: BTreeMap<(Place, u64), Page>,
    kept: usize,
}

#[derive(Debug)]
struct Page {
    sum: u128,
    bytes: Option<Box<[u8]>>,
}

impl Words {
    pub fn add(&mut self, place: Place, at: u64, bytes: &[u8]) {
        for (nth, page) in bytes.chunks(PAGE).enumerate() {
            if page.iter().all(|&byte| byte == 0) {
                continue;
            }
            self.kept += 1;
            let page = Page {
                sum: xxh3_128(page),
                bytes: (self.kept <= MOST).then(|| page.into()),
            };
            self.pages.insert((place, at + (nth * PAGE) as u64), page);
        }
    }

    /// Are they the same after this time, but for times?
    pub fn is_same(&self, later: &Self, elapsed: Nanos) -> bool {
        let same_place =
            |((at, one), (other, two)): ((&_, &Page), (&_, &Page))| at == other && one.is_same(two, elapsed);
        self.pages.len() == later.pages.len() && self.pages.iter().zip(&later.pages).all(same_place)
    }
}

impl Page {
    fn is_same(&self, later: &Self, elapsed: Nanos) -> bool {
        if self.sum == later.sum {
            return true;
        }
        let (Some(before), Some(after)) = (&self.bytes, &later.bytes) else {
            return false;
        };
        let (before, after) = (words(before), words(after));
        let changed = (0..before.len()).filter(|&at| before.get(at) != after.get(at));
        before.len() == after.len()
            && changed
                .into_iter()
                .all(|at| is_time(&before, &after, at, elapsed))
    }
}

/// The words of a page that have changed, and whether each has as a time does. A page that is not there is empty.
pub(super) fn changed(before: Option<&[u8]>, after: Option<&[u8]>, elapsed: Nanos) -> Vec<(usize, bool)> {
    let none = [0; PAGE];
    let (before, after) = (words(before.unwrap_or(&none)), words(after.unwrap_or(&none)));
    let changed = (0..before.len().min(after.len())).filter(|&at| before[at] != after[at]);
    changed
        .map(|at| (at, elapsed > 0 && is_time(&before, &after, at, elapsed)))
        .collect()
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    bytes.chunks(8).map(word).collect()
}

/// Has the word at this place changed as a time does?
fn is_time(before: &[u64], after: &[u64], at: usize, elapsed: Nanos) -> bool {
    let (old, new) = (before[at], after[at]);
    let halves = |word: u64| [word as u32, (word >> 32) as u32];
    let is_half = |nth: usize| {
        let (old, new) = (halves(old)[nth], halves(new)[nth]);
        old == new || has_passed(u64::from(new.wrapping_sub(old)), elapsed)
    };
    let is_whole = || has_passed(new.wrapping_sub(old), elapsed);
    let is_float = || {
        let grown = f64::from_bits(new) - f64::from_bits(old);
        grown.is_finite() && (0.0..1e18).contains(&grown) && has_passed((grown * 1e9) as u64, elapsed)
    };
    is_whole() || is_below_second(before, after, at, elapsed) || is_float() || is_half(0) && is_half(1)
}

/// Of a `timespec` or `timeval`: the word before it tells seconds, which need not have changed yet.
fn is_below_second(before: &[u64], after: &[u64], at: usize, elapsed: Nanos) -> bool {
    const SECOND: u64 = 1_000_000_000;
    let Some(seconds) = at.checked_sub(1) else {
        return false;
    };
    let is_part = before[at] < SECOND && after[at] < SECOND;
    is_part && has_passed_in(SECOND, after[seconds].wrapping_sub(before[seconds]), elapsed)
}

/// Is this the time that has passed, in any unit? What was read a round earlier or later counts too.
fn has_passed(grown: u64, elapsed: Nanos) -> bool {
    const UNITS: [Nanos; 4] = [1, 1_000, 1_000_000, 1_000_000_000];
    UNITS.into_iter().any(|unit| has_passed_in(unit, grown, elapsed))
}

fn has_passed_in(unit: Nanos, grown: u64, elapsed: Nanos) -> bool {
    let passed = elapsed / unit;
    (passed / 2..=passed.saturating_mul(2).saturating_add(1)).contains(&grown)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    fn memory(words: &[u64]) -> Words {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut memory = Words::default();
        memory.add(Place::Memory(1), 0x1000, &bytes);
        memory
    }

    #[test]
    fn a_time_may_have_passed() {
        let before = memory(&[7, 1_893_456_000, 5, 40_000]);
        let same = |words: &[u64]| before.is_same(&memory(words), 90_000 * SECOND);
        assert!(same(&[7, 1_893_456_000, 5, 40_000]));
        assert!(same(&[7, 1_893_546_000, 600_000_000, 40_000]));
        assert!(same(&[7, 1_893_456_000, 5, 40_000 + 90_000_000]));
        assert!(same(&[7, 1_893_456_000, 5, (90_000 << 32) + 40_000]));
    }

    #[test]
    fn a_counter_is_no_time() {
        let before = memory(&[7, 0, 40_000, 1_u64 << 40]);
        let same = |words: &[u64]| before.is_same(&memory(words), 90_000 * SECOND);
        assert!(!same(&[8, 0, 40_000, 1 << 40]));
        assert!(!same(&[7, 0, 40_080, 1 << 40]));
        assert!(!same(&[7, 0, 40_000, (1 << 40) - 1]));
        assert!(!same(&[7, 3, 40_000, 1 << 40]));
    }

    #[test]
    fn other_pages_are_other_memory() {
        let mut more = memory(&[1]);
        more.add(Place::Memory(1), 0x8000, &[1]);
        assert!(!memory(&[1]).is_same(&more, SECOND));
        more.add(Place::Memory(1), 0x9000, &[0; 5000]);
        let mut again = memory(&[1]);
        again.add(Place::Memory(1), 0x8000, &[1]);
        assert!(more.is_same(&again, SECOND));
    }
}
