//! Descriptors themselves: `dup`, `fcntl`, `ioctl`, `close_range`.

use crate::call::Call;
use crate::channels;
use crate::effect::{Effect, Outcome, Prepared};
use crate::fd::{Kind, OfdId};
use crate::fs::Class;
use crate::handlers::volumes::F_SEAL_EXEC;
use crate::handlers::{files, identity, io, locks};
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use crate::net::observe::Observation;
use crate::object::{Object, Touch};
use syscalls::Errno;

/// Status flags that `F_SETFL` may change.
const SETTABLE: i32 = libc::O_APPEND | libc::O_NONBLOCK | libc::O_NOATIME | libc::O_DIRECT | libc::O_ASYNC;

pub fn prepare_table(_: &Cx, _: &Call) -> Prepared {
    Prepared::visible(vec![Touch::write(Object::FdTable)])
}

/// `dup2` and `dup3` may close what was there.
pub fn prepare_dup2(cx: &Cx, call: &Call) -> Prepared {
    let mut touches = vec![Touch::write(Object::FdTable)];
    touches.extend(files::closing_touches(cx, call.fd(1)));
    Prepared::visible(touches)
}

pub fn prepare_close_range(cx: &Cx, call: &Call) -> Prepared {
    let mut touches = vec![Touch::write(Object::FdTable)];
    for fd in in_range(cx, call) {
        touches.extend(files::closing_touches(cx, fd));
    }
    Prepared::visible(touches)
}

pub fn dup(cx: &mut Cx, call: &Call) -> Outcome {
    duplicate(cx, call.fd(0), 0, false)
}

fn duplicate(cx: &mut Cx, fd: i32, min: i32, close_on_exec: bool) -> Outcome {
    let id = cx.model.files.descriptor(fd)?.description;
    let new = cx.model.files.install(id, min, close_on_exec)?;
    Ok(Effect::Done(i64::from(new)))
}

pub fn dup2(cx: &mut Cx, call: &Call) -> Outcome {
    let (old, new) = (call.fd(0), call.fd(1));
    cx.model.files.descriptor(old)?;
    if old == new {
        return Ok(Effect::Done(i64::from(new)));
    }
    duplicate_to(cx, old, new, false)
}

pub fn dup3(cx: &mut Cx, call: &Call) -> Outcome {
    let (old, new, flags) = (call.fd(0), call.fd(1), call.int(2));
    if flags & !libc::O_CLOEXEC != 0 || old == new {
        return Err(Errno::EINVAL);
    }
    duplicate_to(cx, old, new, flags & libc::O_CLOEXEC != 0)
}

fn duplicate_to(cx: &mut Cx, old: i32, new: i32, close_on_exec: bool) -> Outcome {
    if !(0..cx.model.files.limit()).contains(&new) {
        return Err(Errno::EBADF);
    }
    let id = cx.model.files.descriptor(old)?.description;
    // The one reference more keeps it alive should both be the same description.
    cx.model.files.retain(id);
    if cx.model.files.descriptor(new).is_ok() {
        cx.model.close(new)?;
    }
    cx.model.files.install_at(id, new, close_on_exec);
    cx.model.release(id);
    Ok(Effect::Done(i64::from(new)))
}

fn in_range(cx: &Cx, call: &Call) -> Vec<i32> {
    let (first, last) = (call.uint(0), call.uint(1));
    let open = cx.model.files.iter().map(|(fd, _)| fd);
    open.filter(|&fd| (first..=last).contains(&(fd as u32))).collect()
}

pub fn close_range(cx: &mut Cx, call: &Call) -> Outcome {
    const CLOEXEC: u32 = libc::CLOSE_RANGE_CLOEXEC;
    const UNSHARE: u32 = libc::CLOSE_RANGE_UNSHARE;
    if call.uint(0) > call.uint(1) || call.uint(2) & !(CLOEXEC | UNSHARE) != 0 {
        return Err(Errno::EINVAL);
    }
    if call.uint(2) & UNSHARE != 0 {
        cx.model.leave_files();
    }
    for fd in in_range(cx, call) {
        if call.uint(2) & CLOEXEC != 0 {
            cx.model.files.descriptor_mut(fd)?.close_on_exec = true;
        } else {
            cx.model.close(fd)?;
        }
    }
    Effect::ok()
}

pub fn prepare_fcntl(cx: &Cx, call: &Call) -> Prepared {
    let Ok((ofd, _)) = cx.model.files.lookup_any(call.fd(0)) else {
        return Prepared::visible(vec![Touch::read(Object::FdTable)]);
    };
    let touch = match call.int(1) {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC | libc::F_SETFD => Touch::write(Object::FdTable),
        libc::F_GETFD => Touch::read(Object::FdTable),
        libc::F_GETFL => Touch::read(Object::Description(ofd)),
        command if locks::is_record_lock(command) => return locks::prepare_record(cx, call),
        _ => Touch::write(Object::Description(ofd)),
    };
    Prepared::visible(vec![touch])
}

pub fn fcntl(cx: &mut Cx, call: &Call) -> Outcome {
    let (fd, argument) = (call.fd(0), call.int(2));
    let (ofd, description) = cx.model.files.lookup_any(fd)?;
    let flags = description.flags;
    let command = call.int(1);
    let path_only = matches!(&description.kind, Kind::File(file) if file.class == Class::Path);
    let harmless = [
        libc::F_DUPFD,
        libc::F_DUPFD_CLOEXEC,
        libc::F_GETFD,
        libc::F_SETFD,
        libc::F_GETFL,
    ];
    if path_only && !harmless.contains(&command) {
        return Err(Errno::EBADF);
    }
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
            if !(0..cx.model.files.limit()).contains(&argument) {
                return Err(Errno::EINVAL);
            }
            duplicate(cx, fd, argument, command == libc::F_DUPFD_CLOEXEC)
        }
        libc::F_GETFD => Ok(Effect::Done(i64::from(
            cx.model.files.descriptor(fd)?.close_on_exec,
        ))),
        libc::F_SETFD => {
            cx.model.files.descriptor_mut(fd)?.close_on_exec = argument & libc::FD_CLOEXEC != 0;
            Effect::ok()
        }
        libc::F_GETFL => Ok(Effect::Done(i64::from(flags))),
        libc::F_SETFL => set_flags(cx, ofd, argument),
        command if locks::is_record_lock(command) => locks::record_lock(cx, call),
        libc::F_GET_SEALS | libc::F_ADD_SEALS => seals(cx, call),
        libc::F_GETPIPE_SZ => Ok(Effect::Done(channels::control::pipe_size(cx.model, ofd)? as i64)),
        libc::F_SETPIPE_SZ => set_pipe_size(cx, ofd, argument as u32 as usize),
        // Signals about descriptors are never sent: nobody owns one.
        libc::F_GETOWN => Ok(Effect::Done(0)),
        libc::F_SETOWN => Effect::ok(),
        F_GETOWN_EX => {
            cx.mem.write_u64(call.word(2), 0)?;
            Effect::ok()
        }
        F_GETSIG => Ok(Effect::Done(0)),
        F_SETSIG if argument == 0 => Effect::ok(),
        libc::F_GETLEASE => Ok(Effect::Done(i64::from(libc::F_UNLCK))),
        libc::F_SETLEASE => Err(Errno::EAGAIN),
        _ => Err(Errno::EINVAL),
    }
}

/// `F_SETFL`.
fn set_flags(cx: &mut Cx, ofd: OfdId, wanted: i32) -> Outcome {
    let description = cx.model.files.get(ofd).ok_or(Errno::EBADF)?;
    let flags = description.flags;
    // These belong to root, and only the owner of a file may leave its access time alone.
    let is_anonymous = matches!(
        description.kind,
        Kind::Epoll(_) | Kind::EventFd(_) | Kind::TimerFd(_) | Kind::SignalFd(_) | Kind::PidFd(_)
    );
    let asks = wanted & !flags & libc::O_NOATIME != 0;
    if asks && is_anonymous && !identity::is_root(cx) {
        return Err(Errno::EPERM);
    }
    // For a pipe that means packets, for a file that it is not cached.
    let goes_past = match &description.kind {
        Kind::PipeReader(_) | Kind::PipeWriter(_) => true,
        Kind::File(file) => file.class == Class::Regular,
        _ => false,
    };
    if wanted & libc::O_DIRECT != 0 && !goes_past {
        return Err(Errno::EINVAL);
    }
    if let Some(description) = cx.model.files.get_mut(ofd) {
        description.flags = flags & !SETTABLE | wanted & SETTABLE;
    }
    Effect::ok()
}

/// `F_SETPIPE_SZ`.
fn set_pipe_size(cx: &mut Cx, ofd: OfdId, size: usize) -> Outcome {
    /// Beyond that the kernel cannot round it up.
    const MOST: usize = 1 << 31;
    channels::control::pipe_size(cx.model, ofd)?;
    if size > MOST {
        return Err(Errno::EINVAL);
    }
    let size = channels::control::set_pipe_size(cx.model, ofd, size)?;
    Ok(Effect::Done(size as i64))
}

const F_SETSIG: i32 = 10;
const F_GETSIG: i32 = 11;
const F_GETOWN_EX: i32 = 16;
/// The block size of the file system, which every file has.
const FIGETBSZ: u64 = 2;

fn seals(cx: &mut Cx, call: &Call) -> Outcome {
    const ALL: i32 = libc::F_SEAL_SEAL
        | libc::F_SEAL_SHRINK
        | libc::F_SEAL_GROW
        | libc::F_SEAL_WRITE
        | libc::F_SEAL_FUTURE_WRITE
        | F_SEAL_EXEC;
    let (_, description) = cx.model.files.lookup(call.fd(0))?;
    let writable = description.writable();
    if call.int(1) == libc::F_ADD_SEALS {
        if !writable {
            return Err(Errno::EPERM);
        }
        if call.int(2) & !ALL != 0 {
            return Err(Errno::EINVAL);
        }
    }
    let Kind::File(file) = &description.kind else {
        return Err(Errno::EINVAL);
    };
    let crate::fs::NodeId::Overlay(ino) = cx.model.fs.current(&file.node) else {
        return Err(Errno::EINVAL);
    };
    let had = cx.model.fs.node(ino).seals.ok_or(Errno::EINVAL)?;
    if call.int(1) == libc::F_GET_SEALS {
        return Ok(Effect::Done(i64::from(had)));
    }
    if had & libc::F_SEAL_SEAL != 0 {
        return Err(Errno::EPERM);
    }
    let node = cx.model.fs.node_mut(ino);
    let mut added = call.int(2);
    if added & F_SEAL_EXEC != 0 && node.attributes.mode & 0o111 != 0 {
        // What may be executed must stay as it is.
        added |= ALL & !libc::F_SEAL_SEAL;
    }
    node.seals = Some(had | added);
    Effect::ok()
}

pub fn prepare_ioctl(cx: &Cx, call: &Call) -> Prepared {
    let Ok((ofd, description)) = cx.model.files.lookup(call.fd(0)) else {
        return Prepared::visible(vec![Touch::read(Object::FdTable)]);
    };
    let is_terminal = matches!(description.kind, Kind::PtyMaster(_) | Kind::PtySlave(..));
    let request = call.word(1) & 0xffff_ffff;
    match request {
        libc::FIOCLEX | libc::FIONCLEX => Prepared::visible(vec![Touch::write(Object::FdTable)]),
        // What is no terminal does not become one.
        libc::TCGETS | libc::TIOCGWINSZ if !is_terminal => Prepared::invisible(),
        _ if is_terminal && channels::pty::only_looks(request) => {
            Prepared::visible(channels::touches(cx.model, ofd, channels::Use::Poll))
        }
        _ if is_terminal => Prepared::visible(vec![Touch::write(Object::Everything)]),
        _ => {
            let mut prepared = Prepared::visible(io::touches(cx.model, ofd, false, false));
            let kind = cx.model.files.get(ofd).map(|description| &description.kind);
            if let (Some(&Kind::Socket(socket)), libc::FIONREAD) = (kind, request) {
                prepared.observes = Some(Observation::Count { socket });
            }
            prepared
        }
    }
}

/// `isatty` and its kin must see no terminal unless the program made one: standard output is captured.
pub fn ioctl(cx: &mut Cx, call: &Call) -> Outcome {
    let (fd, request, argument) = (call.fd(0), call.word(1) & 0xffff_ffff, call.word(2));
    let (ofd, description) = cx.model.files.lookup(fd)?;
    match request {
        libc::FIOCLEX | libc::FIONCLEX => {
            cx.model.files.descriptor_mut(fd)?.close_on_exec = request == libc::FIOCLEX;
            Effect::ok()
        }
        libc::FIONBIO => {
            let on = cx.mem.read_u32(argument)? != 0;
            if let Some(description) = cx.model.files.get_mut(ofd) {
                description.flags =
                    description.flags & !libc::O_NONBLOCK | if on { libc::O_NONBLOCK } else { 0 };
            }
            Effect::ok()
        }
        // Kept, as `F_SETFL` keeps it; nobody is sent SIGIO.
        libc::FIOASYNC
            if matches!(
                description.kind,
                Kind::Socket(_) | Kind::PipeReader(_) | Kind::PipeWriter(_)
            ) =>
        {
            let on = cx.mem.read_u32(argument)? != 0;
            if let Some(description) = cx.model.files.get_mut(ofd) {
                description.flags = description.flags & !libc::O_ASYNC | if on { libc::O_ASYNC } else { 0 };
            }
            Effect::ok()
        }
        FIGETBSZ => {
            cx.mem.write_u32(argument, 4096)?;
            Effect::ok()
        }
        _ => match &description.kind {
            Kind::File(file) if request == libc::FIONREAD && file.class == Class::Regular => {
                let size = cx.view().attributes(&file.node)?.size;
                // Negative where the file ends before the position; the kernel keeps the lower half of a larger number.
                let left = size.wrapping_sub(file.offset) as u32;
                cx.mem.write_u32(argument, left)?;
                Effect::ok()
            }
            Kind::File(_) | Kind::Output(_) => Err(Errno::ENOTTY),
            Kind::PtyMaster(_) | Kind::PtySlave(..) => channels::pty::ioctl(cx, ofd, request, argument),
            _ => Ok(Effect::Done(channels::control::ioctl(
                cx, ofd, request, argument,
            )?)),
        },
    }
}
