//! Memory that the dynamic loader takes away from itself, while it loads a library.
//!
//! Where a call takes memory away, others could be about to use it, so the step is dependent with everything. But what the loader does on the way of loading is
//! about memory that nobody else knows yet, or ever: its cache of where libraries are, and the pages of a new library that are written for the last time as it is
//! relocated. That matters because threads load libraries when they end: `pthread_exit` needs the one that unwinds stacks.

use super::Session;
use failure::Failure;
use procfs::process::MMapPath;
use std::ops::Range;
use std::path::Path;
use syscall_model::Sysno;
use tracee::Area;

/// The loader's list of libraries.
const CACHE: &str = "/etc/ld.so.cache";

impl Session {
    /// Does the loader, in code of its own that programs cannot call, take away what only it uses?
    pub(super) fn is_loading(
        &mut self,
        sysno: Sysno,
        args: [u64; 6],
        range: &Range<u64>,
    ) -> Result<bool, Failure> {
        let task = self.spaces.task()?;
        let rip = task.regs()?.rip;
        let area = task.area_from(range.start)?;
        let is_loaders = self.spaces.here.code.is_loader(rip);
        Ok(is_loaders && area.is_some_and(|area| is_its_own(sysno, args, range, &area)))
    }
}

fn is_its_own(sysno: Sysno, args: [u64; 6], range: &Range<u64>, area: &Area) -> bool {
    let MMapPath::Path(file) = &area.name else {
        return false;
    };
    let is_within = area.range.start <= range.start && range.end <= area.range.end.next_multiple_of(4096);
    match sysno {
        Sysno::munmap => is_within && file == Path::new(CACHE) && area.prot == libc::PROT_READ,
        // They can still be read: it takes away only what was allowed for relocation.
        Sysno::mprotect => is_within && !area.shared && args[2] == libc::PROT_READ as u64,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(name: &str, prot: i32) -> Area {
        Area {
            range: 0x1000..0x5000,
            prot,
            shared: false,
            offset: 0,
            device: (0, 0),
            inode: 1,
            name: MMapPath::Path(name.into()),
        }
    }

    fn args(prot: i32) -> [u64; 6] {
        [0x1000, 0x1000, prot as u64, 0, 0, 0]
    }

    #[test]
    fn a_library_that_is_unmapped_may_be_in_use() {
        let range = 0x1000..0x4f00;
        let unmaps = |name| is_its_own(Sysno::munmap, args(0), &range, &area(name, libc::PROT_READ));
        assert!(unmaps(CACHE));
        assert!(!unmaps("/lib/libm.so.6"));
    }

    #[test]
    fn pages_that_cannot_be_read_any_more_may_be_in_use() {
        let range = 0x1000..0x2000;
        let library = area("/lib/libgcc_s.so.1", libc::PROT_READ | libc::PROT_WRITE);
        let protects = |prot| is_its_own(Sysno::mprotect, args(prot), &range, &library);
        assert!(protects(libc::PROT_READ));
        assert!(!protects(libc::PROT_NONE));
        assert!(!is_its_own(
            Sysno::mprotect,
            args(libc::PROT_READ),
            &(0x1000..0x9000),
            &library
        ));
    }
}
