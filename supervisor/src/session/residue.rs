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
use crate::error::Failure;
use procfs::process::{MMPermissions, MMapPath, Process};
use std::ops::Range;
use std::sync::Arc;
use syscall_model::Tid;
use tracee::Regs;

const PAGE: usize = 4096;
const ZEROS: [u8; PAGE] = [0; PAGE];
/// Bytes below the stack pointer that a function may use (System V ABI).
const RED_ZONE: u64 = 128;

/// A mapping, as far as it matters for stacks.
#[derive(Clone, Debug)]
pub(super) struct Region {
    range: Range<u64>,
    /// The kernel calls it the main stack.
    is_main_stack: bool,
    /// Private anonymous memory right above a mapping that nobody may touch.
    is_guarded: bool,
}

/// All mappings, in order. `None`: they have changed since they were read.
pub(super) type Regions = Option<Arc<Vec<Region>>>;

impl Session {
    /// Wipes what `tid`, which stands or ended at `regs`, left below its stack pointer.
    pub(super) fn wipe_residue(&mut self, tid: Tid, regs: &Regs) -> Result<(), Failure> {
        let has_had_threads = self.model.next_tid > self.model.process.pid + 1;
        if !has_had_threads || self.ended.is_some() || self.is_on_alternate_stack(tid, regs.rsp) {
            return Ok(());
        }
        let Some(stack) = self.stack_below(tid, regs)? else {
            return Ok(());
        };
        let mut top = regs.rsp.saturating_sub(RED_ZONE);
        let mut page = [0; PAGE];
        while top > stack {
            let bottom = ((top - 1) & !(PAGE as u64 - 1)).max(stack);
            let used = &mut page[..(top - bottom) as usize];
            let memory = self.task()?.memory();
            memory.read(bottom, used)?;
            let is_blank = *used == ZEROS[..used.len()];
            if is_blank && used.len() == PAGE {
                break;
            }
            if !is_blank {
                memory.write(bottom, &ZEROS[..used.len()])?;
            }
            top = bottom;
        }
        Ok(())
    }

    /// Does the thread run on the stack that it set aside for its handlers?
    pub(super) fn is_on_alternate_stack(&self, tid: Tid, sp: u64) -> bool {
        let Some(thread) = self.model.threads.get(&tid) else {
            return false;
        };
        let (start, size, _) = thread.altstack;
        (start..start.saturating_add(size)).contains(&sp)
    }

    /// Where the stack of the thread begins, if it is known to be a stack and its alone.
    fn stack_below(&mut self, tid: Tid, regs: &Regs) -> Result<Option<u64>, Failure> {
        let regions = self.regions()?;
        let after = regions.partition_point(|region| region.range.start <= regs.rsp);
        let Some(region) = regions[..after]
            .last()
            .filter(|region| region.range.contains(&regs.rsp))
        else {
            // The main stack has grown.
            self.regions = None;
            return Ok(None);
        };
        let is_thread_stack = region.is_guarded && (regs.rsp..region.range.end).contains(&regs.fs_base);
        let is_shared = self
            .contexts
            .iter()
            .any(|(&other, context)| other != tid && region.range.contains(&context.regs.rsp));
        let is_stack = (region.is_main_stack || is_thread_stack) && !is_shared;
        Ok(is_stack.then_some(region.range.start))
    }

    fn regions(&mut self) -> Result<Arc<Vec<Region>>, Failure> {
        if let Some(regions) = &self.regions {
            return Ok(Arc::clone(regions));
        }
        let regions = Arc::new(read_regions(self.task()?.pid())?);
        self.regions = Some(Arc::clone(&regions));
        Ok(regions)
    }
}

fn read_regions(pid: i32) -> Result<Vec<Region>, Failure> {
    let fail = |error| Failure::unsupported(format!("cannot read the memory map of the program: {error}"));
    let maps = Process::new(pid)
        .and_then(|process| process.maps())
        .map_err(fail)?;
    let usable = MMPermissions::READ | MMPermissions::WRITE | MMPermissions::EXECUTE;
    let mut guard_end = 0;
    let mut regions = Vec::new();
    for map in maps {
        let (start, end) = map.address;
        let is_anonymous =
            matches!(map.pathname, MMapPath::Anonymous) && !map.perms.contains(MMPermissions::SHARED);
        regions.push(Region {
            range: start..end,
            is_main_stack: matches!(map.pathname, MMapPath::Stack),
            is_guarded: is_anonymous && map.perms.contains(MMPermissions::WRITE) && guard_end == start,
        });
        guard_end = if map.perms.intersects(usable) { 0 } else { end };
    }
    Ok(regions)
}
