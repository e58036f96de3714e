//! `signalfd` and `signalfd4`.

use crate::call::Call;
use crate::channels::install;
use crate::effect::{Effect, Outcome, Prepared};
use crate::fd::Kind;
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use crate::object::{Object, Touch};
use syscalls::Errno;

/// A new descriptor, or another set for an old one.
pub fn prepare(cx: &Cx, call: &Call) -> Prepared {
    let object = match cx.model.files.descriptor(call.fd(0)) {
        Ok(descriptor) => Object::Description(descriptor.description),
        Err(_) => Object::FdTable,
    };
    Prepared::visible(vec![Touch::write(object)])
}

pub fn signalfd(cx: &mut Cx, call: &Call) -> Outcome {
    make(cx, call, 0)
}

pub fn signalfd4(cx: &mut Cx, call: &Call) -> Outcome {
    make(cx, call, call.int(3))
}

fn make(cx: &mut Cx, call: &Call, flags: i32) -> Outcome {
    if call.word(2) != 8 {
        return Err(Errno::EINVAL);
    }
    let unblockable = 1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1);
    let set = cx.mem.read_u64(call.word(1))? & !unblockable;
    if flags & !(libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    let fd = call.fd(0);
    if fd == -1 {
        let status = libc::O_RDWR | flags & libc::SFD_NONBLOCK;
        let fd = install(
            cx.model,
            Kind::SignalFd(set),
            status,
            flags & libc::SFD_CLOEXEC != 0,
        )?;
        return Ok(Effect::Done(i64::from(fd)));
    }
    let (id, _) = cx.model.files.lookup(fd)?;
    match cx
        .model
        .files
        .get_mut(id)
        .map(|description| &mut description.kind)
    {
        Some(Kind::SignalFd(old)) => *old = set,
        _ => return Err(Errno::EINVAL),
    }
    Ok(Effect::Done(i64::from(fd)))
}
