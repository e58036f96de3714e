//! `prctl`, `sysinfo`, `getrandom` and other calls that belong to no larger topic.

use crate::call::Call;
use crate::effect::{Effect, Outcome, Prepared};
use crate::memory::{GuestMemoryExt, check_reachable};
use crate::model::Cx;
use crate::object::{Object, Touch};
use crate::signals::LAST;
use syscalls::Errno;

/// A process has one stream of random bytes: with a second thread it matters who draws first.
pub fn prepare_getrandom(cx: &Cx, _: &Call) -> Prepared {
    if cx.model.threads.len() < 2 {
        return Prepared::invisible();
    }
    Prepared::visible(vec![Touch::write(Object::Process)])
}

/// `getrandom(buf, len, flags)`.
pub fn getrandom(cx: &mut Cx, call: &Call) -> Outcome {
    const GRND_INSECURE: u32 = 4;
    const KNOWN: u32 = libc::GRND_NONBLOCK | libc::GRND_RANDOM | GRND_INSECURE;
    /// The most that Linux gives at once.
    const MOST: u64 = (1 << 25) - 1;
    let flags = call.uint(2);
    if flags & !KNOWN != 0 || flags & (libc::GRND_RANDOM | GRND_INSECURE) == libc::GRND_RANDOM | GRND_INSECURE
    {
        return Err(Errno::EINVAL);
    }
    let asked = call.word(1).min(MOST);
    check_reachable(call.word(0), asked)?;
    let mut bytes = vec![0; asked as usize];
    cx.model.random.fill(&mut bytes);
    match cx.mem.write_some(call.word(0), &bytes) {
        0 if asked > 0 => Err(Errno::EFAULT),
        written => Ok(Effect::Done(written as i64)),
    }
}

/// A machine with 8 GiB, half of it free: the real figures change from one look to the next.
pub fn sysinfo(cx: &mut Cx, call: &Call) -> Outcome {
    const SIZE: usize = 112;
    const TOTAL: u64 = 8 << 30;
    let uptime = cx.model.clock.now() / 1_000_000_000;
    let threads = cx.model.thread_count() as u64;
    let addr = call.word(0);
    cx.mem.write(addr, &[0; SIZE])?;
    // uptime, three load averages, total, free, shared, buffers, swap total, swap free, threads, …, unit.
    for (at, value) in [(0, uptime), (32, TOTAL), (40, TOTAL / 2), (80, threads)] {
        cx.mem.write_u64(addr.wrapping_add(at), value)?;
    }
    cx.mem.write_u32(addr.wrapping_add(104), 1)?;
    Effect::ok()
}

/// `prctl(option, …)`: what programs set about themselves is kept; what would change the process behind the
/// supervisor's back is refused as by a kernel built without it.
pub fn prctl(cx: &mut Cx, call: &Call) -> Outcome {
    const PR_GET_TSC: i32 = 25;
    const PR_TSC_ENABLE: u32 = 1;
    const LAST_CAPABILITY: u64 = 40;
    const PR_CAP_AMBIENT_IS_SET: u64 = 1;
    const PR_CAP_AMBIENT_CLEAR_ALL: u64 = 4;
    let arg = call.word(1);
    let process = &mut cx.model.process;
    match call.int(0) {
        libc::PR_SET_NAME => set_name(cx, arg),
        libc::PR_GET_NAME => {
            let name = cx.thread().name;
            cx.mem.write(arg, &name)?;
            Effect::ok()
        }
        libc::PR_SET_PDEATHSIG if arg > LAST as u64 => Err(Errno::EINVAL),
        libc::PR_SET_PDEATHSIG => {
            process.settings.parent_death_signal = arg as i32;
            Effect::ok()
        }
        libc::PR_GET_PDEATHSIG => {
            let signal = process.settings.parent_death_signal;
            cx.mem.write_u32(arg, signal as u32)?;
            Effect::ok()
        }
        libc::PR_GET_DUMPABLE => Ok(Effect::Done(process.settings.dumpable.into())),
        libc::PR_SET_DUMPABLE => set_flag(&mut process.settings.dumpable, arg),
        libc::PR_GET_KEEPCAPS => Ok(Effect::Done(process.settings.keep_capabilities.into())),
        libc::PR_SET_KEEPCAPS => set_flag(&mut process.settings.keep_capabilities, arg),
        libc::PR_GET_NO_NEW_PRIVS => Ok(Effect::Done(process.settings.no_new_privs.into())),
        libc::PR_SET_NO_NEW_PRIVS if arg == 1 => {
            process.settings.no_new_privs = true;
            Effect::ok()
        }
        libc::PR_SET_CHILD_SUBREAPER => {
            process.settings.child_subreaper = arg != 0;
            Effect::ok()
        }
        libc::PR_GET_CHILD_SUBREAPER => {
            let subreaper = process.settings.child_subreaper;
            cx.mem.write_u32(arg, subreaper.into())?;
            Effect::ok()
        }
        libc::PR_SET_TIMERSLACK => {
            process.settings.timer_slack = if arg == 0 { 50_000 } else { arg };
            Effect::ok()
        }
        libc::PR_GET_TIMERSLACK => Ok(Effect::Done(process.settings.timer_slack as i64)),
        libc::PR_CAPBSET_READ if arg <= LAST_CAPABILITY => Ok(Effect::Done(0)),
        libc::PR_CAP_AMBIENT if arg == PR_CAP_AMBIENT_IS_SET || arg == PR_CAP_AMBIENT_CLEAR_ALL => {
            Effect::ok()
        }
        libc::PR_GET_SECUREBITS | libc::PR_GET_THP_DISABLE | libc::PR_GET_SECCOMP => Effect::ok(),
        // The supervisor traps the time-stamp counter; as far as the program can tell it is enabled.
        PR_GET_TSC => {
            cx.mem.write_u32(arg, PR_TSC_ENABLE)?;
            Effect::ok()
        }
        _ => Err(Errno::EINVAL),
    }
}

/// At most fifteen bytes and a NUL.
fn set_name(cx: &mut Cx, addr: u64) -> Outcome {
    let mut name = [0; 16];
    for (i, byte) in name.iter_mut().take(15).enumerate() {
        // One by one: the string may end just before an unmapped page.
        cx.mem
            .read(addr.wrapping_add(i as u64), std::slice::from_mut(byte))?;
        if *byte == 0 {
            break;
        }
    }
    cx.thread().name = name;
    Effect::ok()
}

fn set_flag(flag: &mut bool, value: u64) -> Outcome {
    match value {
        0 | 1 => {
            *flag = value == 1;
            Effect::ok()
        }
        _ => Err(Errno::EINVAL),
    }
}

/// `personality(-1)` asks. The supervisor has turned address randomisation off, which the program is not
/// told; anything but the usual personality would change the machine under it.
pub fn personality(_: &mut Cx, call: &Call) -> Outcome {
    const QUERY: u32 = u32::MAX;
    const ADDR_NO_RANDOMIZE: u32 = libc::ADDR_NO_RANDOMIZE as u32;
    match call.uint(0) {
        QUERY | 0 | ADDR_NO_RANDOMIZE => Effect::ok(),
        _ => Err(Errno::EINVAL),
    }
}

#[cfg(test)]
mod tests;
