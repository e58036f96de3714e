//! `select` and `pselect6`.

use super::timed::{self, Timeout};
use crate::call::Call;
use crate::channels::{Use, touches};
use crate::effect::{Effect, Outcome, Prepared};
use crate::fd::{MAX_FDS, OfdId, PollEvents};
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use crate::wait::{OnSignal, WaitFor};
use syscalls::{Errno, Sysno};

/// What each of the three sets asks for.
const ASKED: [PollEvents; 3] = [
    PollEvents::IN
        .union(PollEvents::RDNORM)
        .union(PollEvents::RDBAND)
        .union(PollEvents::HUP)
        .union(PollEvents::ERR)
        .union(PollEvents::NVAL),
    PollEvents::OUT
        .union(PollEvents::WRNORM)
        .union(PollEvents::WRBAND)
        .union(PollEvents::ERR)
        .union(PollEvents::NVAL),
    PollEvents::PRI.union(PollEvents::NVAL),
];

/// The three descriptor sets, as words; a null pointer is an empty set.
struct Sets {
    words: [Vec<u64>; 3],
    count: i32,
}

impl Sets {
    fn read(cx: &Cx, call: &Call) -> Result<Self, Errno> {
        if call.int(0) < 0 {
            return Err(Errno::EINVAL);
        }
        let count = call.int(0).min(MAX_FDS);
        let mut words = [const { Vec::new() }; 3];
        for (i, set) in words.iter_mut().enumerate() {
            let (addr, len) = (call.word(1 + i), (count as u64).div_ceil(64));
            for word in 0..len {
                set.push(if addr == 0 {
                    0
                } else {
                    cx.mem.read_u64(addr.wrapping_add(word * 8))?
                });
            }
        }
        Ok(Self { words, count })
    }

    fn asked(&self, set: usize, fd: i32) -> bool {
        self.words[set][fd as usize / 64] >> (fd % 64) & 1 != 0
    }

    /// Each descriptor in a set, with what it is asked for.
    fn watched(&self, cx: &Cx) -> Result<Vec<(i32, OfdId, PollEvents)>, Errno> {
        let mut out = Vec::new();
        for fd in 0..self.count {
            let sets = (0..3).filter(|&set| self.asked(set, fd));
            let events = sets.fold(PollEvents::empty(), |events, set| events | ASKED[set]);
            if !events.is_empty() {
                out.push((fd, cx.model.files.descriptor(fd)?.description, events));
            }
        }
        Ok(out)
    }
}

fn timeout(cx: &Cx, call: &Call) -> Result<Timeout, Errno> {
    match call.sysno {
        Sysno::pselect6 => Timeout::timespec(cx, call.word(4)),
        _ => Timeout::timeval(cx, call.word(4)),
    }
}

/// `pselect6` packs pointer and size of the mask into a structure of its own.
fn mask_argument(cx: &Cx, call: &Call) -> Result<(u64, u64), Errno> {
    match (call.sysno, call.word(5)) {
        (Sysno::pselect6, addr) if addr != 0 => {
            Ok((cx.mem.read_u64(addr)?, cx.mem.read_u64(addr.wrapping_add(8))?))
        }
        _ => Ok((0, 0)),
    }
}

fn on_signal(call: &Call) -> OnSignal {
    match (call.sysno, call.word(4)) {
        (Sysno::pselect6, addr) if addr != 0 => OnSignal::InterruptWithRemainder(addr),
        _ => OnSignal::Interrupt,
    }
}

fn wait_for(watched: &[(i32, OfdId, PollEvents)]) -> WaitFor {
    let with_closed = watched
        .iter()
        .map(|&(_, id, events)| (id, events | PollEvents::NVAL));
    WaitFor::Ready(with_closed.collect())
}

pub fn prepare(cx: &Cx, call: &Call) -> Prepared {
    let mask = mask_argument(cx, call).ok();
    let mask = mask.and_then(|(addr, size)| timed::own_mask(cx, addr, size));
    let begun = |prepared: Prepared| prepared.awaiting_clients(true).masked(mask);
    let watched = Sets::read(cx, call).and_then(|sets| sets.watched(cx));
    let (Ok(watched), Ok(timeout)) = (watched, timeout(cx, call)) else {
        return begun(Prepared::visible(Vec::new()));
    };
    let touched = watched
        .iter()
        .flat_map(|&(_, id, _)| touches(cx.model, id, Use::Poll));
    let prepared = begun(Prepared::visible(touched.collect())).until(timeout.deadline(cx));
    prepared.parking(timed::wait_at_parking(
        cx,
        timeout,
        wait_for(&watched),
        on_signal(call),
    ))
}

pub fn select(cx: &mut Cx, call: &Call) -> Outcome {
    report_ready(cx, call)
}

pub fn pselect6(cx: &mut Cx, call: &Call) -> Outcome {
    let mask = mask_argument(cx, call).and_then(|(addr, size)| timed::read_mask(cx, addr, size));
    let outcome = mask.and_then(|_| report_ready(cx, call));
    timed::finish_look(cx, outcome)
}

fn report_ready(cx: &mut Cx, call: &Call) -> Outcome {
    let timeout = timeout(cx, call)?;
    let sets = Sets::read(cx, call)?;
    let watched = sets.watched(cx)?;
    let mut found = sets.words.clone().map(|words| vec![0_u64; words.len()]);
    let mut count = 0;
    for &(fd, id, _) in &watched {
        let events = cx.model.poll_as(Some(cx.tid), id);
        for set in 0..3 {
            if sets.asked(set, fd) && events.intersects(ASKED[set]) {
                found[set][fd as usize / 64] |= 1 << (fd % 64);
                count += 1;
            }
        }
    }
    if count == 0
        && let Some(wait) = timed::wait_on(cx, timeout, wait_for(&watched), on_signal(call))
    {
        return Ok(Effect::Block(wait));
    }
    for (set, words) in found.iter().enumerate() {
        let addr = call.word(1 + set);
        for (i, word) in words.iter().enumerate().filter(|_| addr != 0) {
            cx.mem.write_u64(addr.wrapping_add(i as u64 * 8), *word)?;
        }
    }
    tell_remaining(cx, call);
    Ok(Effect::Done(count))
}

/// Linux tells how much time was left; where it cannot write that, it does not mind.
fn tell_remaining(cx: &mut Cx, call: &Call) {
    let (addr, left) = (call.word(4), timed::remaining(cx));
    if addr == 0 {
        return;
    }
    let fraction = match call.sysno {
        Sysno::pselect6 => left % 1_000_000_000,
        _ => left % 1_000_000_000 / 1000,
    };
    if cx.mem.write_u64(addr, left / 1_000_000_000).is_ok() {
        let _ = cx.mem.write_u64(addr.wrapping_add(8), fraction);
    }
}
