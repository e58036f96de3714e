//! The supervising thread has `cpuid` fault as its task has, so that switching between the two is cheap.
//!
//! Whether `cpuid` faults is a bit of a processor register that the kernel sets at each switch between threads that differ in it. Under
//! a hypervisor that costs more than the rest of a stop: 17 µs against 5 µs. Where both sides have the bit, it stays. The supervisor
//! itself has next to no use for the instruction after its start; where it executes one all the same (a compression library
//! that looks for vector instructions), a handler of the signal gives the machine's answer.

use crate::error::{Error, Result};
use libc::{REG_RAX, REG_RBX, REG_RCX, REG_RDX, REG_RIP};
use nix::errno::Errno;
use std::arch::x86_64::__cpuid_count;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;

/// `arch_prctl`: 0 makes `cpuid` fault, 1 lets it run.
pub(crate) const ARCH_SET_CPUID: u64 = 0x1012;
/// The instruction.
const CPUID: [u8; 2] = [0x0f, 0xa2];
/// The signal comes from a fault that is about no address.
const SI_KERNEL: i32 = 0x80;

/// What was done about the signal before.
static EARLIER: OnceLock<libc::sigaction> = OnceLock::new();

/// Lets `cpuid` fault in the calling thread, and answers it there. `false`: the machine cannot.
///
/// The setting is the thread's; threads that it makes have it too, programs that it executes have not.
pub fn fault_cpuid_here() -> Result<bool> {
    static INSTALLED: OnceLock<Result<(), Errno>> = OnceLock::new();
    let failure = |call, errno| Error::Sys {
        call,
        pid: nix::unistd::getpid().as_raw(),
        errno,
    };
    INSTALLED
        .get_or_init(install)
        .map_err(|errno| failure("sigaction", errno))?;
    match set_faulting(true) {
        Ok(()) => Ok(true),
        Err(Errno::ENODEV) => Ok(false),
        Err(errno) => Err(failure("arch_prctl", errno)),
    }
}

fn set_faulting(on: bool) -> Result<(), Errno> {
    // SAFETY: no memory is involved.
    let answer = unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SET_CPUID, u64::from(!on)) };
    Errno::result(answer).map(drop)
}

fn install() -> Result<(), Errno> {
    let mut earlier = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the earlier action is written in full; it is read back before it is used.
    let earlier = unsafe {
        Errno::result(libc::sigaction(libc::SIGSEGV, ptr::null(), earlier.as_mut_ptr()))?;
        earlier.assume_init()
    };
    // Known before the handler can be called.
    EARLIER.get_or_init(|| earlier);
    let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void) = on_fault;
    // SAFETY: all zeros is a valid action, and the handler has the signature that `SA_SIGINFO` asks for. It keeps to what a signal
    // handler may do: two system calls, an instruction, the interrupted registers.
    Errno::result(unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = handler as usize;
        // On the alternate stack, since the earlier handler may be the one that reports an overflow of the stack.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        libc::sigaction(libc::SIGSEGV, &action, ptr::null_mut())
    })
    .map(drop)
}

extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes valid pointers to both, which live as long as the handler runs.
    let (code, registers) = unsafe {
        let context = &mut *context.cast::<libc::ucontext_t>();
        ((*info).si_code, &mut context.uc_mcontext.gregs)
    };
    if code != SI_KERNEL || !is_cpuid(registers[REG_RIP as usize] as u64) {
        return pass_on(signal, info, context);
    }
    let (leaf, subleaf) = (
        registers[REG_RAX as usize] as u32,
        registers[REG_RCX as usize] as u32,
    );
    // Neither can fail: the fault says that the machine has the setting.
    let _ = set_faulting(false);
    let answer = __cpuid_count(leaf, subleaf);
    let _ = set_faulting(true);
    for (register, value) in [
        (REG_RAX, answer.eax),
        (REG_RBX, answer.ebx),
        (REG_RCX, answer.ecx),
        (REG_RDX, answer.edx),
    ] {
        registers[register as usize] = i64::from(value);
    }
    registers[REG_RIP as usize] += CPUID.len() as i64;
}

/// Is this the instruction there?
fn is_cpuid(address: u64) -> bool {
    let at = address as *const u8;
    // SAFETY: a fault about no address is one of an instruction that was fetched, so its bytes can be read; the second byte only
    // if the first one says that there is one.
    unsafe { at.read() == CPUID[0] && at.add(1).read() == CPUID[1] }
}

/// A fault of another kind is dealt with as if we were not there.
fn pass_on(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    match EARLIER.get() {
        Some(earlier) if earlier.sa_sigaction != libc::SIG_DFL && earlier.sa_sigaction != libc::SIG_IGN => {
            // SAFETY: it was installed as a handler; with `SA_SIGINFO` it takes three arguments, and without it the calling convention lets
            // it ignore the last two.
            unsafe {
                let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void) =
                    std::mem::transmute(earlier.sa_sigaction);
                handler(signal, info, context);
            }
        }
        _ => {
            // SAFETY: no handler, no memory. The instruction faults again, and that is the end.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_goes_on_to_have_answers() {
        // In a thread of its own: the setting stays.
        std::thread::spawn(|| {
            let before = __cpuid_count(0, 0);
            let can = fault_cpuid_here().expect("the handler is installed");
            assert_eq!(__cpuid_count(0, 0), before);
            assert_eq!(__cpuid_count(0, 0), before);
            assert_eq!(fault_cpuid_here().expect("again"), can);
        })
        .join()
        .expect("the thread lives");
    }
}
