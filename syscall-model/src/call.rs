//! One system call as the guest asked for it.

use syscalls::Sysno;

/// A system call: its number and its six argument registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    pub sysno: Sysno,
    pub args: [u64; 6],
}

impl Call {
    pub fn new(sysno: Sysno, args: [u64; 6]) -> Self {
        Self { sysno, args }
    }

    /// Argument `i` as a descriptor: the kernel looks at the low 32 bits only.
    pub fn fd(&self, i: usize) -> i32 {
        self.args[i] as i32
    }

    /// Argument `i` as an `int`.
    pub fn int(&self, i: usize) -> i32 {
        self.args[i] as i32
    }

    /// Argument `i` as an `unsigned int`.
    pub fn uint(&self, i: usize) -> u32 {
        self.args[i] as u32
    }

    /// Argument `i` as a `long`.
    pub fn long(&self, i: usize) -> i64 {
        self.args[i] as i64
    }

    /// Argument `i` as a size or an address.
    pub fn word(&self, i: usize) -> u64 {
        self.args[i]
    }
}
