//! `flock` and record locks. A lock that another owner has keeps the thread from running.

use crate::call::Call;
use crate::effect::{Effect, Outcome, Prepared};
use crate::fd::{Kind, OfdId};
use crate::fs::{LockOwner, LockRequest};
use crate::handlers::attributes;
use crate::memory::GuestMemoryExt;
use crate::model::{Cx, Model};
use crate::object::{Object, Touch};
use crate::wait::{OnSignal, Wait, WaitFor};
use syscalls::Errno;

pub fn is_record_lock(command: i32) -> bool {
    matches!(
        command,
        libc::F_GETLK
            | libc::F_SETLK
            | libc::F_SETLKW
            | libc::F_OFD_GETLK
            | libc::F_OFD_SETLK
            | libc::F_OFD_SETLKW
    )
}

fn wait(request: LockRequest) -> Wait {
    Wait {
        on: WaitFor::FileLock(request),
        deadline: None,
        on_signal: OnSignal::Restart,
    }
}

/// A lock is a meeting point of everybody who opens the file.
fn touches(cx: &Cx, fd: i32) -> Vec<Touch> {
    match cx.model.files.lookup(fd).map(|(_, d)| &d.kind) {
        Ok(Kind::File(file)) => vec![Touch::write(Object::Path(file.path.to_vec()))],
        _ => attributes::descriptor_reads(cx, fd),
    }
}

/// The file and the offset of an open regular file; locks on anything else never meet.
fn locked_file(cx: &Cx, ofd: OfdId) -> Result<((u64, u64), u64, u64), Errno> {
    match cx.model.files.get(ofd).map(|d| &d.kind) {
        Some(Kind::File(file)) => {
            let size = cx.view().attributes(&file.node)?.size;
            // Devices and made-up files are told apart by nothing but their description.
            let key = cx.model.fs.key(&file.node).unwrap_or((0, u64::from(ofd.0)));
            Ok((key, file.offset, size))
        }
        // The kernel has one inode for all of these.
        Some(Kind::EventFd(_) | Kind::TimerFd(_) | Kind::SignalFd(_) | Kind::PidFd(_) | Kind::Epoll(_)) => {
            Ok(((0, u64::MAX), 0, 0))
        }
        Some(Kind::PipeReader(id) | Kind::PipeWriter(id) | Kind::Socket(id)) => {
            Ok(((1, u64::from(id.0)), 0, 0))
        }
        _ => Ok(((0, u64::from(ofd.0)), 0, 0)),
    }
}

fn flock_request(cx: &Cx, call: &Call) -> Result<LockRequest, Errno> {
    let (ofd, _) = cx.model.files.lookup(call.fd(0))?;
    let (file, ..) = locked_file(cx, ofd)?;
    Ok(LockRequest {
        file,
        owner: LockOwner::Flock(ofd),
        start: 0,
        end: u64::MAX,
        exclusive: call.int(1) & !libc::LOCK_NB == libc::LOCK_EX,
    })
}

pub fn prepare_flock(cx: &Cx, call: &Call) -> Prepared {
    let blocking = matches!(call.int(1), libc::LOCK_SH | libc::LOCK_EX);
    let wait = flock_request(cx, call).ok().filter(|_| blocking).map(wait);
    Prepared::visible(touches(cx, call.fd(0))).waiting(wait)
}

pub fn flock(cx: &mut Cx, call: &Call) -> Outcome {
    const LOCK_MAND: i32 = 32;
    let kind = call.int(1) & !libc::LOCK_NB;
    if call.int(1) & LOCK_MAND != 0 {
        return Effect::ok();
    }
    if ![libc::LOCK_SH, libc::LOCK_EX, libc::LOCK_UN].contains(&kind) {
        return Err(Errno::EINVAL);
    }
    let request = flock_request(cx, call)?;
    match call.int(1) & !libc::LOCK_NB {
        libc::LOCK_UN => {
            cx.model.fs.locks.unlock(&request);
            Effect::ok()
        }
        libc::LOCK_SH | libc::LOCK_EX => {
            // Changing a lock is not atomic: the old one goes first.
            cx.model.fs.locks.unlock(&request);
            take(cx, request, call.int(1) & libc::LOCK_NB == 0)
        }
        _ => Err(Errno::EINVAL),
    }
}

fn take(cx: &mut Cx, request: LockRequest, blocking: bool) -> Outcome {
    if cx.model.fs.locks.available(&request) {
        cx.model.fs.locks.lock(&request);
        return Effect::ok();
    }
    if blocking {
        if closes_a_circle(cx.model, &request) {
            return Err(Errno::EDEADLK);
        }
        return Ok(Effect::Block(wait(request)));
    }
    Err(Errno::EAGAIN)
}

/// Would the process wait for one that, over however many others, waits for it? The kernel looks for that among record locks.
pub(crate) fn closes_a_circle(model: &Model, request: &LockRequest) -> bool {
    let own = request.owner;
    let mut wanted = *request;
    for _ in 0..model.thread_count() {
        let Some(LockRequest {
            owner: LockOwner::Process(holder),
            ..
        }) = model.fs.locks.conflict(&wanted)
        else {
            return false;
        };
        let waits = model
            .all_threads()
            .find_map(|thread| match &thread.wait.as_ref()?.on {
                WaitFor::FileLock(wanted) if wanted.owner == LockOwner::Process(holder) => Some(*wanted),
                _ => None,
            });
        match (LockOwner::Process(holder) == own, waits) {
            (true, _) => return true,
            (false, Some(next)) => wanted = next,
            (false, None) => return false,
        }
    }
    false
}

/// `struct flock`: type, whence, start, length, pid.
const LEN_AT: u64 = 16;
const START_AT: u64 = 8;
const PID_AT: u64 = 24;
const FLOCK_SIZE: usize = 32;

fn record_request(cx: &Cx, call: &Call) -> Result<(LockRequest, i32), Errno> {
    let (ofd, _) = cx.model.files.lookup(call.fd(0))?;
    let at = call.word(2);
    // The kernel takes the whole of it before it looks at any part.
    cx.mem.read_vec(at, FLOCK_SIZE)?;
    let kinds = cx.mem.read_u32(at)?;
    let (kind, whence) = (i32::from(kinds as i16), i32::from((kinds >> 16) as i16));
    let (start, len) = (
        cx.mem.read_u64(at.wrapping_add(START_AT))? as i64,
        cx.mem.read_u64(at.wrapping_add(LEN_AT))? as i64,
    );
    let description_lock = matches!(
        call.int(1),
        libc::F_OFD_GETLK | libc::F_OFD_SETLK | libc::F_OFD_SETLKW
    );
    if description_lock && cx.mem.read_u32(at.wrapping_add(PID_AT))? != 0 {
        return Err(Errno::EINVAL);
    }
    let (file, offset, size) = locked_file(cx, ofd)?;
    let base = match whence {
        libc::SEEK_SET => 0,
        libc::SEEK_CUR => offset as i64,
        libc::SEEK_END => size as i64,
        _ => return Err(Errno::EINVAL),
    };
    let start = base.checked_add(start).ok_or(Errno::EOVERFLOW)?;
    let (start, end) = match len {
        0 => (start, i64::MAX),
        1.. => (start, start.checked_add(len).ok_or(Errno::EOVERFLOW)?),
        _ => (start.checked_add(len).ok_or(Errno::EINVAL)?, start),
    };
    if start < 0 {
        return Err(Errno::EINVAL);
    }
    let owner = if description_lock {
        LockOwner::Description(ofd)
    } else {
        LockOwner::Process(cx.model.process.pid)
    };
    let request = LockRequest {
        file,
        owner,
        start: start as u64,
        end: if len == 0 { u64::MAX } else { end as u64 },
        exclusive: kind == libc::F_WRLCK,
    };
    Ok((request, kind))
}

pub fn prepare_record(cx: &Cx, call: &Call) -> Prepared {
    let blocking = matches!(call.int(1), libc::F_SETLKW | libc::F_OFD_SETLKW);
    let wait = record_request(cx, call)
        .ok()
        .filter(|&(_, kind)| blocking && matches!(kind, libc::F_RDLCK | libc::F_WRLCK))
        .map(|(request, _)| wait(request));
    Prepared::visible(touches(cx, call.fd(0))).waiting(wait)
}

pub fn record_lock(cx: &mut Cx, call: &Call) -> Outcome {
    let (request, kind) = record_request(cx, call)?;
    let (_, description) = cx.model.files.lookup(call.fd(0))?;
    let permitted = match kind {
        libc::F_RDLCK => description.readable(),
        libc::F_WRLCK => description.writable(),
        libc::F_UNLCK => true,
        _ => return Err(Errno::EINVAL),
    };
    match call.int(1) {
        libc::F_GETLK if kind == libc::F_UNLCK => Err(Errno::EINVAL),
        libc::F_GETLK | libc::F_OFD_GETLK => report(cx, call.word(2), &request),
        _ if !permitted => Err(Errno::EBADF),
        _ if kind == libc::F_UNLCK => {
            cx.model.fs.locks.unlock(&request);
            Effect::ok()
        }
        command => take(
            cx,
            request,
            matches!(command, libc::F_SETLKW | libc::F_OFD_SETLKW),
        ),
    }
}

/// `F_GETLK`: what stands in the way, or `F_UNLCK`.
fn report(cx: &mut Cx, at: u64, request: &LockRequest) -> Outcome {
    let Some(other) = cx.model.fs.locks.conflict(request) else {
        cx.mem.write(at, &(libc::F_UNLCK as i16).to_le_bytes())?;
        return Effect::ok();
    };
    let kind = if other.exclusive {
        libc::F_WRLCK
    } else {
        libc::F_RDLCK
    };
    let pid = match other.owner {
        LockOwner::Process(pid) => pid as i32,
        // As the kernel: nobody in particular.
        _ => -1,
    };
    let len = if other.end == u64::MAX {
        0
    } else {
        other.end - other.start
    };
    cx.mem.write_u32(at, kind as u32)?;
    cx.mem.write_u64(at.wrapping_add(START_AT), other.start)?;
    cx.mem.write_u64(at.wrapping_add(LEN_AT), len)?;
    cx.mem.write_u32(at.wrapping_add(PID_AT), pid as u32)?;
    Effect::ok()
}
