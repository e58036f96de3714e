//! Who the process is: ids, groups, sessions, capabilities.
//!
//! The program runs as the user who started tracefork. It may move between the ids that it has, as any
//! program may, and root may become anybody: which files it may open then is decided by the model's file
//! system, not by the supervisor, who opens them.

use crate::call::Call;
use crate::effect::{Effect, Outcome};
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use crate::process::{Ids, Process};
use syscalls::Errno;

fn done(id: u32) -> Outcome {
    Ok(Effect::Done(i64::from(id)))
}

pub fn getpid(cx: &mut Cx, _: &Call) -> Outcome {
    done(cx.model.process.pid)
}

pub fn getppid(cx: &mut Cx, _: &Call) -> Outcome {
    done(cx.model.process.parent)
}

pub fn getpgrp(cx: &mut Cx, _: &Call) -> Outcome {
    done(cx.model.process.group)
}

/// 0 and the own pid (or a thread's id) are this process; no other is in sight.
pub(crate) fn is_self(cx: &Cx, pid: i32) -> bool {
    pid == 0 || pid as u32 == cx.model.process.pid || cx.model.threads.contains_key(&(pid as u32))
}

fn check_self(cx: &Cx, pid: i32) -> Result<(), Errno> {
    if is_self(cx, pid) {
        Ok(())
    } else {
        Err(Errno::ESRCH)
    }
}

pub fn getpgid(cx: &mut Cx, call: &Call) -> Outcome {
    check_self(cx, call.int(0))?;
    done(cx.model.process.group)
}

pub fn getsid(cx: &mut Cx, call: &Call) -> Outcome {
    check_self(cx, call.int(0))?;
    done(cx.model.process.session)
}

/// `setpgid(pid, group)`: into its own group, or to stay where it is.
pub fn setpgid(cx: &mut Cx, call: &Call) -> Outcome {
    let (pid, group) = (call.int(0), call.int(1));
    if group < 0 {
        return Err(Errno::EINVAL);
    }
    check_self(cx, pid)?;
    let process = &mut cx.model.process;
    if process.session == process.pid {
        return Err(Errno::EPERM);
    }
    let group = if group == 0 { process.pid } else { group as u32 };
    if group != process.pid && group != process.group {
        return Err(Errno::EPERM);
    }
    process.group = group;
    Effect::ok()
}

/// A group leader cannot start a session; a program started from a shell is one.
pub fn setsid(cx: &mut Cx, _: &Call) -> Outcome {
    let process = &mut cx.model.process;
    if process.group == process.pid {
        return Err(Errno::EPERM);
    }
    process.group = process.pid;
    process.session = process.pid;
    done(process.pid)
}

pub fn getuid(cx: &mut Cx, _: &Call) -> Outcome {
    done(cx.model.process.user.real)
}

pub fn geteuid(cx: &mut Cx, _: &Call) -> Outcome {
    done(cx.model.process.user.effective)
}

pub fn getgid(cx: &mut Cx, _: &Call) -> Outcome {
    done(cx.model.process.group_ids.real)
}

pub fn getegid(cx: &mut Cx, _: &Call) -> Outcome {
    done(cx.model.process.group_ids.effective)
}

type Select = fn(&mut Process) -> &mut Ids;
const USER: Select = |process| &mut process.user;
const GROUP: Select = |process| &mut process.group_ids;
/// -1: leave as it is.
const KEEP: u32 = u32::MAX;

pub(super) fn is_root(cx: &Cx) -> bool {
    cx.model.process.user.effective == 0
}

fn set_ids(cx: &mut Cx, select: Select, wanted: [u32; 3]) -> Outcome {
    let may_be_anybody = is_root(cx);
    let ids = select(&mut cx.model.process);
    if !may_be_anybody && wanted.iter().any(|&id| id != KEEP && !ids.contains(id)) {
        return Err(Errno::EPERM);
    }
    for (id, wanted) in [&mut ids.real, &mut ids.effective, &mut ids.saved]
        .into_iter()
        .zip(wanted)
    {
        if wanted != KEEP {
            *id = wanted;
        }
    }
    Effect::ok()
}

/// Root cannot come back from there.
fn set_one(cx: &mut Cx, select: Select, id: u32) -> Outcome {
    if id == KEEP {
        return Err(Errno::EINVAL);
    }
    let others = if is_root(cx) { id } else { KEEP };
    set_ids(cx, select, [others, id, others])
}

/// The saved id follows when the real one is set, or the effective one to another than the real.
fn set_real_and_effective(cx: &mut Cx, select: Select, real: u32, effective: u32) -> Outcome {
    let before = *select(&mut cx.model.process);
    let saved = if real != KEEP || (effective != KEEP && effective != before.real) {
        if effective == KEEP {
            before.effective
        } else {
            effective
        }
    } else {
        KEEP
    };
    set_ids(cx, select, [real, effective, saved])
}

fn get_ids(cx: &mut Cx, select: Select, call: &Call) -> Outcome {
    let ids = *select(&mut cx.model.process);
    for (i, id) in [ids.real, ids.effective, ids.saved].into_iter().enumerate() {
        cx.mem.write_u32(call.word(i), id)?;
    }
    Effect::ok()
}

pub fn setuid(cx: &mut Cx, call: &Call) -> Outcome {
    set_one(cx, USER, call.uint(0))
}

pub fn setgid(cx: &mut Cx, call: &Call) -> Outcome {
    set_one(cx, GROUP, call.uint(0))
}

pub fn setreuid(cx: &mut Cx, call: &Call) -> Outcome {
    set_real_and_effective(cx, USER, call.uint(0), call.uint(1))
}

pub fn setregid(cx: &mut Cx, call: &Call) -> Outcome {
    set_real_and_effective(cx, GROUP, call.uint(0), call.uint(1))
}

pub fn setresuid(cx: &mut Cx, call: &Call) -> Outcome {
    set_ids(cx, USER, [call.uint(0), call.uint(1), call.uint(2)])
}

pub fn setresgid(cx: &mut Cx, call: &Call) -> Outcome {
    set_ids(cx, GROUP, [call.uint(0), call.uint(1), call.uint(2)])
}

pub fn getresuid(cx: &mut Cx, call: &Call) -> Outcome {
    get_ids(cx, USER, call)
}

pub fn getresgid(cx: &mut Cx, call: &Call) -> Outcome {
    get_ids(cx, GROUP, call)
}

/// Returns the id before, and no error ever. The file-system id follows the effective one, which is all
/// that an id outside the process's own could not be.
pub fn setfsuid(cx: &mut Cx, _: &Call) -> Outcome {
    done(cx.model.process.user.effective)
}

pub fn setfsgid(cx: &mut Cx, _: &Call) -> Outcome {
    done(cx.model.process.group_ids.effective)
}

pub fn getgroups(cx: &mut Cx, call: &Call) -> Outcome {
    let size = call.int(0);
    let groups = cx.model.process.groups.clone();
    if size < 0 || (size != 0 && (size as usize) < groups.len()) {
        return Err(Errno::EINVAL);
    }
    if size != 0 {
        for (i, &group) in groups.iter().enumerate() {
            cx.mem.write_u32(call.word(1) + 4 * i as u64, group)?;
        }
    }
    Ok(Effect::Done(groups.len() as i64))
}

/// `setgroups(size, list)`: root's only.
pub fn setgroups(cx: &mut Cx, call: &Call) -> Outcome {
    const MOST: u64 = 65_536;
    let count = call.word(0) as u32;
    if !is_root(cx) {
        return Err(Errno::EPERM);
    }
    if u64::from(count) > MOST {
        return Err(Errno::EINVAL);
    }
    let mut groups = Vec::new();
    for i in 0..u64::from(count) {
        groups.push(cx.mem.read_u32(call.word(1) + 4 * i)?);
    }
    // In order, as the kernel keeps them.
    groups.sort_unstable();
    cx.model.process.groups = groups;
    Effect::ok()
}

const CAPABILITY_VERSION_1: u32 = 0x1998_0330;
const CAPABILITY_VERSION_2: u32 = 0x2007_1026;
const CAPABILITY_VERSION_3: u32 = 0x2008_0522;

/// How many sets of three words a version of the interface has. An unknown version is answered with ours.
fn capability_sets(cx: &mut Cx, header: u64) -> Result<u64, Errno> {
    match cx.mem.read_u32(header)? {
        CAPABILITY_VERSION_1 => Ok(1),
        CAPABILITY_VERSION_2 | CAPABILITY_VERSION_3 => Ok(2),
        _ => {
            cx.mem.write_u32(header, CAPABILITY_VERSION_3)?;
            Err(Errno::EINVAL)
        }
    }
}

/// The process has no capabilities: what they would allow is refused, so it would be a lie to show any.
pub fn capget(cx: &mut Cx, call: &Call) -> Outcome {
    let (header, data) = (call.word(0), call.word(1));
    let sets = match capability_sets(cx, header) {
        // A null `data` asks for the version only.
        Err(Errno::EINVAL) if data == 0 => return Effect::ok(),
        sets => sets?,
    };
    let pid = cx.mem.read_u32(header.wrapping_add(4))? as i32;
    if pid < 0 {
        return Err(Errno::EINVAL);
    }
    check_self(cx, pid)?;
    if data != 0 {
        cx.mem.write(data, &vec![0; 12 * sets as usize])?;
    }
    Effect::ok()
}

/// Giving up what one does not have is fine, asking for more is not.
pub fn capset(cx: &mut Cx, call: &Call) -> Outcome {
    let (header, data) = (call.word(0), call.word(1));
    let sets = capability_sets(cx, header)?;
    let pid = cx.mem.read_u32(header.wrapping_add(4))? as i32;
    if pid != 0 && !is_self(cx, pid) {
        return Err(Errno::EPERM);
    }
    let wanted = cx.mem.read_vec(data, 12 * sets as usize)?;
    if wanted.iter().any(|&byte| byte != 0) {
        return Err(Errno::EPERM);
    }
    Effect::ok()
}

/// `wait4(pid, status, options, usage)`: the process never has children.
pub fn wait4(_: &mut Cx, call: &Call) -> Outcome {
    let known = (libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED) as u32 | CLONE_OPTIONS;
    Err(match call.int(0) {
        _ if call.uint(2) & !known != 0 => Errno::EINVAL,
        i32::MIN => Errno::ESRCH,
        _ => Errno::ECHILD,
    })
}

/// `waitid(which, id, info, options, usage)`: the process never has children.
pub fn waitid(cx: &mut Cx, call: &Call) -> Outcome {
    let events = (libc::WEXITED | libc::WSTOPPED | libc::WCONTINUED) as u32;
    let known = (libc::WNOHANG | libc::WNOWAIT) as u32 | events | CLONE_OPTIONS;
    let options = call.uint(3);
    let refusal = match options & !known != 0 || options & events == 0 {
        true => Errno::EINVAL,
        false => no_child(call),
    };
    // The place for the answer is cleared even if there is none.
    if call.word(2) != 0 {
        cx.mem.write(call.word(2), &[0; WAITED_SIZE])?;
    }
    Err(refusal)
}

/// As far as the kernel fills in `siginfo_t` for a child.
const WAITED_SIZE: usize = 28;

fn no_child(call: &Call) -> Errno {
    let id = call.int(1);
    match call.uint(0) {
        libc::P_ALL => Errno::ECHILD,
        libc::P_PID if id > 0 => Errno::ECHILD,
        libc::P_PGID if id >= 0 => Errno::ECHILD,
        // There are no descriptors of processes.
        libc::P_PIDFD if id >= 0 => Errno::EBADF,
        _ => Errno::EINVAL,
    }
}

/// `__WNOTHREAD`, `__WCLONE` and `__WALL`.
const CLONE_OPTIONS: u32 = 0xe000_0000;

#[cfg(test)]
mod tests;
