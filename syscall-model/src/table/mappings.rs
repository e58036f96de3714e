//! What a call that the kernel performs does to the mappings of the program.

use std::ops::Range;

/// What a call does to the mappings: a column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    Nothing,
    /// `mmap`.
    Maps,
    /// `munmap`.
    Unmaps,
    /// `mprotect`.
    Protects,
    /// `mremap`.
    Moves,
    /// `madvise`.
    Advises,
    /// `brk`.
    Grows,
}

/// What happened to the mappings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Something, somewhere; or code was changed by force.
    Anywhere,
    /// Memory was mapped, unmapped or protected here, and nowhere else.
    Mapped(Range<u64>),
    /// The mappings are as before, but what was in memory here is gone.
    Dropped(Range<u64>),
}

impl Memory {
    /// Where the change is, if there is any. The arguments of a call that failed need not make sense, and it may have done a part of its
    /// work before it came to what it could not do.
    pub fn change(self, args: [u64; 6], result: i64) -> Option<Change> {
        let [start, len, third, flags, ..] = args;
        if result == -i64::from(libc::EINVAL) || result == -i64::from(libc::EBADF) {
            return None;
        }
        Some(match self {
            Memory::Nothing => return None,
            _ if failed(result) => Change::Anywhere,
            Memory::Maps if flags as i32 & libc::MAP_GROWSDOWN == 0 => {
                Change::Mapped(range(result as u64, len))
            }
            Memory::Unmaps | Memory::Protects => Change::Mapped(range(start, len)),
            Memory::Advises if third as i32 == libc::MADV_DONTNEED => Change::Dropped(range(start, len)),
            _ => Change::Anywhere,
        })
    }

    /// The memory that the call takes away, which other threads may be about to use. Whether they come before it or after it can then be seen by
    /// them, though they share no object that an operation announces.
    pub fn takes(self, args: [u64; 6]) -> Option<Range<u64>> {
        let accessible = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let takes = match self {
            Memory::Unmaps | Memory::Moves => true,
            Memory::Protects => args[2] & accessible != accessible,
            Memory::Advises => args[2] == libc::MADV_DONTNEED as u64,
            Memory::Nothing | Memory::Maps | Memory::Grows => false,
        };
        takes.then(|| range(args[0], args[1]))
    }

    /// Where nothing is left of what was mapped before.
    pub fn replaces(self, args: [u64; 6], result: i64) -> Vec<Range<u64>> {
        let [start, len, new_len, flags, new_start, _] = args;
        let has = |flag: i32| flags & flag as u64 != 0;
        match self {
            _ if result < 0 => Vec::new(),
            Memory::Maps if has(libc::MAP_FIXED) => vec![range(start, len)],
            Memory::Unmaps => vec![range(start, len)],
            Memory::Moves if has(libc::MREMAP_FIXED) => {
                vec![range(start, len), range(new_start, new_len)]
            }
            Memory::Moves => vec![range(start, len)],
            _ => Vec::new(),
        }
    }

    /// Does memory begin or end here, so that what was known of its bytes is over?
    pub fn renews(self) -> bool {
        matches!(self, Memory::Maps | Memory::Unmaps)
    }

    /// Is the result an address?
    pub fn returns_address(self) -> bool {
        matches!(self, Memory::Maps | Memory::Moves | Memory::Grows)
    }
}

fn failed(result: i64) -> bool {
    (-4095..0).contains(&result)
}

fn range(start: u64, len: u64) -> Range<u64> {
    start..start.saturating_add(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENOMEM: i64 = -(libc::ENOMEM as i64);
    const EINVAL: i64 = -(libc::EINVAL as i64);

    #[test]
    fn a_call_that_was_refused_changes_nothing_and_one_that_failed_may_have_changed_anything() {
        let args = [0x1000, 0x2000, 0, 0, 0, 0];
        assert_eq!(Memory::Unmaps.change(args, EINVAL), None);
        assert_eq!(Memory::Unmaps.change(args, ENOMEM), Some(Change::Anywhere));
        assert_eq!(
            Memory::Unmaps.change(args, 0),
            Some(Change::Mapped(0x1000..0x3000))
        );
        assert_eq!(Memory::Nothing.change(args, 0), None);
    }

    #[test]
    fn mapping_changes_memory_where_the_kernel_put_it() {
        let args = [0, 0x1000, 3, libc::MAP_PRIVATE as u64, u64::MAX, 0];
        let change = Memory::Maps.change(args, 0x7000);
        assert_eq!(change, Some(Change::Mapped(0x7000..0x8000)));
        assert!(Memory::Maps.replaces(args, 0x7000).is_empty());
    }

    #[test]
    fn moving_to_a_fixed_place_replaces_what_was_there() {
        let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64;
        let args = [0x1000, 0x1000, 0x2000, flags, 0x9000, 0];
        assert_eq!(
            Memory::Moves.replaces(args, 0x9000),
            [0x1000..0x2000, 0x9000..0xb000]
        );
        assert!(Memory::Moves.replaces(args, ENOMEM).is_empty());
    }

    #[test]
    fn only_access_that_ends_takes_memory() {
        let protect = |prot: i32| Memory::Protects.takes([0x1000, 0x1000, prot as u64, 0, 0, 0]);
        assert_eq!(protect(libc::PROT_READ | libc::PROT_WRITE), None);
        assert_eq!(protect(libc::PROT_READ), Some(0x1000..0x2000));
    }
}
