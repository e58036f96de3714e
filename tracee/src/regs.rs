//! General-purpose registers of a task, in the kernel's `user_regs_struct` layout.
//!
//! A register set is plain data: a virtual thread that does not run is nothing but one of these.
//! The field that needs care is `orig_rax`. At a stop on entry to a system call it is the number of
//! the call that the kernel performs next (−1: none); everywhere else a non-negative value could only
//! trigger the kernel's call-restart logic, so [`crate::Stopped::regs`] shows −1 there.

use std::mem::{align_of, size_of};

/// `orig_rax` when no system call is in progress.
pub const NO_CALL: u64 = u64::MAX;

/// Length of the `syscall` instruction.
pub(crate) const SYSCALL_LEN: u64 = 2;

/// All general-purpose registers of one (virtual or kernel) thread, in the order in which the kernel hands them over.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[allow(missing_docs, reason = "the fields are the registers of the same names")]
pub struct Regs {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub orig_rax: u64,
    pub rip: u64,
    pub cs: u64,
    pub eflags: u64,
    pub rsp: u64,
    pub ss: u64,
    pub fs_base: u64,
    pub gs_base: u64,
    pub ds: u64,
    pub es: u64,
    pub fs: u64,
    pub gs: u64,
}

// The kernel fills a `Regs` directly.
const _: () = assert!(size_of::<Regs>() == size_of::<libc::user_regs_struct>());
const _: () = assert!(align_of::<Regs>() == align_of::<libc::user_regs_struct>());

impl Regs {
    /// All of them but the segments, for a comparison.
    pub fn bytes(&self) -> Vec<u8> {
        let general = [
            self.rax, self.rbx, self.rcx, self.rdx, self.rsi, self.rdi, self.rbp, self.rsp, self.r8, self.r9,
            self.r10, self.r11, self.r12, self.r13, self.r14, self.r15,
        ];
        let others = [self.rip, self.eflags, self.orig_rax, self.fs_base, self.gs_base];
        general
            .into_iter()
            .chain(others)
            .flat_map(u64::to_le_bytes)
            .collect()
    }

    /// The number of the system call at whose entry the task stands, as the kernel sees it.
    pub fn call(&self) -> i64 {
        self.orig_rax as i64
    }

    /// The six system-call arguments.
    pub fn args(&self) -> [u64; 6] {
        [self.rdi, self.rsi, self.rdx, self.r10, self.r8, self.r9]
    }

    /// Sets the six system-call arguments.
    pub fn set_args(&mut self, args: [u64; 6]) {
        [self.rdi, self.rsi, self.rdx, self.r10, self.r8, self.r9] = args;
    }

    /// Makes the call at whose entry the task stands be skipped, with this raw result (−errno or a value).
    pub fn skip_call(&mut self, result: i64) {
        self.orig_rax = NO_CALL;
        self.rax = result as u64;
    }

    /// Makes the kernel perform this call instead of the one at whose entry the task stands.
    pub fn replace_call(&mut self, nr: i64, args: [u64; 6]) {
        self.orig_rax = nr as u64;
        self.set_args(args);
    }

    /// Moves back before the `syscall` instruction, so that the thread makes its call anew.
    pub fn rewind_call(&mut self) {
        self.rax = self.orig_rax;
        self.rip = self.rip.wrapping_sub(SYSCALL_LEN);
        self.orig_rax = NO_CALL;
    }

    /// Is a system call recorded in `orig_rax`?
    pub fn has_call(&self) -> bool {
        (self.orig_rax as i64) >= 0
    }

    /// Does `rax` hold one of the kernel's internal "restart this call" results?
    pub(crate) fn is_restarting(&self) -> bool {
        // ERESTARTSYS 512, ERESTARTNOINTR 513, ERESTARTNOHAND 514, ERESTART_RESTARTBLOCK 516
        self.has_call() && matches!(self.rax as i64, -516 | -514..=-512)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_round_trip_in_the_order_of_the_kernel_abi() {
        let mut regs = Regs::default();
        regs.set_args([1, 2, 3, 4, 5, 6]);
        assert_eq!(
            (regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9),
            (1, 2, 3, 4, 5, 6)
        );
        assert_eq!(regs.args(), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn skipping_and_rewinding_leave_no_call_behind() {
        let mut regs = Regs {
            orig_rax: 39,
            rip: 0x1002,
            rax: -38i64 as u64,
            ..Regs::default()
        };
        let mut again = regs;
        regs.skip_call(7);
        assert_eq!((regs.rax, regs.has_call()), (7, false));
        again.rewind_call();
        assert_eq!((again.rax, again.rip, again.has_call()), (39, 0x1000, false));
    }

    #[test]
    fn only_the_kernels_restart_results_count_as_restarting() {
        let at = |rax: i64| Regs {
            orig_rax: 0,
            rax: rax as u64,
            ..Regs::default()
        };
        assert!([-512, -513, -514, -516].iter().all(|&r| at(r).is_restarting()));
        assert!([-515, -38, 0, 512].iter().all(|&r| !at(r).is_restarting()));
        assert!(
            !Regs {
                orig_rax: NO_CALL,
                ..at(-512)
            }
            .is_restarting()
        );
    }
}
