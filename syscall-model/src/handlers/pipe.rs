//! `pipe` and `pipe2`.

use crate::call::Call;
use crate::channels::install;
use crate::effect::{Effect, Outcome, Prepared};
use crate::fd::Kind;
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use crate::object::{Object, Touch};
use syscalls::Errno;

/// Whatever makes a descriptor takes the lowest free number.
pub fn prepare_new(_: &Cx, _: &Call) -> Prepared {
    Prepared::visible(vec![Touch::write(Object::FdTable)])
}

pub fn pipe(cx: &mut Cx, call: &Call) -> Outcome {
    make(cx, call.word(0), 0)
}

pub fn pipe2(cx: &mut Cx, call: &Call) -> Outcome {
    make(cx, call.word(0), call.int(1))
}

fn make(cx: &mut Cx, out: u64, flags: i32) -> Outcome {
    /// Of a pipe that the kernel puts news into: one that was built to (`CONFIG_WATCH_QUEUE`).
    const O_NOTIFICATION_PIPE: i32 = libc::O_EXCL;
    let known = libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_DIRECT | O_NOTIFICATION_PIPE;
    if flags & !known != 0 {
        return Err(Errno::EINVAL);
    }
    if flags & O_NOTIFICATION_PIPE != 0 {
        return Err(Errno::ENOPKG);
    }
    let id = cx.model.channels.add_pipe();
    let ends = [
        (Kind::PipeReader(id), libc::O_RDONLY),
        (Kind::PipeWriter(id), libc::O_WRONLY),
    ];
    let status = flags & !libc::O_CLOEXEC;
    install_two(
        cx,
        ends.map(|(kind, mode)| (kind, mode | status)),
        flags & libc::O_CLOEXEC != 0,
        out,
    )
}

/// Gives two new descriptions a descriptor each and tells the guest; all or nothing.
pub fn install_two(cx: &mut Cx, ends: [(Kind, i32); 2], close_on_exec: bool, out: u64) -> Outcome {
    let [(one, one_flags), (two, two_flags)] = ends;
    let installed = [
        install(cx.model, one, one_flags, close_on_exec),
        install(cx.model, two, two_flags, close_on_exec),
    ];
    let told = match installed {
        [Ok(one), Ok(two)] => {
            let pair = u64::from(one as u32) | u64::from(two as u32) << 32;
            cx.mem.write_u64(out, pair).map_err(Errno::from)
        }
        [Err(errno), _] | [_, Err(errno)] => Err(errno),
    };
    if told.is_err() {
        for fd in installed.into_iter().flatten() {
            // It was installed a moment ago.
            let _ = cx.model.close(fd);
        }
    }
    told.and_then(|()| Effect::ok())
}
