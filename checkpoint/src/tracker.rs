//! Which pages of a task were written: userfaultfd protects, the page map tells.

use crate::error::Result;
use crate::huge::Blocks;
use crate::layout::Layout;
use crate::pagemap::{Own, Pagemap, USER_END};
use crate::store::{PAGE, PAGE_SHIFT};
use crate::tree::Tree;
use crate::uffd::Uffd;
use crate::watch::Watch;
use std::ops::Range;
use tracee::Stopped;

/// Ranges from this length on are looked at precisely: most of their pages may never have been populated.
const LONG: u64 = 16 * PAGE as u64;

/// After so many pages were found, how they are looked at is decided anew.
const SURVEY: usize = 2048;

/// Tells which pages were written. Bound to one memory image.
#[derive(Debug)]
pub(crate) struct Tracker {
    pub(crate) pid: i32,
    pub(crate) uffd: Uffd,
    /// Counts the images: a process that executes another program has nothing in common with its past.
    pub(crate) image: u64,
    pub(crate) blocks: Blocks,
    pub(crate) watch: Watch,
    pagemap: Pagemap,
    found: Vec<Range<u64>>,
    own: Vec<Own>,
    ignored: Vec<Range<u64>>,
    /// Pages that looks have found since the last survey.
    seen: usize,
}

impl Tracker {
    pub(crate) fn new(task: &mut Stopped, image: u64) -> Result<Tracker> {
        Ok(Tracker {
            pid: task.pid(),
            uffd: Uffd::of_task(task)?,
            image,
            blocks: Blocks::default(),
            watch: Watch::default(),
            pagemap: Pagemap::open(task.pid())?,
            found: Vec::new(),
            own: Vec::new(),
            ignored: Vec::new(),
            seen: 0,
        })
    }

    /// Protects all memory that is not.
    pub(crate) fn protect(&mut self) -> Result<()> {
        self.protect_within(0..USER_END)
    }

    fn protect_within(&mut self, within: Range<u64>) -> Result<()> {
        let mut from = within.start;
        for dense in &self.watch.dense {
            let (start, end) = (dense.start.max(within.start), dense.end.min(within.end));
            if start < end {
                self.pagemap.touched(from..start, true, &mut self.ignored)?;
                self.pagemap.protect(start..end)?;
                from = end;
            }
        }
        self.pagemap.touched(from..within.end, true, &mut self.ignored)?;
        self.ignored.clear();
        Ok(())
    }

    /// Adds the pages that may differ from a version, the first of these. A long range is mostly page-table entries that never held anything;
    /// of those only pages count that exist now, or do in one of the versions. With `protect` the pages found are protected again.
    ///
    /// Pages that are gone are not among them where memory is sparse: whoever drops memory says so.
    pub(crate) fn dirty(&mut self, protect: bool, versions: &[&Tree], pages: &mut Vec<u64>) -> Result<()> {
        self.found.clear();
        for range in &self.watch.sparse {
            self.pagemap.touched(range.clone(), protect, &mut self.found)?;
        }
        pages.extend(self.found.drain(..).flat_map(|range| numbers_of(&range)));
        for range in &self.watch.dense {
            self.pagemap.written(range.clone(), protect, &mut self.found)?;
        }
        self.own.clear();
        for range in &self.found {
            if range.end - range.start < LONG {
                pages.extend(numbers_of(range));
                continue;
            }
            self.pagemap.own(range.clone(), &mut self.own)?;
            for version in versions {
                pages.extend(version.pages_in(numbers_of(range)));
            }
        }
        pages.extend(self.own.iter().flat_map(|own| numbers_of(&own.range)));
        pages.sort_unstable();
        pages.dedup();
        self.seen += pages.len();
        Ok(())
    }

    /// Were so many pages written that memory which was sparse may be dense by now?
    pub(crate) fn is_due(&self) -> bool {
        self.seen > SURVEY
    }

    /// All pages that the task has of its own. How they are looked at from now on is decided anew.
    pub(crate) fn survey(&mut self, layout: &Layout) -> Result<Vec<Own>> {
        let mut own = Vec::new();
        self.pagemap.own(0..USER_END, &mut own)?;
        self.watch = Watch::new(layout, &ranges(&own));
        self.seen = 0;
        Ok(own)
    }

    /// The mappings as they are now, all of them tracked, if they changed within these ranges only.
    pub(crate) fn follow(&self, task: &Stopped, layout: &Layout, changed: &[Range<u64>]) -> Result<Layout> {
        let now = layout.updated(task, changed)?;
        for range in changed {
            for mapping in now.mappings().iter().filter(|mapping| mapping.is_private()) {
                let (start, end) = (mapping.start.max(range.start), mapping.end.min(range.end));
                if start < end {
                    self.uffd.register(start..end)?;
                }
            }
        }
        // Areas that differed in nothing but being tracked have become one.
        now.updated(task, changed)
    }

    /// The mappings in these ranges, in order, changed. Returns the pages that the task has there, which are protected.
    pub(crate) fn change(&mut self, layout: &Layout, changed: &[Range<u64>]) -> Result<Vec<u64>> {
        self.own.clear();
        for range in changed {
            self.pagemap.own(range.clone(), &mut self.own)?;
        }
        self.watch.update(layout, &ranges(&self.own));
        for range in changed {
            self.protect_within(range.clone())?;
        }
        Ok((self.own.iter()).flat_map(|own| numbers_of(&own.range)).collect())
    }
}

fn ranges(own: &[Own]) -> Vec<Range<u64>> {
    own.iter().map(|own| own.range.clone()).collect()
}

/// The numbers of the pages in a range.
pub(crate) fn numbers_of(range: &Range<u64>) -> Range<u64> {
    range.start >> PAGE_SHIFT..range.end >> PAGE_SHIFT
}
