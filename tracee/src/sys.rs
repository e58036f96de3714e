//! The raw requests: `ptrace`, `wait4` and nothing else.
//!
//! All other modules go through these wrappers, so that the pointer arithmetic of ptrace is in one place.

use crate::error::{Error, Result};
use crate::regs::Regs;
use nix::errno::Errno;
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// `NT_X86_XSTATE`
const NT_X86_XSTATE: usize = 0x202;
/// `__WALL`: children whatever their exit signal.
const WALL: i32 = libc::__WALL;

/// Options of every traced task. `EXITKILL`: no task outlives its supervisor. The fork and clone
/// events make children traced from their first instruction.
pub(crate) const OPTIONS: i32 = libc::PTRACE_O_EXITKILL
    | libc::PTRACE_O_TRACESECCOMP
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACESYSGOOD;

fn request(name: &'static str, request: libc::c_uint, pid: i32, addr: usize, data: usize) -> Result<()> {
    // SAFETY: every caller passes either plain numbers or pointers to live objects of the size that the
    // request reads or writes; the kernel checks that `pid` is a stopped tracee of this thread.
    let answer = unsafe { libc::ptrace(request, pid, addr as *mut c_void, data as *mut c_void) };
    Errno::result(answer)
        .map(drop)
        .map_err(|errno| Error::ptrace(name, pid, errno))
}

pub(crate) fn seize(pid: i32, options: i32) -> Result<()> {
    request("SEIZE", libc::PTRACE_SEIZE, pid, 0, options as usize)
}

pub(crate) fn set_options(pid: i32, options: i32) -> Result<()> {
    request("SETOPTIONS", libc::PTRACE_SETOPTIONS, pid, 0, options as usize)
}

pub(crate) fn interrupt(pid: i32) -> Result<()> {
    request("INTERRUPT", libc::PTRACE_INTERRUPT, pid, 0, 0)
}

pub(crate) fn cont(pid: i32, signal: i32) -> Result<()> {
    request("CONT", libc::PTRACE_CONT, pid, 0, signal as usize)
}

pub(crate) fn cont_to_syscall(pid: i32, signal: i32) -> Result<()> {
    request("SYSCALL", libc::PTRACE_SYSCALL, pid, 0, signal as usize)
}

pub(crate) fn single_step(pid: i32, signal: i32) -> Result<()> {
    request("SINGLESTEP", libc::PTRACE_SINGLESTEP, pid, 0, signal as usize)
}

pub(crate) fn get_regs(pid: i32) -> Result<Regs> {
    let mut regs = Regs::default();
    request("GETREGS", libc::PTRACE_GETREGS, pid, 0, &raw mut regs as usize)?;
    Ok(regs)
}

pub(crate) fn set_regs(pid: i32, regs: &Regs) -> Result<()> {
    request(
        "SETREGS",
        libc::PTRACE_SETREGS,
        pid,
        0,
        std::ptr::from_ref(regs) as usize,
    )
}

pub(crate) fn event_msg(pid: i32) -> Result<u64> {
    let mut message: libc::c_ulong = 0;
    request(
        "GETEVENTMSG",
        libc::PTRACE_GETEVENTMSG,
        pid,
        0,
        &raw mut message as usize,
    )?;
    Ok(message)
}

pub(crate) fn siginfo(pid: i32) -> Result<libc::siginfo_t> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    request(
        "GETSIGINFO",
        libc::PTRACE_GETSIGINFO,
        pid,
        0,
        info.as_mut_ptr() as usize,
    )?;
    // SAFETY: the kernel filled it, and all bit patterns (also the zeroes before) are valid.
    Ok(unsafe { info.assume_init() })
}

/// Reads the extended state into `buffer`; returns how many bytes the kernel has.
pub(crate) fn get_xstate(pid: i32, buffer: &mut [u8]) -> Result<usize> {
    let mut iov = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    request(
        "GETREGSET",
        libc::PTRACE_GETREGSET,
        pid,
        NT_X86_XSTATE,
        &raw mut iov as usize,
    )?;
    Ok(iov.iov_len)
}

pub(crate) fn set_xstate(pid: i32, buffer: &[u8]) -> Result<()> {
    // The kernel only reads through this pointer.
    let mut iov = libc::iovec {
        iov_base: buffer.as_ptr().cast_mut().cast(),
        iov_len: buffer.len(),
    };
    request(
        "SETREGSET",
        libc::PTRACE_SETREGSET,
        pid,
        NT_X86_XSTATE,
        &raw mut iov as usize,
    )
}

/// One `wait4`; `EINTR` is passed on, since it is how a tick is noticed.
pub(crate) fn wait_interruptible(pid: i32) -> Result<i32, Errno> {
    let mut status = 0;
    // SAFETY: `status` outlives the call; the resource usage pointer may be null.
    let answer = unsafe { libc::wait4(pid, &mut status, WALL, std::ptr::null_mut()) };
    Errno::result(answer).map(|_| status)
}

/// Waits whatever signals arrive at the supervisor meanwhile.
pub(crate) fn wait(pid: i32) -> Result<i32> {
    loop {
        match wait_interruptible(pid) {
            Err(Errno::EINTR) => {}
            answer => return answer.map_err(|errno| Error::sys("wait4", pid, errno)),
        }
    }
}

pub(crate) fn kill(pid: i32) -> Result<(), Errno> {
    // SAFETY: no memory is involved.
    Errno::result(unsafe { libc::kill(pid, libc::SIGKILL) }).map(drop)
}
