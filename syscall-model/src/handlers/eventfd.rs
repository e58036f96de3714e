//! `eventfd` and `eventfd2`.

use crate::call::Call;
use crate::channels::eventfd::EventFd;
use crate::channels::install;
use crate::effect::{Effect, Outcome};
use crate::fd::Kind;
use crate::model::Cx;
use syscalls::Errno;

pub fn eventfd(cx: &mut Cx, call: &Call) -> Outcome {
    make(cx, call.uint(0), 0)
}

pub fn eventfd2(cx: &mut Cx, call: &Call) -> Outcome {
    make(cx, call.uint(0), call.int(1))
}

fn make(cx: &mut Cx, initial: u32, flags: i32) -> Outcome {
    if flags & !(libc::EFD_SEMAPHORE | libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    let id = cx.model.channels.add_eventfd(EventFd {
        counter: u64::from(initial),
        semaphore: flags & libc::EFD_SEMAPHORE != 0,
    });
    let status = libc::O_RDWR | flags & libc::EFD_NONBLOCK;
    let fd = install(
        cx.model,
        Kind::EventFd(id),
        status,
        flags & libc::EFD_CLOEXEC != 0,
    )?;
    Ok(Effect::Done(i64::from(fd)))
}
