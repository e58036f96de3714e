//! The address space. The kernel changes it, the supervisor watches (checkpoints and hooks depend on the
//! layout), and what would break a checkpoint is refused.

use crate::call::Call;
use crate::effect::{Effect, Outcome};
use crate::handlers::mapping::{self, is_mapped};
use crate::memory::PAGE;
use crate::memory::{GuestMemoryExt, check_reachable};
use crate::model::Cx;
use syscalls::{Errno, Sysno};

/// `madvise(addr, len, advice)`. Advice that changes what a fork copies would tear holes into snapshots;
/// advice that merges, poisons or offlines pages is not a program's to give here. `EINVAL` is what a kernel
/// built without the feature says.
pub fn madvise(cx: &mut Cx, call: &Call) -> Outcome {
    const MADV_COLLAPSE: i32 = 25;
    let is_sound = call.word(0).is_multiple_of(PAGE)
        && call
            .word(1)
            .checked_next_multiple_of(PAGE)
            .is_some_and(|len| call.word(0).checked_add(len).is_some());
    match call.int(2) {
        // A file keeps what it holds; the private memory that stands in for it must, too.
        libc::MADV_DONTNEED if is_sound && cx.model.fs.shared_in(call.word(0), call.word(1)) => {
            match is_mapped(cx, call.word(0), call.word(0) + call.word(1)) {
                true => Effect::ok(),
                false => Err(Errno::ENOMEM),
            }
        }
        // Only anonymous memory can be freed so, and the kernel would find some here.
        libc::MADV_FREE if cx.model.fs.shared_in(call.word(0), call.word(1)) => Err(Errno::EINVAL),
        libc::MADV_NORMAL
        | libc::MADV_RANDOM
        | libc::MADV_SEQUENTIAL
        | libc::MADV_WILLNEED
        | libc::MADV_DONTNEED
        | libc::MADV_DOFORK
        | libc::MADV_HUGEPAGE
        | libc::MADV_NOHUGEPAGE
        | libc::MADV_DONTDUMP
        | libc::MADV_DODUMP
        | libc::MADV_KEEPONFORK
        | libc::MADV_COLD
        | libc::MADV_PAGEOUT
        | libc::MADV_POPULATE_READ
        | libc::MADV_POPULATE_WRITE
        | MADV_COLLAPSE => Ok(Effect::Kernel),
        // When the kernel frees is its choice; freeing at once is one of the choices, and always the same. What it would not free, because it belongs to a file,
        // must not go either.
        libc::MADV_FREE => {
            let mut args = call.args;
            args[2] = libc::MADV_DONTNEED as u64;
            Ok(Effect::KernelTwice(call.args, args))
        }
        _ => Err(Errno::EINVAL),
    }
}

/// `mincore`: whether a page is resident depends on the machine; all of it is, as far as the program sees.
pub fn mincore(cx: &mut Cx, call: &Call) -> Outcome {
    /// Bounds what one call can make us build.
    const MOST: u64 = 1 << 20;
    let (addr, len) = (call.word(0), call.word(1));
    if addr % PAGE != 0 {
        return Err(Errno::EINVAL);
    }
    let pages = len.div_ceil(PAGE);
    check_reachable(addr, len).map_err(|_| Errno::ENOMEM)?;
    check_reachable(call.word(2), pages)?;
    // Unmapped memory is told by an error, which programs use to probe for it.
    let is_there = |page: &u64| mapping::is_mapped(cx, addr + page * PAGE, addr + (page + 1) * PAGE);
    let mapped = (0..pages.min(MOST)).take_while(is_there).count();
    if mapped > 0 {
        cx.mem.write(call.word(2), &vec![1; mapped])?;
    }
    match mapped as u64 == pages {
        true => Effect::ok(),
        false => Err(Errno::ENOMEM),
    }
}

/// The pages that a call of the `mlock` family means.
fn pages_of(call: &Call) -> Result<std::ops::Range<u64>, Errno> {
    let start = call.word(0) / PAGE * PAGE;
    let len = call.word(1).wrapping_add(call.word(0) % PAGE);
    let len = len.checked_next_multiple_of(PAGE).unwrap_or_default();
    match start.checked_add(len) {
        Some(end) => Ok(start..end),
        None => Err(Errno::EINVAL),
    }
}

/// `mlock` and its kin promise that memory is not paged out. Nothing the program sees depends on it, and a
/// lock would not survive a fork.
pub fn mlock(cx: &mut Cx, call: &Call) -> Outcome {
    const MLOCK_ONFAULT: u32 = 1;
    let is_second = call.sysno == Sysno::mlock2;
    if is_second && call.uint(2) & !MLOCK_ONFAULT != 0 {
        return Err(Errno::EINVAL);
    }
    let later = is_second && call.uint(2) & MLOCK_ONFAULT != 0;
    let pages = pages_of(call)?;
    // All of it is brought in, which takes the right to read it.
    let mut starts = pages.clone().step_by(PAGE as usize);
    let readable = later || starts.all(|page| cx.mem.peek(page, &mut [0]).is_ok());
    match readable && mapping::is_mapped(cx, pages.start, pages.end) {
        true => Effect::ok(),
        false => Err(Errno::ENOMEM),
    }
}

/// Nothing is locked, so nothing is undone; the kernel knows what is mapped.
pub fn munlock(_: &mut Cx, _: &Call) -> Outcome {
    Ok(Effect::Kernel)
}

pub fn munlockall(_: &mut Cx, _: &Call) -> Outcome {
    Effect::ok()
}

pub fn mlockall(_: &mut Cx, call: &Call) -> Outcome {
    const KNOWN: i32 = libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT;
    match call.int(0) {
        flags if flags & !KNOWN != 0 || flags & !libc::MCL_ONFAULT == 0 => Err(Errno::EINVAL),
        _ => Effect::ok(),
    }
}

/// Key -1 is a plain `mprotect`, which the kernel runs; there are no other keys.
pub fn pkey_mprotect(cx: &mut Cx, call: &Call) -> Outcome {
    if call.int(3) == -1 {
        mapping::mprotect(cx, call)
    } else {
        Err(Errno::EINVAL)
    }
}

/// One memory node, and the default policy everywhere.
pub fn get_mempolicy(cx: &mut Cx, call: &Call) -> Outcome {
    const MPOL_F_NODE: u64 = 1;
    const MPOL_F_ADDR: u64 = 2;
    const MPOL_F_MEMS_ALLOWED: u64 = 4;
    let (mode, mask, bits, flags) = (call.word(0), call.word(1), call.word(2), call.word(4));
    if flags & !(MPOL_F_NODE | MPOL_F_ADDR | MPOL_F_MEMS_ALLOWED) != 0 {
        return Err(Errno::EINVAL);
    }
    if mode != 0 {
        cx.mem.write_u32(mode, 0)?;
    }
    if mask != 0 {
        let words = bits.div_ceil(64);
        if words == 0 || words > 64 {
            return Err(Errno::EINVAL);
        }
        let nodes = u64::from(flags & MPOL_F_MEMS_ALLOWED != 0);
        for word in 0..words {
            cx.mem
                .write_u64(mask.wrapping_add(8 * word), if word == 0 { nodes } else { 0 })?;
        }
    }
    Effect::ok()
}

/// Where memory lies makes no difference to what a program computes.
pub fn set_mempolicy(_: &mut Cx, call: &Call) -> Outcome {
    const MODES: i32 = 7;
    const MODE_FLAGS: i32 = 0xe000;
    if (0..MODES).contains(&(call.int(0) & !MODE_FLAGS)) {
        Effect::ok()
    } else {
        Err(Errno::EINVAL)
    }
}

pub fn mbind(_: &mut Cx, _: &Call) -> Outcome {
    Effect::ok()
}

#[cfg(test)]
mod tests;
