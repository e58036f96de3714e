//! Who the process is: ids, groups, sessions, capabilities.
//!
//! The program runs as the user who started tracefork. It may move between the ids that it has, as any
//! program may, and root may become anybody: which files it may open then is decided by the model's file
//! system, not by the supervisor, who opens them.

use crate::call::Call;
use crate::effect::{Effect, Outcome, Prepared};
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use crate::object::{Object, Touch};
use crate::process::{Ids, Process};
use crate::processes::Pid;
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

/// 0 and the own pid (or a thread's id) are this process.
pub(crate) fn is_self(cx: &Cx, pid: i32) -> bool {
    pid == 0 || pid as u32 == cx.model.process.pid || cx.model.threads.contains_key(&(pid as u32))
}

fn check_self(cx: &Cx, pid: i32) -> Result<(), Errno> {
    if is_self(cx, pid) || named(cx, pid).is_ok() {
        Ok(())
    } else {
        Err(Errno::ESRCH)
    }
}

/// The group and the session of the process that a number names; 0 is the caller.
fn named(cx: &Cx, pid: i32) -> Result<(Pid, Pid), Errno> {
    let model = &cx.model;
    if is_self(cx, pid) {
        return Ok((model.process.group, model.process.session));
    }
    let owner = model.process_of(pid as u32).unwrap_or(pid as u32);
    let living = model.process_at(owner);
    let living = living.map(|process| (process.group, process.session));
    let dead = || {
        let zombie = model.zombies.get(&owner)?;
        Some((zombie.group, zombie.session))
    };
    living.or_else(dead).ok_or(Errno::ESRCH)
}

pub fn getpgid(cx: &mut Cx, call: &Call) -> Outcome {
    done(named(cx, call.int(0))?.0)
}

pub fn getsid(cx: &mut Cx, call: &Call) -> Outcome {
    done(named(cx, call.int(0))?.1)
}

/// With other processes about, who is in which group decides who gets a signal.
pub fn prepare_group(cx: &Cx, _: &Call) -> Prepared {
    if cx.model.is_single() {
        return Prepared::invisible();
    }
    Prepared::visible(vec![Touch::write(Object::Everything)])
}

pub fn prepare_parent(cx: &Cx, _: &Call) -> Prepared {
    if cx.model.is_single() {
        return Prepared::invisible();
    }
    Prepared::visible(vec![Touch::read(Object::Process)])
}

/// `setpgid(pid, group)`: of oneself, or of a child that has not become another program yet.
pub fn setpgid(cx: &mut Cx, call: &Call) -> Outcome {
    let (pid, group) = (call.int(0), call.int(1));
    if group < 0 {
        return Err(Errno::EINVAL);
    }
    let own = &cx.model.process;
    let target = if pid == 0 { own.pid } else { pid as Pid };
    let process = cx.model.process_at(target).ok_or(Errno::ESRCH)?;
    if target != own.pid {
        if process.parent != own.pid {
            return Err(Errno::ESRCH);
        }
        if process.session != own.session {
            return Err(Errno::EPERM);
        }
        if process.program.execed {
            return Err(Errno::EACCES);
        }
    }
    if process.session == target {
        return Err(Errno::EPERM);
    }
    let group = if group == 0 { target } else { group as Pid };
    let session = process.session;
    let is_there = |pid: Pid| {
        let other = cx.model.process_at(pid);
        other.is_some_and(|other| other.group == group && other.session == session)
    };
    if group != target && !cx.model.pids().into_iter().any(is_there) {
        return Err(Errno::EPERM);
    }
    if let Some(process) = cx.model.process_at_mut(target) {
        process.group = group;
    }
    Effect::ok()
}

/// A group leader cannot start a session; a program started from a shell is one.
pub fn setsid(cx: &mut Cx, _: &Call) -> Outcome {
    let own = cx.model.process.pid;
    let leads = |pid: Pid| {
        cx.model
            .process_at(pid)
            .is_some_and(|process| process.group == own)
    };
    if cx.model.pids().into_iter().any(leads) {
        return Err(Errno::EPERM);
    }
    let process = &mut cx.model.process;
    process.group = own;
    process.session = own;
    done(own)
}

pub fn getuid(cx: &mut Cx, _: &Call) -> Outcome {
    done(cx.model.process.owner.user.real)
}

pub fn geteuid(cx: &mut Cx, _: &Call) -> Outcome {
    done(cx.model.process.owner.user.effective)
}

pub fn getgid(cx: &mut Cx, _: &Call) -> Outcome {
    done(cx.model.process.owner.group.real)
}

pub fn getegid(cx: &mut Cx, _: &Call) -> Outcome {
    done(cx.model.process.owner.group.effective)
}

type Select = fn(&mut Process) -> &mut Ids;
const USER: Select = |process| &mut process.owner.user;
const GROUP: Select = |process| &mut process.owner.group;
/// -1: leave as it is.
const KEEP: u32 = u32::MAX;

pub(super) fn is_root(cx: &Cx) -> bool {
    cx.model.process.owner.user.effective == 0
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
    done(cx.model.process.owner.user.effective)
}

pub fn setfsgid(cx: &mut Cx, _: &Call) -> Outcome {
    done(cx.model.process.owner.group.effective)
}

pub fn getgroups(cx: &mut Cx, call: &Call) -> Outcome {
    let size = call.int(0);
    let groups = cx.model.process.owner.groups.clone();
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
    cx.model.process.owner.groups = groups;
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

#[cfg(test)]
mod tests;
