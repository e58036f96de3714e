//! Descriptors of processes: `pidfd_open`, `pidfd_send_signal`, `pidfd_getfd`.

use crate::call::Call;
use crate::channels::install;
use crate::effect::{Effect, Outcome, Prepared};
use crate::fd::Kind;
use crate::handlers::signals;
use crate::model::{Cx, Model};
use crate::object::{Object, Touch};
use crate::processes::{INIT, Pid};
use crate::signals::SigInfo;
use syscalls::Errno;

/// The process behind a descriptor.
pub(super) fn process(model: &Model, fd: i32) -> Result<Pid, Errno> {
    match model.files.lookup(fd)?.1.kind {
        Kind::PidFd(pid) => Ok(pid),
        _ => Err(Errno::EBADF),
    }
}

/// `pidfd_open(pid, flags)`. Single threads (`PIDFD_THREAD`) are refused, as by kernels before 6.9.
pub fn open(cx: &mut Cx, call: &Call) -> Outcome {
    let (pid, flags) = (call.int(0), call.int(1));
    if flags & !libc::O_NONBLOCK != 0 || pid <= 0 {
        return Err(Errno::EINVAL);
    }
    let pid = pid as Pid;
    if !cx.model.is_known(pid) {
        return Err(match cx.model.process_of(pid) {
            // A thread that is not the first of its process.
            Some(_) => Errno::ENOENT,
            None => Errno::ESRCH,
        });
    }
    let fd = install(cx.model, Kind::PidFd(pid), libc::O_RDWR | flags, true)?;
    Ok(Effect::Done(i64::from(fd)))
}

pub fn prepare_send(cx: &Cx, call: &Call) -> Prepared {
    let mut prepared = signals::prepare_kill(cx, call);
    if let Ok(descriptor) = cx.model.files.descriptor(call.fd(0)) {
        let description = Object::Description(descriptor.description);
        prepared.touches.push(Touch::read(description));
    }
    prepared
}

/// Whom a signal goes to: the first thread, the process, its group.
const SIGNAL_THREAD: u32 = 1;
const SIGNAL_THREAD_GROUP: u32 = 2;
const SIGNAL_PROCESS_GROUP: u32 = 4;

/// `pidfd_send_signal(pidfd, signo, info, flags)`.
pub fn send_signal(cx: &mut Cx, call: &Call) -> Outcome {
    let (signo, info, scope) = (call.int(1), call.word(2), call.uint(3));
    let known = [0, SIGNAL_THREAD, SIGNAL_THREAD_GROUP, SIGNAL_PROCESS_GROUP];
    if !known.contains(&scope) {
        return Err(Errno::EINVAL);
    }
    let pid = process(cx.model, call.fd(0))?;
    let info = match info {
        0 => {
            let own = &cx.model.process;
            SigInfo::user(signo, own.pid, own.owner.user.real)
        }
        _ => {
            let raw = signals::read_raw(cx, info)?;
            if raw.signo != signo {
                return Err(Errno::EINVAL);
            }
            if pid != cx.model.process.pid && signals::is_forged(&raw) {
                return Err(Errno::EPERM);
            }
            raw
        }
    };
    if !cx.model.is_known(pid) {
        return Err(Errno::ESRCH);
    }
    match scope {
        SIGNAL_THREAD => signals::queue_to_thread(cx, pid, info),
        SIGNAL_PROCESS_GROUP => signals::queue(cx, -(pid as i32), info),
        _ => signals::queue(cx, pid as i32, info),
    }
}

/// It reaches into the table of another process.
pub fn prepare_getfd(cx: &Cx, _: &Call) -> Prepared {
    Prepared::visible(vec![Touch::write(match cx.model.is_single() {
        true => Object::FdTable,
        false => Object::Everything,
    })])
}

/// `pidfd_getfd(pidfd, fd, flags)`: another process's descriptor, for one who may trace it.
pub fn getfd(cx: &mut Cx, call: &Call) -> Outcome {
    if call.uint(2) != 0 {
        return Err(Errno::EINVAL);
    }
    let pid = process(cx.model, call.fd(0))?;
    if pid == INIT {
        return Err(Errno::EPERM);
    }
    let own = &cx.model.process;
    let Some(other) = cx.model.process_at(pid) else {
        return Err(Errno::ESRCH);
    };
    let same_user =
        other.owner.user.contains(own.owner.user.real) && own.owner.user.real == other.owner.user.effective;
    if pid != own.pid && own.owner.user.effective != 0 && !(same_user && other.settings.dumpable) {
        return Err(Errno::EPERM);
    }
    let there = |model: &mut Model| model.files.descriptor(call.fd(1));
    let found = cx.model.within(pid, there).ok_or(Errno::ESRCH)??;
    let fd = cx.model.files.install(found.description, 0, true)?;
    Ok(Effect::Done(i64::from(fd)))
}

#[cfg(test)]
mod tests;
