//! Memory calls of the program that meet memory of ours.
//!
//! Displaced instructions are in the program's address space, but no part of its world: a call about these addresses has the result that it has where
//! nothing is mapped. What the program wants to have there itself, it gets: ours moves.

use super::Change;
use super::context::Threads;
use super::spaces::{Space, Spaces};
use crate::code::pages;
use failure::Failure;
use std::ops::Range;
use syscall_model::{Model, Sysno};
use tracee::PAGE;

/// End of user space.
const ADDRESSES: u64 = 0x7fff_ffff_f000;
const ENOMEM: i64 = -(libc::ENOMEM as i64);
const EFAULT: i64 = -(libc::EFAULT as i64);
const EINVAL: i64 = -(libc::EINVAL as i64);

/// Where threads stand: some may be about to execute displaced instructions that have to move.
pub(super) struct Standing<'a> {
    /// Its process in place is the one whose memory is.
    pub model: &'a Model,
    pub threads: &'a mut Threads,
}

impl Spaces {
    /// Performs a memory call of the program. The kernel gets to see only what is not ours.
    pub(super) fn memory_call(
        &mut self,
        standing: Standing,
        sysno: Sysno,
        args: [u64; 6],
    ) -> Result<i64, Failure> {
        self.hand_over_code(sysno, args)?;
        let [start, len, third, flags, fifth, _] = args;
        let range = pages(start, len);
        let well_formed = start % PAGE == 0 && len != 0 && range.end <= ADDRESSES;
        let fixed = (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) as u64;
        match sysno {
            Sysno::mmap if well_formed && flags & fixed != 0 => self.make_way(standing, &range)?,
            // A length beyond all memory the kernel refuses by itself.
            Sysno::mremap if range.end <= ADDRESSES && self.here.is_ours(&pages(start, len.max(1))) => {
                let known = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP) as u64;
                // Who wants it somewhere lets it move.
                let moves = flags & libc::MREMAP_MAYMOVE as u64 != 0;
                let well_formed =
                    start % PAGE == 0 && third != 0 && flags & !known == 0 && (flags == 0 || moves);
                return Ok(if well_formed { EFAULT } else { EINVAL });
            }
            Sysno::mremap if flags & libc::MREMAP_FIXED as u64 != 0 => {
                let target = pages(fifth, third);
                if fifth % PAGE == 0 && third != 0 && target.end <= ADDRESSES {
                    self.make_way(standing, &target)?;
                }
            }
            Sysno::munmap if well_formed && self.here.is_ours(&range) => {
                return self.here.unmap_others(&range);
            }
            Sysno::mprotect | Sysno::pkey_mprotect if well_formed && self.here.is_ours(&range) => {
                return self.here.protect_before(sysno, &range, args);
            }
            Sysno::madvise if well_formed && self.here.is_ours(&range) => {
                return self.here.advise_others(&range, args);
            }
            _ => {}
        }
        let result = self.here.inject(sysno, args)?;
        if result < 0 {
            self.take_code_back(sysno, args)?;
        }
        Ok(result)
    }

    /// Something of the program's own is to be mapped at a fixed address.
    pub(super) fn make_way(&mut self, standing: Standing, range: &Range<u64>) -> Result<(), Failure> {
        if !self.here.is_ours(range) {
            return Ok(());
        }
        // A thread that stands in a slot goes through the hook again.
        for tid in standing.model.threads.keys() {
            let Some(context) = standing.threads.get_mut(tid) else {
                continue;
            };
            context.regs.rip = self.here.code.original_ip(context.regs.rip);
        }
        let Some(task) = self.here.task.as_mut() else {
            return Ok(());
        };
        let free = self.here.code.make_way(task, range)?;
        for area in free {
            let args = [area.start, area.end - area.start, 0, 0, 0, 0];
            self.task()?.inject_checked("munmap", libc::SYS_munmap, args)?;
        }
        self.hide_own();
        self.layout_changed(Change::Anywhere);
        Ok(())
    }

    /// Before the program can write to its code, hooks go; when it no longer can, they come back.
    fn hand_over_code(&mut self, sysno: Sysno, args: [u64; 6]) -> Result<(), Failure> {
        if !matches!(sysno, Sysno::mprotect | Sysno::pkey_mprotect) {
            return Ok(());
        }
        let (range, protection) = (pages(args[0], args[1]), args[2] as i32);
        let Some(task) = self.here.task.as_ref() else {
            return Ok(());
        };
        let changed = if protection & libc::PROT_WRITE != 0 {
            self.here.code.withdraw(task, range)?
        } else {
            self.here.code.put_back(task, range)?
        };
        if changed {
            self.layout_changed(Change::Anywhere);
        }
        Ok(())
    }

    /// The protection was not changed after all.
    fn take_code_back(&mut self, sysno: Sysno, args: [u64; 6]) -> Result<(), Failure> {
        if matches!(sysno, Sysno::mprotect | Sysno::pkey_mprotect)
            && let Some(task) = self.here.task.as_ref()
        {
            self.here.code.put_back(task, pages(args[0], args[1]))?;
        }
        Ok(())
    }
}

impl Space {
    fn is_ours(&self, range: &Range<u64>) -> bool {
        self.code
            .scratch_ranges()
            .any(|own| own.start < range.end && range.start < own.end)
    }

    /// What is left of a range without our areas.
    fn beside_ours(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut own: Vec<Range<u64>> = self.code.scratch_ranges().collect();
        own.sort_by_key(|area| area.start);
        let mut left = Vec::new();
        let mut at = range.start;
        for area in own
            .iter()
            .filter(|area| area.start < range.end && range.start < area.end)
        {
            if at < area.start {
                left.push(at..area.start);
            }
            at = area.end;
        }
        if at < range.end {
            left.push(at..range.end);
        }
        left
    }

    fn inject(&mut self, sysno: Sysno, args: [u64; 6]) -> Result<i64, Failure> {
        Ok(self.task()?.inject(i64::from(sysno.id()), args)?)
    }

    fn unmap_others(&mut self, range: &Range<u64>) -> Result<i64, Failure> {
        for piece in self.beside_ours(range) {
            let result = self.inject(Sysno::munmap, [piece.start, piece.end - piece.start, 0, 0, 0, 0])?;
            if result < 0 {
                return Ok(result);
            }
        }
        Ok(0)
    }

    /// The kernel works its way up to the first hole, and then fails.
    fn protect_before(
        &mut self,
        sysno: Sysno,
        range: &Range<u64>,
        mut args: [u64; 6],
    ) -> Result<i64, Failure> {
        const KNOWN: i32 = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC | 8;
        if args[2] as i32 & !(KNOWN | libc::PROT_GROWSDOWN | libc::PROT_GROWSUP) != 0 {
            return Ok(EINVAL);
        }
        if let Some(first) = self
            .beside_ours(range)
            .first()
            .filter(|piece| piece.start == range.start)
        {
            args[1] = first.end - first.start;
            let result = self.inject(sysno, args)?;
            if result < 0 {
                return Ok(result);
            }
        }
        Ok(ENOMEM)
    }

    /// The kernel passes over holes, and says in the end that there were some.
    fn advise_others(&mut self, range: &Range<u64>, args: [u64; 6]) -> Result<i64, Failure> {
        for piece in self.beside_ours(range) {
            let piece_args = [
                piece.start,
                piece.end - piece.start,
                args[2],
                args[3],
                args[4],
                args[5],
            ];
            let result = self.inject(Sysno::madvise, piece_args)?;
            if result < 0 && result != ENOMEM {
                return Ok(result);
            }
        }
        Ok(ENOMEM)
    }
}
