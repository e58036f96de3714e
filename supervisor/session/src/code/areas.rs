//! The memory that displaced instructions are in, and the program's code while the program itself changes it.
//!
//! The areas are executable and nothing else: the program cannot write there, the kernel's calls do not read there, and where the processor
//! knows protection keys a load faults, too. The program is told that there is nothing (`session/guard.rs`); if it wants to map
//! something of its own at such a place, the area goes elsewhere.

use super::{Code, INT3, Installed};
use crate::maps::read_maps;
use failure::Failure;
use std::ops::Range;
use std::sync::Arc;
use tracee::PAGE;
use tracee::Stopped;

/// The longest instruction.
const LONGEST: usize = 15;
/// Slots this near to each other are written together.
const NEAR: u64 = 64;

/// A hook in code that the program can write to at present.
#[derive(Clone, Copy)]
pub(super) struct Withdrawn {
    site: Installed,
    /// The instruction, as it was when the hook was taken away.
    code: [u8; LONGEST],
}

impl Code {
    /// Sees to it that there is room for the displaced instructions near the module, and none of it in `avoided`.
    pub(super) fn reserve(
        &mut self,
        task: &mut Stopped,
        span: Range<u64>,
        sites: usize,
        avoided: Option<&Range<u64>>,
    ) -> Result<(), Failure> {
        let mut mapped: Vec<Range<u64>> = read_maps(task.pid())?
            .iter()
            .map(|map| map.start..map.end)
            .collect();
        mapped.extend(avoided.cloned());
        let fail = |error: hooks::ScratchError| Failure::unsupported(format!("no room for hooks: {error}"));
        if let Some(area) = self.layout.reserve(span, sites, &mapped).map_err(fail)? {
            let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
            // All of it, or the kernel would give what is left to the program.
            let (start, len) = (area.range.start, area.range.end - area.range.start);
            task.inject_checked(
                "mmap",
                libc::SYS_mmap,
                [start, len, libc::PROT_NONE as u64, flags, u64::MAX, 0],
            )?;
            let slots = area.slots();
            let args = [
                slots.start,
                slots.end - slots.start,
                libc::PROT_EXEC as u64,
                0,
                0,
                0,
            ];
            task.inject_checked("mprotect", libc::SYS_mprotect, args)?;
        }
        Ok(())
    }

    /// The program maps something of its own here: what is ours moves. Returns the areas that are free now, to be unmapped.
    pub fn make_way(&mut self, task: &mut Stopped, range: &Range<u64>) -> Result<Vec<Range<u64>>, Failure> {
        let evicted = self.layout.evict(range);
        let mut moved: Vec<(u64, Vec<u8>)> = Vec::new();
        let modules = Arc::clone(&self.modules);
        for module in modules.iter() {
            let sites: Vec<(u64, Installed)> = evicted
                .sites
                .iter()
                .filter(|site| module.range.contains(site))
                .filter_map(|site| Some((*site, self.site(*site)?)))
                .collect();
            if sites.is_empty() {
                continue;
            }
            self.reserve(task, module.range.clone(), sites.len(), Some(range))?;
            for (address, mut site) in sites {
                let mut code = [0; LONGEST];
                let available = task.memory().read_up_to(address, &mut code)?;
                if available == 0 {
                    continue;
                }
                code[0] = site.original;
                let placed = self.layout.place(address, &code[..available]).map_err(|error| {
                    Failure::unsupported(format!("cannot hook the code at {address:#x}: {error}"))
                })?;
                site.slot = placed.slot;
                moved.push((placed.slot, placed.bytes));
                Arc::make_mut(&mut self.sites).insert(address, site);
            }
        }
        Arc::make_mut(&mut self.withdrawn).retain(|site, _| !evicted.sites.contains(site));
        write_slots(task, &moved)?;
        Ok(evicted.areas)
    }

    /// The program is about to write to its code: it finds what the linker put there, and an `int3` that it writes is its own.
    /// Returns whether anything changed.
    pub fn withdraw(&mut self, task: &Stopped, range: Range<u64>) -> Result<bool, Failure> {
        let here: Vec<(u64, Installed)> = self.sites.range(range).map(|(at, site)| (*at, *site)).collect();
        for (address, site) in &here {
            if self.is_in_place(site) {
                task.memory().write_forced(*address, &[site.original])?;
            }
            let mut code = [0; LONGEST];
            task.memory().read_up_to(*address, &mut code[..site.len.into()])?;
            Arc::make_mut(&mut self.sites).remove(address);
            Arc::make_mut(&mut self.withdrawn).insert(*address, Withdrawn { site: *site, code });
        }
        Ok(!here.is_empty())
    }

    /// The code can no longer be written to: hooks whose instruction is what it was are put back.
    pub fn put_back(&mut self, task: &Stopped, range: Range<u64>) -> Result<bool, Failure> {
        let here: Vec<(u64, Withdrawn)> = self
            .withdrawn
            .range(range.clone())
            .map(|(at, hook)| (*at, *hook))
            .collect();
        for (address, hook) in &here {
            Arc::make_mut(&mut self.withdrawn).remove(address);
            let mut now = [0; LONGEST];
            task.memory()
                .read_up_to(*address, &mut now[..hook.site.len.into()])?;
            if now == hook.code {
                Arc::make_mut(&mut self.sites).insert(*address, hook.site);
            }
        }
        if !here.is_empty() {
            self.write(task, range)?;
        }
        Ok(!here.is_empty())
    }
}

/// Writes displaced instructions, many at a time: there may be thousands.
pub(super) fn write_slots(task: &Stopped, slots: &[(u64, Vec<u8>)]) -> Result<(), Failure> {
    let mut slots: Vec<&(u64, Vec<u8>)> = slots.iter().collect();
    slots.sort_by_key(|slot| slot.0);
    let mut run: (u64, Vec<u8>) = (0, Vec::new());
    for (at, bytes) in slots {
        let end = run.0 + run.1.len() as u64;
        if run.1.is_empty() || at - end > NEAR {
            flush(task, &run)?;
            run = (*at, bytes.clone());
        } else {
            run.1.resize((at - run.0) as usize, INT3);
            run.1.extend(bytes);
        }
    }
    flush(task, &run)
}

fn flush(task: &Stopped, run: &(u64, Vec<u8>)) -> Result<(), Failure> {
    if !run.1.is_empty() {
        task.memory().write_forced(run.0, &run.1)?;
    }
    Ok(())
}

/// The pages of a range.
pub fn pages(start: u64, len: u64) -> Range<u64> {
    let end = start.saturating_add(len);
    start & !(PAGE - 1)..end.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX)
}
