//! Moving data between descriptions without the program touching it: `sendfile`, `copy_file_range`, `splice`, `tee`, `vmsplice`.
//!
//! Each is a read followed by a write. To lose nothing, no more is read than the writing side takes: sources
//! that can be read again give back what was not written, and pipes are only asked for what fits.
//!
//! What is refused, and which error comes first, is decided by a plan that is made both when a thread parks and when it runs: only a call that has one
//! can wait.

use crate::call::Call;
use crate::channels;
use crate::effect::{Effect, Outcome, Prepared};
use crate::fd::{Description, Kind, OfdId, PollEvents};
use crate::fs::{Class, data};
use crate::handlers::io::{self, MAX_RW_COUNT};
use crate::memory::GuestMemoryExt;
use crate::model::{Cx, Model};
use crate::object::{Object, Touch};
use crate::signals::Signals;
use crate::wait::Wait;
use syscalls::{Errno, Sysno};

/// A pipe's worth: more could not be written at once anyway, and the caller must go on from a short count.
const PIECE: usize = 64 * 1024;
/// Files take everything; this bounds the memory that one call needs.
const FILE_PIECE: usize = 16 << 20;

const READ_EVENTS: PollEvents = PollEvents::IN.union(PollEvents::HUP).union(PollEvents::ERR);
const WRITE_EVENTS: PollEvents = PollEvents::OUT.union(PollEvents::HUP).union(PollEvents::ERR);
const SPLICE_FLAGS: u32 =
    libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MORE | libc::SPLICE_F_GIFT;

/// One side of a transfer: where it stands, if not where the description does.
#[derive(Clone, Copy)]
struct Side {
    ofd: OfdId,
    /// The guest's variable and what it holds.
    offset: Option<(u64, u64)>,
    /// May the call wait for it?
    waits: bool,
}

/// A transfer that nothing speaks against so far.
struct Plan {
    from: Side,
    to: Side,
    len: u64,
}

impl Side {
    fn position(&self) -> Option<u64> {
        self.offset.map(|(_, value)| value)
    }

    fn moved(&self, cx: &mut Cx, by: usize) -> Result<(), Errno> {
        if let Some((at, value)) = self.offset {
            cx.mem.write_u64(at, value + by as u64)?;
        }
        Ok(())
    }
}

/// Has the kernel a way to move data out of this kind into a pipe?
fn can_give(kind: &Kind) -> bool {
    match kind {
        Kind::File(file) => !matches!(file.class, Class::Directory | Class::Null | Class::Path),
        Kind::Socket(_) => true,
        _ => false,
    }
}

/// Has it one to move the contents of a pipe into this kind?
fn can_take(kind: &Kind) -> bool {
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

fn is_pipe(kind: &Kind) -> bool {
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

/// Records come whole, by a plain read of the socket, which waits as the socket does.
fn reads_as_it_is(model: &Model, kind: &Kind) -> bool {
    matches!(kind, Kind::Socket(id) if !channels::io::is_stream(model, *id))
}

fn standing(description: &Description, offset: Option<(u64, u64)>) -> u64 {
    match (&description.kind, offset) {
        (_, Some((_, value))) => value,
        (Kind::File(file), None) => file.offset,
        _ => 0,
    }
}

fn nonblocking(flags: u32) -> bool {
    flags & libc::SPLICE_F_NONBLOCK != 0
}

/// `sendfile(out, in, offset, count)`.
fn plan_sendfile(cx: &Cx, call: &Call) -> Result<Plan, Errno> {
    let offset = offset(cx, call.word(2))?;
    let len = call.word(3);
    let (from, input) = cx.model.files.lookup(call.fd(1))?;
    if !input.readable() {
        return Err(Errno::EBADF);
    }
    if offset.is_some() && !is_positional(&input.kind) {
        return Err(Errno::ESPIPE);
    }
    check_range(standing(input, offset), len)?;
    let (to, output) = cx.model.files.lookup(call.fd(0))?;
    if !output.writable() {
        return Err(Errno::EBADF);
    }
    check_range(standing(output, None), len.min(MAX_RW_COUNT))?;
    if is_pipe(&input.kind) {
        return Err(Errno::EINVAL);
    }
    let to_pipe = is_pipe(&output.kind);
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
fn plan_copy(cx: &Cx, call: &Call) -> Result<Plan, Errno> {
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
    let (start, other_start) = (standing(input, from_offset), standing(output, to_offset));
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
    check_range(start, len)?;
    check_range(other_start, len)?;
    Ok(plan)
}

/// Is it a file of `memfd_create`? Those are of another file system.
fn in_memory_only(model: &Model, kind: &Kind) -> bool {
    let Kind::File(file) = kind else {
        return false;
    };
    match model.fs.current(&file.node) {
        crate::fs::NodeId::Overlay(ino) => model.fs.node(ino).seals.is_some(),
        _ => false,
    }
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
fn plan_splice(cx: &Cx, call: &Call) -> Result<Plan, Errno> {
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
            check_range(standing(output, to_offset), len)?;
            if !can_take(&output.kind) {
                return Err(Errno::EINVAL);
            }
        }
        [false, true] => {
            if from_offset.is_some() && !is_positional(&input.kind) {
                return Err(Errno::EINVAL);
            }
            check_range(standing(input, from_offset), len)?;
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

fn nobody_reads(model: &Model, to: OfdId) -> bool {
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
fn plan_tee(cx: &Cx, call: &Call) -> Result<Plan, Errno> {
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

fn plan(cx: &Cx, call: &Call) -> Result<Plan, Errno> {
    match call.sysno {
        Sysno::sendfile => plan_sendfile(cx, call),
        Sysno::copy_file_range => plan_copy(cx, call),
        Sysno::tee => plan_tee(cx, call),
        _ => plan_splice(cx, call),
    }
}

/// The first side that is not ready decides; when it is, the call runs and finds the other one.
fn first_wait(cx: &Cx, plan: &Plan) -> Option<Wait> {
    // Room in a pipe comes first: it is looked for before anything is read.
    let to_first = cx.model.files.get(plan.to.ofd).is_some_and(|d| is_pipe(&d.kind));
    let mut sides = [(plan.to, WRITE_EVENTS), (plan.from, READ_EVENTS)];
    if !to_first {
        sides.reverse();
    }
    for (side, events) in sides {
        let is_channel = cx.model.files.get(side.ofd).is_some_and(|d| {
            io::is_channel(&d.kind) && (can_give(&d.kind) || can_take(&d.kind) || is_pipe(&d.kind))
        });
        if !channels::io::can_wait(cx.model, side.ofd) {
            return None;
        }
        if is_channel && !cx.model.poll(side.ofd).intersects(events) {
            return side.waits.then(|| Wait::ready(side.ofd, events));
        }
    }
    None
}

fn prepare_between(cx: &Cx, call: &Call, from: i32, to: i32, len: u64) -> Prepared {
    let mut touches = Vec::new();
    for (fd, writes) in [(from, false), (to, true)] {
        let Ok((ofd, _)) = cx.model.files.lookup(fd) else {
            return Prepared::visible(vec![Touch::read(Object::FdTable)]);
        };
        touches.extend(io::touches(cx.model, ofd, writes, false));
    }
    let wait = plan(cx, call)
        .ok()
        .filter(|_| len > 0)
        .and_then(|plan| first_wait(cx, &plan));
    Prepared::visible(touches).waiting(wait)
}

pub fn prepare_sendfile(cx: &mut Cx, call: &Call) -> Prepared {
    prepare_between(cx, call, call.fd(1), call.fd(0), call.word(3))
}

pub fn prepare_copy_file_range(cx: &mut Cx, call: &Call) -> Prepared {
    prepare_between(cx, call, call.fd(0), call.fd(2), call.word(4))
}

pub fn prepare_splice(cx: &mut Cx, call: &Call) -> Prepared {
    let mut prepared = prepare_between(cx, call, call.fd(0), call.fd(2), call.word(4));
    if let Ok((ofd, description)) = cx.model.files.lookup(call.fd(0)) {
        let may_fail = call.uint(5) & libc::SPLICE_F_NONBLOCK != 0 || description.nonblocking();
        let max = call.word(4).min(FILE_PIECE as u64) as usize;
        prepared.observes = channels::io::reads(cx.model, ofd, max, may_fail);
    }
    prepared
}

pub fn prepare_tee(cx: &mut Cx, call: &Call) -> Prepared {
    prepare_between(cx, call, call.fd(0), call.fd(1), call.word(2))
}

/// `vmsplice` waits as a read or a write of the pipe does, unless it is told not to.
pub fn prepare_vmsplice(cx: &mut Cx, call: &Call) -> Prepared {
    let description = cx.model.files.lookup(call.fd(0)).map(|(_, d)| d);
    let writes = description.is_ok_and(|d| d.writable());
    let is_pipe = description.is_ok_and(|d| is_pipe(&d.kind));
    let mut prepared = as_blocking(cx, call.fd(0), |cx| {
        if writes {
            io::prepare_write(cx, call)
        } else {
            io::prepare_read(cx, call)
        }
    });
    if !is_pipe || nonblocking(call.uint(3)) || call.uint(3) & !SPLICE_FLAGS != 0 {
        prepared.wait = None;
    }
    prepared
}

/// Moves up to `plan.len` bytes; waits where a side must and may.
fn transfer(cx: &mut Cx, plan: &Plan) -> Outcome {
    let (from, to) = (plan.from, plan.to);
    let kind = |cx: &Cx, ofd| {
        cx.model
            .files
            .get(ofd)
            .map(|d| d.kind.clone())
            .ok_or(Errno::EBADF)
    };
    let (source, target) = (kind(cx, from.ofd)?, kind(cx, to.ofd)?);
    let (from_channel, to_channel) = (io::is_channel(&source), io::is_channel(&target));
    let mut max = plan.len.min(MAX_RW_COUNT) as usize;
    max = max.min(if to_channel || from_channel {
        PIECE
    } else {
        FILE_PIECE
    });
    let takes = can_take(&target);
    let to_waits = to_channel && takes && channels::io::can_wait(cx.model, to.ofd);
    if to_waits && !cx.model.poll(to.ofd).intersects(WRITE_EVENTS) {
        return wait_or(to, WRITE_EVENTS);
    }
    if !is_pipe(&source) && !can_give(&source) {
        return Err(Errno::EINVAL);
    }
    if to_channel && from_channel {
        // What was taken out of a pipe cannot be put back: a page always fits where poll shows room.
        max = max.min(4096);
    }
    let before = match &source {
        Kind::File(file) => file.offset,
        _ => 0,
    };
    let bytes = match io::read_some(cx, from.ofd, max, from.position()) {
        Err(Errno::EAGAIN) => return wait_or(from, READ_EVENTS),
        bytes => bytes?,
    };
    if bytes.is_empty() {
        return Effect::ok();
    }
    let written = match takes {
        true => io::write_some(cx, to.ofd, &bytes, to.position()),
        false => Err(Errno::EINVAL),
    };
    let written = match written {
        Ok(written) => written,
        Err(errno) => {
            data::set_offset(cx, from.ofd, before);
            return match errno {
                Errno::EAGAIN => wait_or(to, WRITE_EVENTS),
                // The signal is pending already.
                Errno::EPIPE => Ok(Effect::DoneCheckSignals(-i64::from(errno.into_raw()))),
                _ => Err(errno),
            };
        }
    };
    let moves = matches!(&source, Kind::File(file) if matches!(file.class, Class::Regular | Class::Virtual));
    if from.offset.is_none() && moves {
        data::set_offset(cx, from.ofd, before + written as u64);
    }
    from.moved(cx, written)?;
    to.moved(cx, written)?;
    Ok(Effect::Done(written as i64))
}

fn wait_or(side: Side, events: PollEvents) -> Outcome {
    if side.waits {
        Ok(Effect::Block(Wait::ready(side.ofd, events)))
    } else {
        Err(Errno::EAGAIN)
    }
}

pub fn sendfile(cx: &mut Cx, call: &Call) -> Outcome {
    let plan = plan_sendfile(cx, call)?;
    if plan.len == 0 {
        return Effect::ok();
    }
    transfer(cx, &plan)
}

pub fn copy_file_range(cx: &mut Cx, call: &Call) -> Outcome {
    let plan = plan_copy(cx, call)?;
    if plan.len == 0 {
        return Effect::ok();
    }
    transfer(cx, &plan)
}

pub fn splice(cx: &mut Cx, call: &Call) -> Outcome {
    if call.word(4) == 0 {
        return Effect::ok();
    }
    let plan = plan_splice(cx, call)?;
    // That nobody reads shows before it shows whether there is anything to read.
    if nobody_reads(cx.model, plan.to.ofd) {
        Signals::raise(cx.model, cx.tid, libc::SIGPIPE);
        return Err(Errno::EPIPE);
    }
    transfer(cx, &plan)
}

pub fn tee(cx: &mut Cx, call: &Call) -> Outcome {
    if call.word(2) == 0 && call.uint(3) & !SPLICE_FLAGS == 0 {
        return Effect::ok();
    }
    let plan = plan_tee(cx, call)?;
    let (from, to) = (plan.from, plan.to);
    if !cx.model.poll(from.ofd).intersects(READ_EVENTS) {
        return wait_or(from, READ_EVENTS);
    }
    if !cx.model.poll(to.ofd).intersects(WRITE_EVENTS) {
        return wait_or(to, WRITE_EVENTS);
    }
    let Some(Kind::PipeReader(source)) = cx.model.files.get(from.ofd).map(|d| d.kind.clone()) else {
        return Err(Errno::EINVAL);
    };
    let max = plan.len.min(4096) as usize;
    // Reading a copy leaves the pipe as it is.
    let mut copy = cx.model.channels.pipes.get(&source).ok_or(Errno::EBADF)?.clone();
    let bytes = copy.read(max)?;
    let written = channels::write_some(cx, to.ofd, &bytes)?;
    Ok(Effect::Done(written as i64))
}

/// `vmsplice(fd, iov, count, flags)`: a plain read or write of the pipe; pages are never shared.
pub fn vmsplice(cx: &mut Cx, call: &Call) -> Outcome {
    if call.uint(3) & !SPLICE_FLAGS != 0 {
        return Err(Errno::EINVAL);
    }
    let (_, description) = cx.model.files.lookup(call.fd(0))?;
    let (writable, kind) = (description.writable(), description.kind.clone());
    let buffers = cx.mem.read_iovec(call.word(1), call.word(2))?;
    if channels::io::total(&buffers) == 0 {
        return Effect::ok();
    }
    if !is_pipe(&kind) {
        return Err(Errno::EBADF);
    }
    let nowait = nonblocking(call.uint(3));
    as_blocking(cx, call.fd(0), |cx| {
        if writable {
            io::write_from(cx, call.fd(0), &buffers, None, nowait)
        } else {
            io::read_into(cx, call.fd(0), &buffers, None, nowait)
        }
    })
}

/// Does something with a description as if it had not been set not to wait: here only the call's own flag counts.
fn as_blocking<T>(cx: &mut Cx, fd: i32, act: impl FnOnce(&mut Cx) -> T) -> T {
    let found = cx.model.files.lookup(fd).ok().map(|(ofd, d)| (ofd, d.flags));
    let set = |cx: &mut Cx, keep: i32| {
        if let Some((ofd, flags)) = found
            && let Some(description) = cx.model.files.get_mut(ofd)
        {
            description.flags = flags & keep;
        }
    };
    set(cx, !libc::O_NONBLOCK);
    let done = act(cx);
    set(cx, !0);
    done
}
