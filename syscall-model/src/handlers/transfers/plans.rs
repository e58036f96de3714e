//! What each of these calls is asked to do, and what the kernel refuses before anything is moved.

use super::{Plan, SPLICE_FLAGS, Side};
use crate::call::Call;
use crate::channels;
use crate::fd::{Description, Kind, OfdId};
use crate::fs::Class;
use crate::handlers::files::is_memory_file;
use crate::handlers::io::MAX_RW_COUNT;
use crate::memory::GuestMemoryExt;
use crate::model::{Cx, Model};
use syscalls::Errno;

/// Has the kernel a way to move data out of this kind into a pipe?
pub(super) fn can_give(kind: &Kind) -> bool {
    match kind {
        Kind::File(file) => !matches!(file.class, Class::Directory | Class::Null | Class::Path),
        Kind::Socket(_) => true,
        _ => false,
    }
}

/// Has it one to move the contents of a pipe into this kind?
pub(super) fn can_take(kind: &Kind) -> bool {
    match kind {
        Kind::File(file) => !matches!(
            file.class,
            Class::Directory | Class::Full | Class::Virtual | Class::Path
        ),
        Kind::Output(_) | Kind::Socket(_) | Kind::PipeWriter(_) => true,
        _ => false,
    }
}

/// Can it be read and written at a given position?
fn is_positional(kind: &Kind) -> bool {
    matches!(kind, Kind::File(_))
}

/// Has it a position at all? Event descriptors have one that nothing moves.
fn is_seekable(kind: &Kind) -> bool {
    !matches!(
        kind,
        Kind::PipeReader(_) | Kind::PipeWriter(_) | Kind::Socket(_) | Kind::Output(_)
    )
}

pub(super) fn is_pipe(kind: &Kind) -> bool {
    matches!(kind, Kind::PipeReader(_) | Kind::PipeWriter(_))
}

/// The guest's offset variable.
fn offset(cx: &Cx, pointer: u64) -> Result<Option<(u64, u64)>, Errno> {
    Ok(match pointer {
        0 => None,
        at => Some((at, cx.mem.read_u64(at)?)),
    })
}

/// What the kernel asks of every range before it looks at the file.
fn check_range(position: u64, len: u64) -> Result<(), Errno> {
    let is_bad = (len as i64) < 0 || (position as i64) < 0 || (position.wrapping_add(len) as i64) < 0;
    if is_bad { Err(Errno::EINVAL) } else { Ok(()) }
}

/// Is it read as by a plain read, which waits as the socket does, whatever the call says? So it is with records, which come whole, and with TCP.
fn reads_as_it_is(model: &Model, kind: &Kind) -> bool {
    let Kind::Socket(id) = kind else {
        return false;
    };
    let socket = model.channels.sockets.get(id);
    socket.is_some_and(|socket| socket.is_inet() || !channels::io::is_stream(model, *id))
}

fn position(description: &Description, offset: Option<(u64, u64)>) -> u64 {
    match (&description.kind, offset) {
        (_, Some((_, value))) => value,
        (Kind::File(file), None) => file.offset,
        _ => 0,
    }
}

pub(super) fn nonblocking(flags: u32) -> bool {
    flags & libc::SPLICE_F_NONBLOCK != 0
}

/// `sendfile(out, in, offset, count)`.
pub(super) fn plan_sendfile(cx: &Cx, call: &Call) -> Result<Plan, Errno> {
    let offset = offset(cx, call.word(2))?;
    let len = call.word(3);
    let (from, input) = cx.model.files.lookup(call.fd(1))?;
    if !input.readable() {
        return Err(Errno::EBADF);
    }
    if offset.is_some() && !is_positional(&input.kind) {
        return Err(Errno::ESPIPE);
    }
    check_range(position(input, offset), len)?;
    let (to, output) = cx.model.files.lookup(call.fd(0))?;
    if !output.writable() {
        return Err(Errno::EBADF);
    }
    check_range(position(output, None), len.min(MAX_RW_COUNT))?;
    // That nobody reads shows before it shows what there is to read.
    if nobody_reads(cx.model, to) {
        return Err(Errno::EPIPE);
    }
    let to_pipe = is_pipe(&output.kind);
    if is_pipe(&input.kind) && (len > 0 || !to_pipe) {
        return Err(Errno::EINVAL);
    }
    if !to_pipe && (output.flags & libc::O_APPEND != 0 || !is_seekable(&input.kind)) {
        return Err(Errno::EINVAL);
    }
    let by_itself = reads_as_it_is(cx.model, &input.kind);
    let waits = !input.nonblocking() && (by_itself || !(to_pipe && output.nonblocking()));
    Ok(Plan {
        from: Side {
            ofd: from,
            offset,
            waits,
        },
        to: Side {
            ofd: to,
            offset: None,
            waits: !output.nonblocking() && (!to_pipe || !input.nonblocking()),
        },
        len,
    })
}

/// `copy_file_range(in, in_offset, out, out_offset, count, flags)`: regular files only.
pub(super) fn plan_copy(cx: &Cx, call: &Call) -> Result<Plan, Errno> {
    let (from, input) = cx.model.files.lookup(call.fd(0))?;
    let (to, output) = cx.model.files.lookup(call.fd(2))?;
    let (from_offset, to_offset) = (offset(cx, call.word(1))?, offset(cx, call.word(3))?);
    if call.uint(5) != 0 {
        return Err(Errno::EINVAL);
    }
    let class = |description: &Description| match &description.kind {
        Kind::File(file) => Some(file.class),
        _ => None,
    };
    let classes = [class(input), class(output)];
    if classes.contains(&Some(Class::Directory)) {
        return Err(Errno::EISDIR);
    }
    // Made-up files have no length that the kernel would go by; callers fall back to read and write.
    if classes != [Some(Class::Regular); 2] {
        return Err(Errno::EINVAL);
    }
    let append = output.flags & libc::O_APPEND != 0;
    if append || !input.readable() || !output.writable() {
        return Err(Errno::EBADF);
    }
    if in_memory_only(cx.model, &input.kind) != in_memory_only(cx.model, &output.kind) {
        return Err(Errno::EXDEV);
    }
    let len = call.word(4);
    let (start, other_start) = (position(input, from_offset), position(output, to_offset));
    if start.checked_add(len).is_none() || other_start.checked_add(len).is_none() {
        return Err(Errno::EOVERFLOW);
    }
    let plan = Plan {
        from: Side {
            ofd: from,
            offset: from_offset,
            waits: false,
        },
        to: Side {
            ofd: to,
            offset: to_offset,
            waits: false,
        },
        len,
    };
    if overlaps(cx, &plan, start, other_start)? {
        return Err(Errno::EINVAL);
    }
    // More than there is will not be copied.
    let there = match &input.kind {
        Kind::File(file) => cx.view().attributes(&file.node)?.size,
        _ => 0,
    };
    let len = len.min(there.saturating_sub(start));
    check_range(start, len)?;
    check_range(other_start, len)?;
    Ok(plan)
}

fn in_memory_only(model: &Model, kind: &Kind) -> bool {
    matches!(kind, Kind::File(file) if is_memory_file(model, &file.node))
}

/// Within one file the ranges must not overlap, as far as there is something to copy.
fn overlaps(cx: &Cx, plan: &Plan, start: u64, other_start: u64) -> Result<bool, Errno> {
    let file = |ofd| match cx.model.files.get(ofd).map(|d| &d.kind) {
        Some(Kind::File(file)) => Some(file),
        _ => None,
    };
    let (Some(input), Some(output)) = (file(plan.from.ofd), file(plan.to.ofd)) else {
        return Ok(false);
    };
    let size = cx.view().attributes(&input.node)?.size;
    let len = plan.len.min(size.saturating_sub(start));
    Ok(cx.model.fs.key(&input.node) == cx.model.fs.key(&output.node)
        && start < other_start.saturating_add(len)
        && other_start < start.saturating_add(len))
}

/// `splice(in, in_offset, out, out_offset, count, flags)`: one side must be a pipe.
pub(super) fn plan_splice(cx: &Cx, call: &Call) -> Result<Plan, Errno> {
    let (len, flags) = (call.word(4), call.uint(5));
    if flags & !SPLICE_FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    let (from, input) = cx.model.files.lookup(call.fd(0))?;
    let (to, output) = cx.model.files.lookup(call.fd(2))?;
    let pipes = [is_pipe(&input.kind), is_pipe(&output.kind)];
    if pipes[0] && call.word(1) != 0 || pipes[1] && call.word(3) != 0 {
        return Err(Errno::ESPIPE);
    }
    let to_offset = offset(cx, call.word(3))?;
    let from_offset = offset(cx, call.word(1))?;
    if !input.readable() || !output.writable() {
        return Err(Errno::EBADF);
    }
    match pipes {
        [true, true] if same_pipe(&input.kind, &output.kind) => return Err(Errno::EINVAL),
        [true, true] => {}
        [true, false] => {
            if to_offset.is_some() && !is_positional(&output.kind) || output.flags & libc::O_APPEND != 0 {
                return Err(Errno::EINVAL);
            }
            check_range(position(output, to_offset), len)?;
            if !can_take(&output.kind) {
                return Err(Errno::EINVAL);
            }
        }
        [false, true] => {
            if from_offset.is_some() && !is_positional(&input.kind) {
                return Err(Errno::EINVAL);
            }
            check_range(position(input, from_offset), len)?;
        }
        [false, false] => return Err(Errno::EINVAL),
    }
    let asked = !nonblocking(flags);
    // What does not wait for one pipe does not wait for the other either.
    let pipes_wait = asked && !(pipes[0] && input.nonblocking()) && !(pipes[1] && output.nonblocking());
    Ok(Plan {
        from: Side {
            ofd: from,
            offset: from_offset,
            waits: !input.nonblocking() && (pipes_wait || reads_as_it_is(cx.model, &input.kind)),
        },
        to: Side {
            ofd: to,
            offset: to_offset,
            waits: if pipes[1] {
                pipes_wait
            } else {
                !output.nonblocking()
            },
        },
        len,
    })
}

pub(super) fn nobody_reads(model: &Model, to: OfdId) -> bool {
    match model.files.get(to).map(|output| &output.kind) {
        Some(Kind::PipeWriter(pipe)) => model
            .channels
            .pipes
            .get(pipe)
            .is_some_and(|pipe| !pipe.reader_open),
        _ => false,
    }
}

fn same_pipe(one: &Kind, other: &Kind) -> bool {
    matches!((one, other), (Kind::PipeReader(a), Kind::PipeWriter(b)) if a == b)
}

/// `tee(in, out, count, flags)`: as splice between pipes, but the data also stays.
pub(super) fn plan_tee(cx: &Cx, call: &Call) -> Result<Plan, Errno> {
    let (len, flags) = (call.word(2), call.uint(3));
    if flags & !SPLICE_FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    let (from, input) = cx.model.files.lookup(call.fd(0))?;
    let (to, output) = cx.model.files.lookup(call.fd(1))?;
    if !input.readable() || !output.writable() {
        return Err(Errno::EBADF);
    }
    if !is_pipe(&input.kind) || !is_pipe(&output.kind) || same_pipe(&input.kind, &output.kind) {
        return Err(Errno::EINVAL);
    }
    let waits = !nonblocking(flags) && !input.nonblocking() && !output.nonblocking();
    let side = |ofd| Side {
        ofd,
        offset: None,
        waits,
    };
    Ok(Plan {
        from: side(from),
        to: side(to),
        len,
    })
}
