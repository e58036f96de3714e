//! Signals read from a descriptor. The descriptor itself holds only the set; signals stay pending in
//! [`Signals`] until somebody reads them.

use crate::fd::PollEvents;
use crate::model::Model;
use crate::signals::Signals;
use crate::thread::Tid;
use syscalls::Errno;

/// `sizeof(struct signalfd_siginfo)`.
pub const RECORD: usize = 128;

/// As many records as fit; `EAGAIN` if no signal of the set is pending for the caller.
pub fn read(model: &mut Model, tid: Tid, set: u64, max: usize) -> Result<Vec<u8>, Errno> {
    if max < RECORD {
        return Err(Errno::EINVAL);
    }
    let mut out = Vec::new();
    while out.len() + RECORD <= max
        && let Some(info) = Signals::take_pending(model, tid, set)
    {
        out.extend_from_slice(&info.encode_signalfd());
    }
    if out.is_empty() {
        return Err(Errno::EAGAIN);
    }
    Ok(out)
}

/// Each thread sees its own signals and the process's. Where nobody in particular asks, any thread's will do.
pub fn poll(model: &Model, tid: Option<Tid>, set: u64) -> PollEvents {
    let pending = match tid.and_then(|tid| model.find_thread(tid)) {
        Some(thread) => model.signals_of(thread.tid).any_pending(thread, set),
        None => model
            .all_threads()
            .any(|thread| model.signals_of(thread.tid).any_pending(thread, set)),
    };
    if pending {
        PollEvents::IN
    } else {
        PollEvents::empty()
    }
}
