//! Which pages a task has: `/proc/PID/pagemap`, by `PAGEMAP_SCAN` (Linux 6.7) or, for what the fork backend needs,
//! by reading it.
//!
//! The kernel has a fast way through a page table for exactly one question, "written since it was protected?" with
//! nothing else asked; it is an order of magnitude faster than any other, so this is what is asked after every
//! transition. Its price: entries that never held a page count as written, once. Long ranges are therefore looked at again, precisely.

use crate::error::{Error, Result};
use crate::store::PAGE;
use nix::errno::Errno;
use std::fs::File;
use std::mem::size_of;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

/// One past the last address of user memory.
pub(crate) const USER_END: u64 = 0x7fff_ffff_f000;

const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;
const PM_SCAN_WP_MATCHING: u64 = 1;
const PAGE_IS_WRITTEN: u64 = 1 << 1;
const PAGE_IS_FILE: u64 = 1 << 2;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;
const PAGE_IS_PFNZERO: u64 = 1 << 5;

/// Regions per call; a scan that finds more takes more calls. The kernel allocates for as many before it looks.
const REGIONS: usize = 64;
/// Words per read of the page map.
const WORDS: usize = 512;

#[repr(C)]
#[derive(Debug, Default)]
#[allow(non_camel_case_types, reason = "the kernel's name")]
struct pm_scan_arg {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
#[allow(non_camel_case_types, reason = "the kernel's name")]
struct page_region {
    start: u64,
    end: u64,
    categories: u64,
}

const _: () = assert!(size_of::<pm_scan_arg>() == 96 && size_of::<page_region>() == 24);

/// A range of pages that were copied or made for the task alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Own {
    pub(crate) range: Range<u64>,
    /// Written since it was last protected, or never protected.
    pub(crate) written: bool,
    /// In memory: neither swapped out nor a mere marker of the protection.
    pub(crate) present: bool,
}

/// The page map of one memory image: to be opened anew after an exec.
#[derive(Debug)]
pub(crate) struct Pagemap {
    file: File,
    pid: i32,
    regions: Vec<page_region>,
}

impl Pagemap {
    pub(crate) fn open(pid: i32) -> Result<Self> {
        let file = File::open(format!("/proc/{pid}/pagemap")).map_err(|error| Error::Proc {
            pid,
            reason: format!("pagemap: {error}"),
        })?;
        Ok(Pagemap {
            file,
            pid,
            regions: vec![page_region::default(); REGIONS],
        })
    }

    /// Ranges written since they were last protected, and possibly ranges that were never populated.
    /// With `protect` they are protected again.
    pub(crate) fn written(
        &mut self,
        within: Range<u64>,
        protect: bool,
        found: &mut Vec<Range<u64>>,
    ) -> Result<()> {
        self.changes(within, 0, protect, found)
    }

    /// Ranges of pages that exist and were written since they were last protected. With `protect` they are protected again.
    pub(crate) fn touched(
        &mut self,
        within: Range<u64>,
        protect: bool,
        found: &mut Vec<Range<u64>>,
    ) -> Result<()> {
        self.changes(within, PAGE_IS_PRESENT | PAGE_IS_SWAPPED, protect, found)
    }

    /// Written pages that are also in one of these categories, if any is given.
    fn changes(
        &mut self,
        within: Range<u64>,
        categories: u64,
        protect: bool,
        found: &mut Vec<Range<u64>>,
    ) -> Result<()> {
        let arg = pm_scan_arg {
            flags: if protect { PM_SCAN_WP_MATCHING } else { 0 },
            start: within.start,
            end: within.end,
            category_mask: PAGE_IS_WRITTEN,
            category_anyof_mask: categories,
            return_mask: PAGE_IS_WRITTEN,
            ..pm_scan_arg::default()
        };
        self.scan(arg, |region| found.push(region.start..region.end))
    }

    /// Protects all in the range that is not, and what was never populated.
    pub(crate) fn protect(&mut self, within: Range<u64>) -> Result<()> {
        let mut arg = pm_scan_arg {
            size: size_of::<pm_scan_arg>() as u64,
            flags: PM_SCAN_WP_MATCHING,
            start: within.start,
            end: within.end,
            category_mask: PAGE_IS_WRITTEN,
            ..pm_scan_arg::default()
        };
        self.ioctl(&mut arg).map(drop)
    }

    /// Pages of the task's own in the range, whether written or not; zero pages do not count.
    pub(crate) fn own(&mut self, within: Range<u64>, found: &mut Vec<Own>) -> Result<()> {
        let arg = pm_scan_arg {
            start: within.start,
            end: within.end,
            category_inverted: PAGE_IS_FILE | PAGE_IS_PFNZERO,
            category_mask: PAGE_IS_FILE | PAGE_IS_PFNZERO,
            category_anyof_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
            return_mask: PAGE_IS_WRITTEN | PAGE_IS_PRESENT,
            ..pm_scan_arg::default()
        };
        self.scan(arg, |region| {
            found.push(Own {
                range: region.start..region.end,
                written: region.categories & PAGE_IS_WRITTEN != 0,
                present: region.categories & PAGE_IS_PRESENT != 0,
            });
        })
    }

    /// The same for kernels without the scan, by reading one word per page of these mappings.
    pub(crate) fn own_by_reading(&mut self, mappings: &[Range<u64>], found: &mut Vec<Own>) -> Result<()> {
        const PRESENT_OR_SWAPPED: u64 = 3 << 62;
        const FILE: u64 = 1 << 61;
        let mut words = vec![0; 8 * WORDS];
        for mapping in mappings {
            let pages: Vec<u64> = mapping.clone().step_by(PAGE).collect();
            for chunk in pages.chunks(WORDS) {
                let bytes = &mut words[..8 * chunk.len()];
                let offset = chunk[0] / PAGE as u64 * 8;
                self.file.read_exact_at(bytes, offset).map_err(|error| {
                    self.failure(
                        "read pagemap",
                        error.raw_os_error().map_or(Errno::EIO, Errno::from_raw),
                    )
                })?;
                for (word, &addr) in bytes.chunks_exact(8).zip(chunk) {
                    let word = u64::from_le_bytes(word.try_into().unwrap_or_default());
                    if word & PRESENT_OR_SWAPPED != 0 && word & FILE == 0 {
                        found.push(Own {
                            range: addr..addr + PAGE as u64,
                            written: true,
                            present: true,
                        });
                    }
                }
            }
        }
        Ok(())
    }

    /// Scans from `arg.start` to `arg.end`, however many calls it takes.
    fn scan(&mut self, mut arg: pm_scan_arg, mut each: impl FnMut(page_region)) -> Result<()> {
        arg.size = size_of::<pm_scan_arg>() as u64;
        while arg.start < arg.end {
            arg.vec = self.regions.as_mut_ptr() as u64;
            arg.vec_len = self.regions.len() as u64;
            let count = self.ioctl(&mut arg)?;
            self.regions[..count].iter().copied().for_each(&mut each);
            arg.start = arg.walk_end;
        }
        Ok(())
    }

    fn ioctl(&mut self, arg: &mut pm_scan_arg) -> Result<usize> {
        loop {
            // SAFETY: the structure has the size that it says, and `vec`, if not null, points to `vec_len` regions
            // that live in `self.regions`, which is borrowed for the time of the call.
            let count = unsafe { libc::ioctl(self.file.as_raw_fd(), PAGEMAP_SCAN, &raw mut *arg) };
            match Errno::result(count) {
                Ok(count) => return Ok(count as usize),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(self.failure("PAGEMAP_SCAN", errno)),
            }
        }
    }

    fn failure(&self, call: &'static str, errno: Errno) -> Error {
        Error::sys(call, self.pid, errno)
    }
}
