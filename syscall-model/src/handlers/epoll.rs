//! `epoll_create`, `epoll_ctl`, `epoll_wait` and their variants.

use super::timed::{self, Timeout};
use crate::call::Call;
use crate::channels::{EpollId, Use, epoll, install, touches};
use crate::effect::{Effect, Outcome, Prepared};
use crate::fd::{Kind, OfdId, PollEvents};
use crate::memory::{GuestMemoryExt, check_reachable};
use crate::model::Cx;
use crate::object::{Object, Touch};
use crate::wait::{OnSignal, WaitFor};
use syscalls::{Errno, Sysno};

/// `struct epoll_event` is packed on x86-64.
const EVENT_SIZE: u64 = 12;

pub fn create(cx: &mut Cx, call: &Call) -> Outcome {
    if call.int(0) <= 0 {
        return Err(Errno::EINVAL);
    }
    make(cx, false)
}

pub fn create1(cx: &mut Cx, call: &Call) -> Outcome {
    let flags = call.int(0);
    if flags & !libc::EPOLL_CLOEXEC != 0 {
        return Err(Errno::EINVAL);
    }
    make(cx, flags & libc::EPOLL_CLOEXEC != 0)
}

fn make(cx: &mut Cx, close_on_exec: bool) -> Outcome {
    let id = cx.model.channels.add_epoll();
    let fd = install(cx.model, Kind::Epoll(id), libc::O_RDWR, close_on_exec)?;
    Ok(Effect::Done(i64::from(fd)))
}

fn set(cx: &Cx, fd: i32) -> Result<(OfdId, EpollId), Errno> {
    let (ofd, description) = cx.model.files.lookup(fd)?;
    match description.kind {
        Kind::Epoll(id) => Ok((ofd, id)),
        _ => Err(Errno::EINVAL),
    }
}

pub fn prepare_ctl(cx: &Cx, call: &Call) -> Prepared {
    let mut touched = Vec::new();
    if let Ok((_, id)) = set(cx, call.fd(0)) {
        touched.push(Touch::write(Object::Channel(id.0)));
    }
    if let Ok(target) = cx.model.files.descriptor(call.fd(2)) {
        touched.extend(touches(cx.model, target.description, Use::Poll));
    }
    Prepared::visible(touched)
}

/// `epoll_ctl(epfd, op, fd, event)`.
pub fn ctl(cx: &mut Cx, call: &Call) -> Outcome {
    let (op, fd, event) = (call.int(1), call.fd(2), call.word(3));
    let (events, data) = if op == libc::EPOLL_CTL_DEL {
        (0, 0)
    } else {
        (cx.mem.read_u32(event)?, cx.mem.read_u64(event.wrapping_add(4))?)
    };
    let (epoll_ofd, _) = cx.model.files.lookup(call.fd(0))?;
    let (target, description) = cx.model.files.lookup(fd)?;
    if matches!(description.kind, Kind::File(_)) {
        return Err(Errno::EPERM);
    }
    let (_, id) = set(cx, call.fd(0))?;
    if target == epoll_ofd {
        return Err(Errno::EINVAL);
    }
    if events & libc::EPOLLEXCLUSIVE as u32 != 0 {
        let is_possible = op == libc::EPOLL_CTL_ADD
            && !matches!(description.kind, Kind::Epoll(_))
            && events & !epoll::exclusive_allows() == 0;
        if !is_possible {
            return Err(Errno::EINVAL);
        }
    }
    let key = (fd, target);
    match op {
        libc::EPOLL_CTL_ADD => epoll::add(cx.model, id, key, events, data)?,
        libc::EPOLL_CTL_MOD => epoll::modify(cx.model, id, key, events, data)?,
        libc::EPOLL_CTL_DEL => epoll::delete(cx.model, id, key)?,
        _ => return Err(Errno::EINVAL),
    }
    Effect::ok()
}

fn timeout(cx: &Cx, call: &Call) -> Result<Timeout, Errno> {
    match call.sysno {
        Sysno::epoll_pwait2 => Timeout::timespec(cx, call.word(3)),
        _ => Ok(Timeout::millis(call.int(3))),
    }
}

fn wait_for(ofd: OfdId) -> WaitFor {
    WaitFor::Ready(vec![(ofd, PollEvents::IN | PollEvents::NVAL)])
}

pub fn prepare_wait(cx: &Cx, call: &Call) -> Prepared {
    let (Ok((ofd, id)), Ok(timeout)) = (set(cx, call.fd(0)), timeout(cx, call)) else {
        return Prepared::visible(Vec::new()).awaiting_clients(true);
    };
    // A call that is refused lets no signal through.
    let mask = match call.sysno != Sysno::epoll_wait && events_asked(call).is_ok() {
        true => timed::own_mask(cx, call.word(4), call.word(5)),
        false => None,
    };
    let mut touched = touches(cx.model, ofd, Use::Poll);
    touched.push(Touch::write(Object::Channel(id.0)));
    let wait = timed::wait_at_parking(cx, timeout, wait_for(ofd), OnSignal::Interrupt);
    let prepared = Prepared::visible(touched)
        .until(timeout.deadline(cx))
        .awaiting_clients(true)
        .masked(mask);
    match events_asked(call) {
        Ok(_) => prepared.parking(wait),
        Err(_) => prepared,
    }
}

/// How many events at most, for which there can be memory.
fn events_asked(call: &Call) -> Result<usize, Errno> {
    let max = call.int(2);
    if max <= 0 || max as u64 > i32::MAX as u64 / EVENT_SIZE {
        return Err(Errno::EINVAL);
    }
    check_reachable(call.word(1), max as u64 * EVENT_SIZE)?;
    Ok(max as usize)
}

pub fn wait(cx: &mut Cx, call: &Call) -> Outcome {
    report_ready(cx, call)
}

pub fn pwait(cx: &mut Cx, call: &Call) -> Outcome {
    let outcome = timed::read_mask(cx, call.word(4), call.word(5)).and_then(|_| report_ready(cx, call));
    timed::finish(cx, outcome)
}

fn report_ready(cx: &mut Cx, call: &Call) -> Outcome {
    let timeout = timeout(cx, call)?;
    cx.model.files.lookup(call.fd(0))?;
    let max = events_asked(call)?;
    let (ofd, id) = set(cx, call.fd(0))?;
    let events = epoll::collect(cx.model, cx.tid, id, max);
    if events.is_empty()
        && let Some(wait) = timed::wait_on(cx, timeout, wait_for(ofd), OnSignal::Interrupt)
    {
        return Ok(Effect::Block(wait));
    }
    for (i, event) in events.iter().enumerate() {
        let at = call.word(1) + i as u64 * EVENT_SIZE;
        cx.mem.write_u32(at, event.events)?;
        cx.mem.write_u64(at.wrapping_add(4), event.data)?;
    }
    Ok(Effect::Done(events.len() as i64))
}
