//! Trials of what the rewind checkpoints need: asynchronous write protection and a scan for written pages.
//!
//! Tried on a mapping of the own process, since both only concern the mapping.

use super::{Finding, owned, text};
use nix::errno::Errno;
use std::os::fd::{AsRawFd, OwnedFd};

const UFFD_USER_MODE_ONLY: i32 = 1;
const UFFD_API: u64 = 0xaa;
const UFFD_FEATURE_WP_UNPOPULATED: u64 = 1 << 13;
const UFFD_FEATURE_WP_ASYNC: u64 = 1 << 15;
const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
const UFFDIO_REGISTER_MODE_WP: u64 = 2;

const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;
const PM_SCAN_WP_MATCHING: u64 = 1;
const PM_SCAN_CHECK_WPASYNC: u64 = 2;
const PAGE_IS_WRITTEN: u64 = 2;

const PAGE: usize = crate::PAGE as usize;
const PAGES: usize = 4;

pub(super) fn userfaultfd() -> Finding {
    Protected::new()?;
    Ok("user-mode, write-protect, asynchronous".into())
}

pub(super) fn page_scan() -> Finding {
    let area = Protected::new()?;
    // The first scan protects, the second sees what was written since, and nothing else.
    area.scan()?;
    area.touch(2);
    match area.scan()?.as_slice() {
        [range] if *range == (2 * PAGE, 3 * PAGE) => Ok("finds exactly the written page".into()),
        other => Err(format!("found {other:x?} instead of one page")),
    }
}

/// A mapping whose writes are tracked.
struct Protected {
    start: *mut u8,
    /// The registration lasts as long as the descriptor.
    _uffd: OwnedFd,
}

impl Protected {
    fn new() -> Result<Self, String> {
        let flags = libc::O_CLOEXEC | UFFD_USER_MODE_ONLY;
        // SAFETY: no memory is involved.
        let uffd = owned(unsafe { libc::syscall(libc::SYS_userfaultfd, flags) })?;
        let mut api = [UFFD_API, UFFD_FEATURE_WP_ASYNC | UFFD_FEATURE_WP_UNPOPULATED, 0];
        ioctl(&uffd, UFFDIO_API, &mut api)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), PAGES * PAGE, protection, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(Errno::last().to_string());
        }
        let area = Protected {
            start: start.cast(),
            _uffd: uffd,
        };
        (0..PAGES).for_each(|page| area.touch(page));
        let mut range = [
            area.start as u64,
            (PAGES * PAGE) as u64,
            UFFDIO_REGISTER_MODE_WP,
            0,
        ];
        ioctl(&area._uffd, UFFDIO_REGISTER, &mut range)?;
        Ok(area)
    }

    fn touch(&self, page: usize) {
        // SAFETY: within the mapping, which lives as long as `self` and is known to nobody else.
        unsafe { self.start.add(page * PAGE).write_volatile(1) };
    }

    /// Ranges written since the last scan, relative to the start; protects them again.
    fn scan(&self) -> Result<Vec<(usize, usize)>, String> {
        let pagemap: OwnedFd = std::fs::File::open("/proc/self/pagemap").map_err(text)?.into();
        let start = self.start as u64;
        let mut found = [[0u64; 3]; PAGES];
        let mut args = [
            12 * 8,
            PM_SCAN_WP_MATCHING | PM_SCAN_CHECK_WPASYNC,
            start,
            start + (PAGES * PAGE) as u64,
            0,
            found.as_mut_ptr() as u64,
            PAGES as u64,
            0,
            0,
            PAGE_IS_WRITTEN,
            0,
            PAGE_IS_WRITTEN,
        ];
        let count = ioctl(&pagemap, PAGEMAP_SCAN, &mut args)?;
        let ranges = found.iter().take(count as usize);
        Ok(ranges
            .map(|[from, to, _]| ((from - start) as usize, (to - start) as usize))
            .collect())
    }
}

impl Drop for Protected {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.cast(), PAGES * PAGE) };
    }
}

fn ioctl<const N: usize>(fd: &OwnedFd, request: libc::c_ulong, args: &mut [u64; N]) -> Result<i32, String> {
    // SAFETY: `args` has the size encoded in the request, and pointers in it refer to live buffers of the length given.
    Errno::result(unsafe { libc::ioctl(fd.as_raw_fd(), request, args.as_mut_ptr()) }).map_err(text)
}
