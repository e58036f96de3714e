//! Can this machine rewind pages? Found out by doing it, on a mapping of our own.

use crate::error::Result;
use crate::pagemap::Pagemap;
use crate::store::PAGE;
use crate::uffd::Uffd;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::ptr::NonNull;

/// What [`probe`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RewindSupport {
    /// It works.
    Works,
    /// It does not.
    Missing {
        /// What failed.
        reason: String,
    },
}

impl RewindSupport {
    /// Does it work?
    pub fn works(&self) -> bool {
        *self == RewindSupport::Works
    }
}

/// Tries what [`crate::Backend::Rewind`] needs.
pub fn probe() -> RewindSupport {
    match trial() {
        Ok(None) => RewindSupport::Works,
        Ok(Some(reason)) => RewindSupport::Missing { reason },
        Err(error) => RewindSupport::Missing {
            reason: error.to_string(),
        },
    }
}

const PAGES: usize = 4;

/// Some pages of our own, unmapped at the end.
struct Area(NonNull<libc::c_void>);

impl Area {
    fn new() -> Option<Area> {
        let size = NonZeroUsize::new(PAGES * PAGE)?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let start = unsafe { mmap_anonymous(None, size, protection, MapFlags::MAP_PRIVATE) };
        start.ok().map(Area)
    }

    fn range(&self) -> Range<u64> {
        let start = self.0.as_ptr() as u64;
        start..start + (PAGES * PAGE) as u64
    }

    fn touch(&self, page: usize) {
        // SAFETY: within the mapping, of which there is no reference.
        unsafe { self.0.as_ptr().cast::<u8>().add(page * PAGE).write_volatile(1) };
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing refers to it any more.
        let _ = unsafe { munmap(self.0, PAGES * PAGE) };
    }
}

/// What is wrong, if anything.
fn trial() -> Result<Option<String>> {
    let uffd = Uffd::of_self()?;
    let Some(area) = Area::new() else {
        return Ok(Some("no memory".into()));
    };
    (0..PAGES).for_each(|page| area.touch(page));
    let range = area.range();
    uffd.register(range.clone())?;
    let mut pagemap = Pagemap::open(nix::unistd::getpid().as_raw())?;
    let mut found = Vec::new();
    pagemap.written(range.clone(), true, &mut found)?;
    area.touch(2);
    found.clear();
    pagemap.written(range.clone(), true, &mut found)?;
    let expected = range.start + 2 * PAGE as u64..range.start + 3 * PAGE as u64;
    Ok((found != [expected]).then(|| format!("a scan found {found:x?} where one page was written")))
}
