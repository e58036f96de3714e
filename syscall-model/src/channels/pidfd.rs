//! Processes behind a descriptor. It can be asked whether the process has ended, and is nothing that is read or written.

use crate::fd::PollEvents;
use crate::model::Model;
use crate::processes::{INIT, Pid};

/// Readable once the process has ended; hung up once somebody has waited for it.
pub fn poll(model: &Model, pid: Pid) -> PollEvents {
    if pid == INIT || model.process_at(pid).is_some() {
        return PollEvents::empty();
    }
    let ended = PollEvents::IN | PollEvents::RDNORM;
    match model.zombies.contains_key(&pid) {
        true => ended,
        false => ended | PollEvents::HUP,
    }
}
