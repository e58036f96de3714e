//! `clone3`: as `clone`, with its arguments in memory.
//!
//! It makes processes only. For threads it says `ENOSYS`: the C libraries try it first and then use `clone`, which shows the
//! same in every register.

use crate::call::Call;
use crate::effect::{Outcome, Prepared};
use crate::handlers::processes::{CLEAR_HANDLERS, Making, make};
use crate::handlers::threads;
use crate::memory::{GuestMemoryExt, PAGE};
use crate::model::Cx;
use syscalls::Errno;

/// The words of `struct clone_args`, in its order.
mod word {
    pub const FLAGS: usize = 0;
    pub const PIDFD: usize = 1;
    pub const CHILD_TID: usize = 2;
    pub const PARENT_TID: usize = 3;
    pub const EXIT_SIGNAL: usize = 4;
    pub const STACK: usize = 5;
    pub const STACK_SIZE: usize = 6;
    pub const TLS: usize = 7;
    pub const SET_TID: usize = 8;
    pub const SET_TID_SIZE: usize = 9;
    pub const CGROUP: usize = 10;
}

const WORDS: usize = 11;
/// The first version had as many words.
const LEAST: u64 = 64;
/// `CLONE_INTO_CGROUP`.
const INTO_CGROUP: u64 = 1 << 33;
/// What the lowest byte may have: `CLONE_NEWTIME`, where `clone` has the signal.
const NEW_TIME: u64 = 0x80;
const LAST_SIGNAL: u64 = 64;
/// `MAX_PID_NS_LEVEL`.
const MAX_LEVELS: u64 = 32;

/// The words that the program gives; those that its version does not have are zero.
fn read_words(cx: &Cx, addr: u64, size: u64) -> Result<[u64; WORDS], Errno> {
    if size > PAGE {
        return Err(Errno::E2BIG);
    }
    if size < LEAST {
        return Err(Errno::EINVAL);
    }
    let bytes = cx.mem.read_vec(addr, size as usize)?;
    let known = bytes.len().min(WORDS * 8);
    // A newer version that asks for something.
    if bytes[known..].iter().any(|&byte| byte != 0) {
        return Err(Errno::E2BIG);
    }
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes[..known].chunks(8)) {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_le_bytes(whole);
    }
    Ok(words)
}

fn check(words: &[u64; WORDS], size: u64) -> Result<(), Errno> {
    let flags = words[word::FLAGS];
    let has = |flag: i32| flags & u64::from(flag as u32) != 0;
    let (signal, stack) = (words[word::EXIT_SIGNAL], words[word::STACK]);
    let levels = words[word::SET_TID_SIZE];
    let known = u64::from(u32::MAX) | CLEAR_HANDLERS | INTO_CGROUP;
    let is_bad = levels > MAX_LEVELS
        || (words[word::SET_TID] == 0) != (levels == 0)
        || signal > LAST_SIGNAL
        || flags & INTO_CGROUP != 0 && (words[word::CGROUP] > i32::MAX as u64 || size < WORDS as u64 * 8)
        || flags & !known != 0
        || has(libc::CLONE_DETACHED)
        || flags & 0xff & !NEW_TIME != 0
        || has(libc::CLONE_SIGHAND) && flags & CLEAR_HANDLERS != 0
        || has(libc::CLONE_THREAD | libc::CLONE_PARENT) && signal != 0
        || (stack == 0) != (words[word::STACK_SIZE] == 0);
    match is_bad {
        true => Err(Errno::EINVAL),
        false => Ok(()),
    }
}

pub fn prepare(cx: &Cx, call: &Call) -> Prepared {
    let flags = cx.mem.read_u64(call.word(0)).unwrap_or_default();
    if is_of_thread(flags) {
        // Refused, which nobody else notices.
        return Prepared::invisible();
    }
    threads::prepare_new(cx, flags & libc::CLONE_PIDFD as u64 != 0)
}

fn is_of_thread(flags: u64) -> bool {
    flags & libc::CLONE_THREAD as u64 != 0
}

/// `clone3(arguments, size)`.
pub fn clone3(cx: &mut Cx, call: &Call) -> Outcome {
    let (addr, size) = (call.word(0), call.word(1));
    let words = read_words(cx, addr, size)?;
    if is_of_thread(words[word::FLAGS]) {
        return Err(Errno::ENOSYS);
    }
    check(&words, size)?;
    // Numbers are given by privilege, and so are other clocks.
    if words[word::SET_TID] != 0 || words[word::FLAGS] & NEW_TIME != 0 {
        return Err(Errno::EPERM);
    }
    if words[word::FLAGS] & INTO_CGROUP != 0 {
        // No descriptor can be one of a control group.
        return Err(Errno::EBADF);
    }
    make(
        cx,
        &Making {
            flags: words[word::FLAGS],
            exit_signal: words[word::EXIT_SIGNAL] as i32,
            stack: words[word::STACK].wrapping_add(words[word::STACK_SIZE]),
            parent_tid: words[word::PARENT_TID],
            child_tid: words[word::CHILD_TID],
            tls: words[word::TLS],
            pidfd: words[word::PIDFD],
        },
    )
}

#[cfg(test)]
mod tests;
