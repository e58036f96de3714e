//! A call is asked of its row: what it needs before it runs, and what it does.

use super::Fate::*;
use super::lookup;
use crate::call::Call;
use crate::channels::named;
use crate::effect::{Beginning, Effect, Outcome, Prepared};
use crate::fs::durable;
use crate::handlers::timed;
use crate::ipc::segments;
use crate::memory::GuestMemory;
use crate::model::Cx;
use crate::net::mirror;
use crate::signals::Signals;
use std::ops::Range;

pub(crate) fn execute(cx: &mut Cx, call: &Call) -> Outcome {
    let outcome = dispatch(cx, call);
    durable::after_call(cx.model, call, outcome.is_ok());
    mirror::exchange(cx.model, cx.net);
    segments::settle(cx.model, cx.model.process.pid);
    // Masks, threads and waits may have changed, and with them who takes a pending signal.
    Signals::assign(cx.model);
    cx.model.stack_pointer = 0;
    outcome
}

fn dispatch(cx: &mut Cx, call: &Call) -> Outcome {
    let row = lookup(call.sysno);
    match row.fate {
        Allow | Pass => Ok(Effect::Kernel),
        Model(handler, _) => {
            let outcome = handler(cx, call);
            if !matches!(outcome, Ok(Effect::Block(_)))
                && let Some(thread) = cx.model.threads.get_mut(&cx.tid)
            {
                thread.end_call();
            }
            outcome
        }
        Refuse(errno) => Err(errno),
        Fatal => Ok(Effect::Unsupported(row.why.to_owned())),
    }
}

pub(crate) fn prepare(cx: &Cx, call: &Call) -> Prepared {
    match lookup(call.sysno).fate {
        Model(_, prepare) => prepare(cx, call),
        _ => Prepared::invisible(),
    }
}

/// Does what a call does before it runs.
pub(crate) fn begin(cx: &mut Cx, beginning: &Beginning) {
    if beginning.awaits_clients {
        named::await_clients(cx.model);
    }
    if let Some(deadline) = beginning.deadline {
        cx.thread().call.deadline = deadline;
    }
    if let Some(mask) = beginning.mask {
        timed::put_in_force(cx, mask);
    }
    mirror::exchange(cx.model, cx.net);
    segments::settle(cx.model, cx.model.process.pid);
}

/// The memory that a call has accessed which returned this, and whether it was filled.
pub fn buffers(call: &Call, result: i64, memory: &dyn GuestMemory) -> Vec<(Range<u64>, bool)> {
    if result < 0 {
        return Vec::new();
    }
    let buffers = lookup(call.sysno).buffers.iter();
    buffers
        .flat_map(|buffer| buffer.spans(call, result, memory))
        .collect()
}
