//! `poll` and `ppoll`.

use super::timed::{self, Timeout};
use crate::call::Call;
use crate::channels::{Use, touches};
use crate::effect::{Effect, Outcome, Prepared};
use crate::fd::PollEvents;
use crate::memory::{GuestMemoryExt, check_reachable};
use crate::model::Cx;
use crate::wait::{OnSignal, WaitFor};
use syscalls::{Errno, Sysno};

/// `struct pollfd`.
struct Entry {
    fd: i32,
    events: PollEvents,
}

const ENTRY_SIZE: u64 = 8;
const REVENTS: u64 = 6;

fn entries(cx: &Cx, call: &Call) -> Result<Vec<Entry>, Errno> {
    let (addr, count) = (call.word(0), u64::from(call.uint(1)));
    if count > cx.model.files.limit() as u64 {
        return Err(Errno::EINVAL);
    }
    let raw = cx.mem.read_vec(addr, (count * ENTRY_SIZE) as usize)?;
    let entry = |bytes: &[u8]| Entry {
        fd: i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
        events: PollEvents::from_bits_truncate(u32::from(u16::from_le_bytes([bytes[4], bytes[5]]))),
    };
    Ok(raw.chunks_exact(ENTRY_SIZE as usize).map(entry).collect())
}

fn timeout(cx: &Cx, call: &Call) -> Result<Timeout, Errno> {
    match call.sysno {
        Sysno::ppoll => Timeout::timespec(cx, call.word(2)),
        _ => Ok(Timeout::millis(call.int(2))),
    }
}

/// `ppoll` tells how much time was left, `poll` has nowhere to.
fn on_signal(call: &Call) -> OnSignal {
    match (call.sysno, call.word(2)) {
        (Sysno::ppoll, addr) if addr != 0 => OnSignal::InterruptWithRemainder(addr),
        _ => OnSignal::Interrupt,
    }
}

/// `None` if an entry is bad, which ends the call at once.
fn wait_for(cx: &Cx, entries: &[Entry]) -> Option<WaitFor> {
    let always = PollEvents::ERR | PollEvents::HUP | PollEvents::NVAL;
    let watched = entries.iter().filter(|entry| entry.fd >= 0).map(|entry| {
        let descriptor = cx.model.files.descriptor(entry.fd).ok()?;
        Some((descriptor.description, entry.events | always))
    });
    Some(WaitFor::Ready(watched.collect::<Option<_>>()?))
}

pub fn prepare(cx: &Cx, call: &Call) -> Prepared {
    let (Ok(entries), Ok(timeout)) = (entries(cx, call), timeout(cx, call)) else {
        return Prepared::visible(Vec::new()).awaiting_clients(true);
    };
    // A call that is refused lets no signal through.
    let mask = match call.sysno {
        Sysno::ppoll => timed::own_mask(cx, call.word(3), call.word(4)),
        _ => None,
    };
    let descriptors = entries
        .iter()
        .filter_map(|entry| cx.model.files.descriptor(entry.fd).ok());
    let touched = descriptors.flat_map(|d| touches(cx.model, d.description, Use::Poll));
    let prepared = Prepared::visible(touched.collect())
        .until(timeout.deadline(cx))
        .awaiting_clients(true)
        .masked(mask);
    // With a bad entry nothing is waited for, but the deadline is still there to be told.
    let on = wait_for(cx, &entries);
    let bad = on.is_none();
    let wait = timed::wait_at_parking(cx, timeout, on.unwrap_or(WaitFor::Nothing), on_signal(call));
    if bad { prepared } else { prepared.parking(wait) }
}

pub fn poll(cx: &mut Cx, call: &Call) -> Outcome {
    report_ready(cx, call)
}

pub fn ppoll(cx: &mut Cx, call: &Call) -> Outcome {
    let outcome = timed::read_mask(cx, call.word(3), call.word(4)).and_then(|_| report_ready(cx, call));
    timed::finish_look(cx, outcome)
}

fn report_ready(cx: &mut Cx, call: &Call) -> Outcome {
    let timeout = timeout(cx, call)?;
    let entries = entries(cx, call)?;
    let found: Vec<PollEvents> = entries.iter().map(|entry| ready(cx, entry)).collect();
    let count = found.iter().filter(|events| !events.is_empty()).count();
    if count == 0
        && let Some(on) = wait_for(cx, &entries)
        && let Some(wait) = timed::wait_on(cx, timeout, on, on_signal(call))
    {
        return Ok(Effect::Block(wait));
    }
    check_reachable(call.word(0), found.len() as u64 * ENTRY_SIZE)?;
    for (i, events) in found.iter().enumerate() {
        let at = call.word(0) + i as u64 * ENTRY_SIZE + REVENTS;
        cx.mem.write(at, &(events.bits() as u16).to_le_bytes())?;
    }
    if call.sysno == Sysno::ppoll && call.word(2) != 0 {
        let left = timed::remaining(cx);
        // As the kernel: a constant timespec is nobody's error.
        let _ = cx.mem.write_timespec(call.word(2), left);
    }
    Ok(Effect::Done(count as i64))
}

fn ready(cx: &Cx, entry: &Entry) -> PollEvents {
    if entry.fd < 0 {
        return PollEvents::empty();
    }
    match cx.model.files.descriptor(entry.fd) {
        Ok(descriptor) => {
            let events = cx.model.poll_as(Some(cx.tid), descriptor.description);
            events & (entry.events | PollEvents::ERR | PollEvents::HUP | PollEvents::NVAL)
        }
        Err(_) => PollEvents::NVAL,
    }
}
