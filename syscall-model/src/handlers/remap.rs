//! `mremap` of memory that is shared: the kernel moves what the task has there, and the file goes with it.

use super::mapping::{BEYOND, is_free, is_mapped};
use crate::call::Call;
use crate::effect::{Effect, Outcome};
use crate::fs::{SharedMapping, shared};
use crate::memory::PAGE;
use crate::model::Cx;
use syscalls::Errno;

/// For a range in which something is shared. What every call of it must observe was looked at.
pub(super) fn shared_memory(cx: &mut Cx, call: &Call) -> Outcome {
    let (start, flags, to) = (call.word(0), call.int(3), call.word(4));
    // A length that comes to nothing by being rounded up is none.
    let pages = |len: u64| len.checked_next_multiple_of(PAGE).unwrap_or_default();
    let (old, new) = (pages(call.word(1)), pages(call.word(2)));
    let moves = flags & libc::MREMAP_MAYMOVE != 0;
    let is_fixed = flags & libc::MREMAP_FIXED != 0;
    let is_kept = flags & libc::MREMAP_DONTUNMAP != 0;
    if new == 0 || new > BEYOND {
        return Err(Errno::EINVAL);
    }
    // What stays where it is has a second place, so the new address is looked at, whether it is used or not.
    if (is_fixed || is_kept) && (!moves || !is_place(to, new, start, old)) || is_kept && old != new {
        return Err(Errno::EINVAL);
    }
    let unsupported = |what: &str| Ok(Effect::Unsupported(what.to_owned()));
    if !is_mapped(cx, start, start + 1) {
        return Err(Errno::EFAULT);
    }
    let has_end = start.checked_add(old).is_some_and(|end| end <= BEYOND);
    // What is to go need not be there.
    if new <= old && !is_kept && !is_fixed {
        if !has_end {
            return Err(Errno::EINVAL);
        }
        if new < old {
            shared::unmap(cx, start + new, old - new)?;
        }
        return Ok(Effect::Kernel);
    }
    let Some(mapping) = cx.model.fs.shared_mapping_at(start) else {
        return Err(Errno::EFAULT);
    };
    if old == 0 && !moves {
        return Err(Errno::ENOMEM);
    }
    if old == 0 || is_kept {
        return unsupported("a second mapping of shared memory by mremap");
    }
    let asked = old;
    let kept = old.min(new);
    if start.saturating_add(kept) <= mapping.end() && kept < old && has_end {
        shared::unmap(cx, start + kept, old - kept)?;
    }
    let old = kept;
    let Some(mapping) = cx.model.fs.shared_mapping_at(start) else {
        return Err(Errno::EFAULT);
    };
    if start.saturating_add(old) > mapping.end() {
        return Err(Errno::EFAULT);
    }
    if start + old > mapping.addr + mapping.backed {
        return unsupported("moving or resizing a shared mapping that reaches beyond the end of its file");
    }
    let target = match (is_fixed, moves) {
        (true, _) => to,
        // It stays where it is, if it can.
        (false, _) if start + old == mapping.end() && is_free(cx, start + old, new - old) => start,
        (false, true) => cx.model.fs.choose_address(new),
        (false, false) => return Err(Errno::ENOMEM),
    };
    if is_fixed {
        shared::unmap(cx, to, new)?;
    }
    shared::flush(cx, &mapping.node)?;
    go_with(cx, mapping, start..start + old, target..target + new);
    if target == start {
        return Ok(Effect::Kernel);
    }
    let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64;
    Ok(Effect::KernelWith([start, asked, new, flags, target, 0]))
}

/// Can memory be moved there?
fn is_place(to: u64, len: u64, start: u64, old: u64) -> bool {
    let end = to.checked_add(len).filter(|&end| end <= BEYOND);
    to.is_multiple_of(PAGE) && end.is_some_and(|end| end <= start || start.saturating_add(old) <= to)
}

/// The part of the file that was at one place is at another from now on, and perhaps more of it.
fn go_with(cx: &mut Cx, mapping: SharedMapping, from: std::ops::Range<u64>, to: std::ops::Range<u64>) {
    let node = mapping.node.clone();
    let len = to.end - to.start;
    let fs = &mut cx.model.fs;
    // It must not go with its last mapping.
    fs.opened(&node);
    fs.cut_mappings(from.start, from.end);
    fs.add_mapping(SharedMapping {
        addr: to.start,
        len,
        offset: mapping.offset + (from.start - mapping.addr),
        backed: len,
        ..mapping
    });
    fs.note_resized(&node);
    fs.forget(&node);
}
