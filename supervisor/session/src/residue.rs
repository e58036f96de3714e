//! What a thread leaves below its stack pointer is wiped, so that equal states stay equal.
//!
//! Dead stack memory does not identify a state, but it comes to life again: a frame that is pushed over it shows
//! what earlier calls left in its padding and in locals that are not yet set. A state whose identity leaves such
//! bytes out would have successors whose identities do not, and how many states there are would depend on which path came first. So
//! after each transition the dead part of the stack of the thread that moved is set to zero, as far down as it was used.
//!
//! Only what is known to be a stack is touched: the main stack, or a mapping of a thread library (guarded from below, with
//! the thread's own data at its upper end), with no second thread on it, and not while a handler
//! runs on an alternate stack, which may lie anywhere.

use super::Session;
use super::spaces::Space;
use failure::Failure;
use procfs::process::MMapPath;
use std::ops::Range;
use syscall_model::Tid;
use tracee::{Area, Regs};

const PAGE: usize = 4096;
const ZEROS: [u8; PAGE] = [0; PAGE];
/// Bytes below the stack pointer that a function may use (System V ABI).
const RED_ZONE: u64 = 128;

/// A mapping, as far as it matters for stacks.
#[derive(Clone, Debug)]
pub(super) struct Region {
    /// The layout in which this holds.
    layout: u64,
    range: Range<u64>,
    /// The kernel calls it the main stack.
    is_main_stack: bool,
    /// Private anonymous memory right above a mapping that nobody may touch.
    is_guarded: bool,
}

impl Session {
    /// Would what a thread leaves be looked at? One that has always been alone leaves the same whenever it comes by.
    pub(super) fn may_leave_residue(&self) -> bool {
        let has_had_threads = self.model.next_tid > self.options.config.pid + 1;
        has_had_threads && self.ends.ended.is_none()
    }

    /// Wipes what `tid`, which stands or ended at `regs`, left below its stack pointer. `is_call`: it has just called a function, so there is nothing
    /// alive right below either.
    pub(super) fn wipe_residue(&mut self, tid: Tid, regs: &Regs, is_call: bool) -> Result<(), Failure> {
        if !self.may_leave_residue() || self.is_on_alternate_stack(tid, regs.rsp) {
            return Ok(());
        }
        let Some(stack) = self.stack_below(tid, regs)? else {
            return Ok(());
        };
        let red_zone = if is_call { 0 } else { RED_ZONE };
        let mut top = regs.rsp.saturating_sub(red_zone);
        let mut pages = [0; 2 * PAGE];
        while top > stack {
            // What is left of this page, and the next one: as a rule that is where the residue ends.
            let page = (top - 1) & !(PAGE as u64 - 1);
            let bottom = page.saturating_sub(PAGE as u64).max(stack);
            let used = &mut pages[..(top - bottom) as usize];
            let memory = self.spaces.task()?.memory();
            memory.read(bottom, used)?;
            let (next, this) = used.split_at(page.max(stack).saturating_sub(bottom) as usize);
            for (start, piece) in [(page.max(stack), this), (bottom, next)] {
                let is_blank = *piece == ZEROS[..piece.len()];
                if is_blank && piece.len() == PAGE {
                    return Ok(());
                }
                if !is_blank {
                    memory.write(start, &ZEROS[..piece.len()])?;
                }
            }
            top = bottom;
        }
        Ok(())
    }

    /// Does the thread run on the stack that it set aside for its handlers?
    pub(super) fn is_on_alternate_stack(&self, tid: Tid, sp: u64) -> bool {
        let Some(thread) = self.model.find_thread(tid) else {
            return false;
        };
        let (start, size, _) = thread.signals.altstack;
        (start..start.saturating_add(size)).contains(&sp)
    }

    /// Where the stack of the thread begins, if it is known to be a stack and its alone.
    fn stack_below(&mut self, tid: Tid, regs: &Regs) -> Result<Option<u64>, Failure> {
        let Some(region) = self.spaces.here.region_of(tid, regs.rsp)? else {
            return Ok(None);
        };
        let is_thread_stack = region.is_guarded && (regs.rsp..region.range.end).contains(&regs.fs_base);
        let is_shared = self
            .threads
            .iter()
            .filter(|&(&other, _)| other != tid && self.spaces.is_here(&self.model, other))
            .any(|(_, context)| region.range.contains(&context.regs.rsp));
        let is_stack = (region.is_main_stack || is_thread_stack) && !is_shared;
        Ok(is_stack.then_some(region.range.start))
    }

    /// May another thread than the one with this stack pointer use memory in this range? Not where nobody may (a heap that is cut to size), not on the
    /// stack on which this thread runs, and not on one on which nobody does any more: thread libraries give these back, with their guard, when threads end.
    pub(super) fn is_shared_range(&mut self, range: Range<u64>, sp: u64) -> Result<bool, Failure> {
        let mut from = range.start;
        while let Some(area) = self
            .spaces
            .task()?
            .area_from(from)?
            .filter(|a| a.range.start < range.end)
        {
            from = area.range.end;
            let here = self
                .threads
                .iter()
                .filter(|&(&tid, _)| self.spaces.is_here(&self.model, tid));
            let mut others = here.map(|(_, context)| context.regs.rsp);
            let is_left = range.start < area.range.start && !others.any(|sp| area.range.contains(&sp));
            let is_aside = area.range.contains(&sp) || is_left;
            let is_private = is_aside && is_plain(&area) && {
                let below = self.spaces.task()?.area_from(area.range.start - 1)?;
                is_guard(below, area.range.start)
            };
            if area.prot != libc::PROT_NONE && !is_private {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Space {
    /// The mapping that a thread's stack pointer is in.
    fn region_of(&mut self, tid: Tid, sp: u64) -> Result<Option<Region>, Failure> {
        let version = self.layout_version;
        let is_known = |region: &&Region| region.layout == version && region.range.contains(&sp);
        if let Some(region) = self.known.stacks.get(&tid).filter(is_known) {
            return Ok(Some(region.clone()));
        }
        let task = self.task()?;
        let Some(area) = task.area_from(sp)?.filter(|area| area.range.contains(&sp)) else {
            return Ok(None);
        };
        let region = Region {
            layout: version,
            is_main_stack: area.name == MMapPath::Stack,
            is_guarded: is_plain(&area) && is_guard(task.area_from(area.range.start - 1)?, area.range.start),
            range: area.range,
        };
        // The main stack grows without a call.
        if !region.is_main_stack {
            self.known.stacks.insert(tid, region.clone());
        }
        Ok(Some(region))
    }
}

/// Is it private memory of the program that belongs to no file?
fn is_plain(area: &Area) -> bool {
    area.name == MMapPath::Anonymous && !area.shared && area.prot & libc::PROT_WRITE != 0
}

/// Is this an area that nobody may touch, and that ends there?
fn is_guard(area: Option<Area>, end: u64) -> bool {
    area.is_some_and(|area| area.range.end == end && area.prot == libc::PROT_NONE)
}
