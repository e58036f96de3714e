//! What a signal carries: the kernel's `siginfo_t`.

use crate::processes::Ended;
use syscalls::Errno;

/// A signal with its `siginfo_t`, kept as the kernel keeps it: three words and a union of 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SigInfo {
    pub signo: i32,
    pub errno: i32,
    /// `SI_USER`, `SI_TIMER`, `SEGV_MAPERR`, …
    pub code: i32,
    fields: [u8; SigInfo::FIELDS],
}

pub const SI_USER: i32 = 0;
pub const SI_KERNEL: i32 = 0x80;
pub const SI_QUEUE: i32 = -1;
pub const SI_TIMER: i32 = -2;
pub const SI_TKILL: i32 = -6;

/// As many codes below `SI_KERNEL` belong to `SIGIO`, and are taken for its own with any other signal that has none.
const POLL_CODES: i32 = 6;
/// The signals that have.
const TOLD_BY_CODE: [i32; 7] = [
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGTRAP,
    libc::SIGCHLD,
    libc::SIGSYS,
];

impl SigInfo {
    /// Where the union begins, and how much of it any member uses.
    const UNION: usize = 16;
    const FIELDS: usize = 32;
    /// `sizeof(siginfo_t)`.
    pub const SIZE: usize = 128;

    fn new(signo: i32, code: i32) -> Self {
        Self {
            signo,
            errno: 0,
            code,
            fields: [0; Self::FIELDS],
        }
    }

    fn with_u32(mut self, at: usize, value: u32) -> Self {
        self.fields[at..at + 4].copy_from_slice(&value.to_le_bytes());
        self
    }

    fn with_u64(mut self, at: usize, value: u64) -> Self {
        self.fields[at..at + 8].copy_from_slice(&value.to_le_bytes());
        self
    }

    fn u32_at(&self, at: usize) -> u32 {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.fields[at..at + 4]);
        u32::from_le_bytes(bytes)
    }

    fn u64_at(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.fields[at..at + 8]);
        u64::from_le_bytes(bytes)
    }

    /// Sent by `kill`.
    pub fn user(signo: i32, pid: u32, uid: u32) -> Self {
        Self::new(signo, SI_USER).with_u32(0, pid).with_u32(4, uid)
    }

    /// Sent by `tkill` or `tgkill`.
    pub fn tkill(signo: i32, pid: u32, uid: u32) -> Self {
        Self::new(signo, SI_TKILL).with_u32(0, pid).with_u32(4, uid)
    }

    /// A message queue is no longer empty (`mq_notify`).
    pub fn message(signo: i32, pid: u32, uid: u32, value: u64) -> Self {
        Self {
            code: libc::SI_MESGQ,
            ..Self::queued(signo, pid, uid, value)
        }
    }

    /// Sent by `sigqueue`, with a value.
    pub fn queued(signo: i32, pid: u32, uid: u32, value: u64) -> Self {
        Self::new(signo, SI_QUEUE)
            .with_u32(0, pid)
            .with_u32(4, uid)
            .with_u64(8, value)
    }

    /// Sent by the kernel itself, as `SIGALRM` by an interval timer.
    pub fn kernel(signo: i32) -> Self {
        Self::new(signo, SI_KERNEL)
    }

    /// Sent by a POSIX timer.
    pub fn timer(signo: i32, timer: i32, value: u64) -> Self {
        Self::new(signo, SI_TIMER)
            .with_u32(0, timer as u32)
            .with_u64(8, value)
    }

    /// A child has ended.
    pub fn child(signo: i32, pid: u32, uid: u32, ended: Ended) -> Self {
        let (code, status) = match ended {
            Ended::Exited(status) => (libc::CLD_EXITED, status & 0xff),
            Ended::Killed(signal) => (libc::CLD_KILLED, signal),
        };
        Self::new(signo, code)
            .with_u32(0, pid)
            .with_u32(4, uid)
            .with_u32(8, status as u32)
    }

    /// A child has stopped or goes on (`code`), by this signal.
    pub fn child_changed(code: i32, pid: u32, uid: u32, by: i32) -> Self {
        Self::new(libc::SIGCHLD, code)
            .with_u32(0, pid)
            .with_u32(4, uid)
            .with_u32(8, by as u32)
    }

    /// A fault at `addr`.
    pub fn fault(signo: i32, code: i32, addr: u64) -> Self {
        Self::new(signo, code).with_u64(0, addr)
    }

    /// The same signal with the number of expirations that were lost.
    pub fn with_overrun(self, overrun: i32) -> Self {
        self.with_u32(4, overrun as u32)
    }

    /// Sender, of a signal that was sent.
    pub fn pid(&self) -> u32 {
        self.u32_at(0)
    }

    pub fn uid(&self) -> u32 {
        self.u32_at(4)
    }

    /// The `sigval` of a queued signal or a timer.
    pub fn value(&self) -> u64 {
        self.u64_at(8)
    }

    /// Of a fault.
    pub fn addr(&self) -> u64 {
        self.u64_at(0)
    }

    /// The timer that sent it.
    pub fn timer_id(&self) -> Option<i32> {
        (self.code == SI_TIMER).then(|| self.u32_at(0) as i32)
    }

    pub fn overrun(&self) -> i32 {
        self.u32_at(4) as i32
    }

    /// As a signal frame, `sigwaitinfo` or `PTRACE_GETSIGINFO` hold it.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        out[0..4].copy_from_slice(&self.signo.to_le_bytes());
        out[4..8].copy_from_slice(&self.errno.to_le_bytes());
        out[8..12].copy_from_slice(&self.code.to_le_bytes());
        out[Self::UNION..Self::UNION + Self::FIELDS].copy_from_slice(&self.fields);
        out
    }

    /// Reads a `siginfo_t`; like the kernel `E2BIG` if something stands where it has no fields.
    pub fn decode(raw: &[u8; Self::SIZE]) -> Result<Self, Errno> {
        if raw[Self::UNION + Self::FIELDS..].iter().any(|&b| b != 0) {
            return Err(Errno::E2BIG);
        }
        let word = |at: usize| i32::from_le_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
        let mut info = Self::new(word(0), word(8));
        info.errno = word(4);
        info.fields
            .copy_from_slice(&raw[Self::UNION..Self::UNION + Self::FIELDS]);
        Ok(info)
    }

    /// As `read` on a signalfd gives it: `struct signalfd_siginfo`.
    pub fn encode_signalfd(&self) -> [u8; 128] {
        let mut out = [0; 128];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.signo.to_le_bytes());
        put(4, &self.errno.to_le_bytes());
        put(8, &self.code.to_le_bytes());
        match self.code {
            SI_TIMER => {
                put(24, &self.pid().to_le_bytes());
                put(32, &self.overrun().to_le_bytes());
                put(44, &(self.value() as i32).to_le_bytes());
                put(48, &self.value().to_le_bytes());
            }
            code if code > 0 && self.signo == libc::SIGCHLD => {
                put(12, &self.pid().to_le_bytes());
                put(16, &self.uid().to_le_bytes());
                put(40, &self.u32_at(8).to_le_bytes());
            }
            // Somebody can say of any signal that it is about a descriptor.
            code if (1..=POLL_CODES).contains(&code) && !TOLD_BY_CODE.contains(&self.signo) => {
                put(20, &self.u32_at(8).to_le_bytes());
                put(28, &self.u32_at(0).to_le_bytes());
            }
            // Faults are the only others with a positive code below SI_KERNEL that we make.
            code if code > 0 && code != SI_KERNEL => put(72, &self.addr().to_le_bytes()),
            _ => {
                put(12, &self.pid().to_le_bytes());
                put(16, &self.uid().to_le_bytes());
                put(44, &(self.value() as i32).to_le_bytes());
                put(48, &self.value().to_le_bytes());
            }
        }
        out
    }
}

impl std::fmt::Debug for SigInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "SigInfo {{ signo: {}, code: {}, fields: {:x?} }}",
            self.signo,
            self.code,
            &self.fields[..16]
        )
    }
}
