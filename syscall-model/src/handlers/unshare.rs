//! What a process shares with others, to be had alone.

use super::processes::NAMESPACES;
use crate::call::Call;
use crate::effect::{Effect, Outcome, Prepared};
use crate::model::Cx;
use crate::object::{Object, Touch};
use syscalls::Errno;

/// `unshare`: the process in place has these for itself from now on. Namespaces need a privilege.
pub fn unshare(cx: &mut Cx, call: &Call) -> Outcome {
    const KNOWN: i32 = libc::CLONE_FILES
        | libc::CLONE_FS
        | libc::CLONE_SYSVSEM
        | libc::CLONE_SIGHAND
        | libc::CLONE_VM
        | libc::CLONE_THREAD
        | libc::CLONE_NEWTIME
        | NAMESPACES;
    let flags = call.int(0);
    if flags & !KNOWN != 0 {
        return Err(Errno::EINVAL);
    }
    let has_threads = cx.model.threads.len() > 1;
    // What threads share cannot be had alone.
    let alone = flags & (libc::CLONE_THREAD | libc::CLONE_SIGHAND | libc::CLONE_VM) != 0;
    let lends = cx.model.pids().iter().any(|&pid| {
        let own = &cx.model.process;
        let other = cx.model.process_at(pid).filter(|other| other.pid != own.pid);
        other.is_some_and(|other| other.program.space == own.program.space)
    });
    let is_lent = flags & libc::CLONE_VM != 0 && lends;
    let has_handlers = flags & (libc::CLONE_SIGHAND | libc::CLONE_VM) != 0 && cx.model.has_common_handlers();
    if alone && has_threads || is_lent || has_handlers {
        return Err(Errno::EINVAL);
    }
    if flags & (NAMESPACES | libc::CLONE_NEWTIME) != 0 {
        return Err(Errno::EPERM);
    }
    if has_threads && flags & (libc::CLONE_FILES | libc::CLONE_FS) != 0 {
        return Ok(Effect::Unsupported(
            "a thread with descriptors or a working directory of its own".to_owned(),
        ));
    }
    if flags & libc::CLONE_FILES != 0 {
        cx.model.leave_files();
    }
    if flags & libc::CLONE_FS != 0 {
        cx.model.leave_places();
    }
    Effect::ok()
}

pub fn prepare_unshare(_: &Cx, _: &Call) -> Prepared {
    Prepared::visible(vec![Touch::write(Object::FdTable), Touch::write(Object::Process)])
}
