//! The rewind backend: one process, and for each mark a version of its memory.
//!
//! What the supervisor knows of the memory is the *current version*; what may differ from it are the pages that lost
//! their write protection. To look is to read those, and to protect them again. To restore is to write those, and the pages that
//! differ between the current version and the mark's.
//!
//! Pages written by a restore are left unprotected. The next look reads them once more, which is cheaper than protecting
//! them and cheaper still if the task writes them again, as it tends to. Tracking is exact nevertheless: contents decide.

use crate::error::{Error, Result};
use crate::identity::{Known, merged};
use crate::image::Reader;
use crate::layout::Layout;
use crate::pagemap::Own;
use crate::pristine::Untouched;
use crate::repair::{Space, repair};
use crate::store::{PAGE, PAGE_SHIFT, Page, ZEROS};
use crate::tracker::{Tracker, numbers_of};
use crate::tree::Tree;
use crate::{Backend, Checkpointer, MarkId, Stats, View};
use hashbrown::HashMap;
use nix::errno::Errno;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use tracee::Stopped;

/// As many untouched pages in a row are dropped by a call of the task rather than overwritten.
const DROP: u64 = 64;

/// Attempts to put the mappings back.
const REPAIRS: usize = 3;

/// Drops locked memory, too.
const MADV_DONTNEED_LOCKED: u64 = 24;

/// Checkpoints by rewinding pages.
#[derive(Debug)]
pub(crate) struct Rewind {
    marks: HashMap<MarkId, Mark>,
    tracker: Tracker,
    reader: Reader,
    current: Tree,
    layout: Rc<Layout>,
    /// The program break, which the mappings do not show to the byte.
    brk: u64,
    /// The mappings may have changed, wherever.
    stale: bool,
    /// The mappings may have changed here.
    changed: Vec<Range<u64>>,
    /// The task has dropped pages here.
    dropped: Vec<Range<u64>>,
    /// The caller's word that nothing happened since the last look.
    unchanged: bool,
    stats: Stats,
}

/// A version of memory.
#[derive(Debug, Clone)]
struct Mark {
    tree: Tree,
    layout: Rc<Layout>,
    brk: u64,
    image: u64,
}

impl Rewind {
    /// Starts to track the task.
    pub(crate) fn new(task: &mut Stopped) -> Result<Rewind> {
        let mut rewind = Rewind {
            marks: HashMap::new(),
            tracker: Tracker::new(task, 0)?,
            reader: Reader::default(),
            current: Tree::default(),
            layout: Rc::new(Layout::read(task.pid())?),
            brk: 0,
            stale: true,
            changed: Vec::new(),
            dropped: Vec::new(),
            unchanged: false,
            stats: Stats::default(),
        };
        rewind.rescan(task)?;
        Ok(rewind)
    }

    /// Brings the current version up to date.
    fn scan(&mut self, task: &mut Stopped) -> Result<()> {
        let unchanged = std::mem::take(&mut self.unchanged);
        if self.stale || task.pid() != self.tracker.pid {
            return self.rescan(task);
        }
        if unchanged && self.changed.is_empty() && self.dropped.is_empty() {
            return Ok(());
        }
        let mut pages = self.follow_changes(task)?;
        let versions = [&self.current];
        self.tracker.dirty(true, &versions, &mut pages)?;
        let is_unknown = |&page: &u64| self.layout.find(page << PAGE_SHIFT).is_none();
        if pages.iter().any(is_unknown) {
            // The mappings changed after all, or were unmapped. These pages are protected again and no longer show.
            self.rescan(task)?;
        }
        if self.read(task, &pages)? {
            self.tracker.protect()?;
        }
        if self.tracker.is_due() {
            self.tracker.survey(&self.layout)?;
        }
        Ok(())
    }

    /// Reads pages into the current version. Returns whether protection was taken from some.
    fn read(&mut self, task: &mut Stopped, pages: &[u64]) -> Result<bool> {
        self.stats.pages_read += pages.len() as u64;
        self.reader
            .read_into(&mut self.current, task, &self.layout, pages)?;
        let tracker = &mut self.tracker;
        tracker.blocks.collapse(task, &tracker.uffd, &self.layout, pages)
    }

    /// Brings mappings and tracking up to date where the mappings are known to have changed. Returns the pages there: those
    /// that the task has, and those that the current version has.
    fn follow_changes(&mut self, task: &mut Stopped) -> Result<Vec<u64>> {
        let dropped = std::mem::take(&mut self.dropped);
        let known = |range: &Range<u64>| self.current.pages_in(numbers_of(range));
        let mut pages: Vec<u64> = dropped.iter().flat_map(known).collect();
        if self.changed.is_empty() {
            return Ok(pages);
        }
        let changed = merged(std::mem::take(&mut self.changed));
        // Unless all goes well, what is known is out of date.
        self.stale = true;
        self.layout = Rc::new(self.tracker.follow(task, &self.layout, &changed)?);
        pages.extend(self.tracker.change(&self.layout, &changed)?);
        for range in &changed {
            let known = self.current.pages_in(numbers_of(range));
            // What is unmapped needs no second look.
            let (mapped, gone): (Vec<u64>, Vec<u64>) =
                (known.into_iter()).partition(|&page| self.layout.find(page << PAGE_SHIFT).is_some());
            gone.into_iter().for_each(|page| self.current.set(page, None));
            pages.extend(mapped);
        }
        self.stale = false;
        Ok(pages)
    }

    /// Brings everything up to date after the mappings changed: mappings, tracking, current version.
    fn rescan(&mut self, task: &mut Stopped) -> Result<()> {
        if task.pid() != self.tracker.pid {
            self.new_image(task)?;
        }
        let layout = match self.tracker.uffd.register_all() {
            // The memory image that was tracked is gone: an exec.
            Err(Error::Sys {
                errno: Errno::ENOMEM | Errno::ESRCH,
                ..
            }) => {
                self.new_image(task)?;
                self.tracker.uffd.register_all()?
            }
            other => other?,
        };
        self.layout = Rc::new(layout);
        self.brk = task.inject_checked("brk", libc::SYS_brk, [0; 6])?;
        let own = self.tracker.survey(&self.layout)?;
        let pages = self.suspects(&own);
        self.read(task, &pages)?;
        self.tracker.protect()?;
        (self.stale, self.unchanged) = (false, false);
        self.changed.clear();
        self.dropped.clear();
        Ok(())
    }

    fn new_image(&mut self, task: &mut Stopped) -> Result<()> {
        self.tracker = Tracker::new(task, self.tracker.image + 1)?;
        self.current = Tree::default();
        Ok(())
    }

    /// Pages to read when it is known what there is, but not what was replaced: those written since they were protected; and
    /// those of the current version that the task no longer has, or not in memory, where nothing tells a swapped page
    /// from a marker of the protection.
    fn suspects(&self, own: &[Own]) -> Vec<u64> {
        let mut pages = Vec::new();
        let mut from = 0;
        for own in own {
            let numbers = numbers_of(&own.range);
            if own.written {
                pages.extend(numbers);
            } else if own.present {
                pages.extend(self.current.pages_in(from..numbers.start));
                from = numbers.end;
            }
        }
        pages.extend(self.current.pages_in(from..crate::tree::PAGES));
        pages.sort_unstable();
        pages.dedup();
        pages
    }

    fn go_back(&mut self, task: &mut Stopped, id: MarkId, mark: &Mark) -> Result<()> {
        let unchanged = std::mem::take(&mut self.unchanged);
        let mut dirty = Vec::new();
        if self.stale || task.pid() != self.tracker.pid {
            self.rescan(task)?;
        } else if !(unchanged && self.changed.is_empty() && self.dropped.is_empty()) {
            dirty = self.follow_changes(task)?;
            let versions = [&self.current, &mark.tree];
            self.tracker.dirty(false, &versions, &mut dirty)?;
        }
        if mark.image != self.tracker.image {
            return Err(Error::OtherImage {
                mark: id,
                pid: task.pid(),
            });
        }
        if self.brk != mark.brk || !self.layout.fits(&mark.layout) {
            let replaced = self.repair_layout(task, mark)?;
            // What was mapped anew is untouched. To make a page so once more is not only idle: one that lies beyond the end of its file
            // cannot be written at all.
            dirty.retain(|&page| !replaced.iter().any(|range| numbers_of(range).contains(&page)));
        }
        self.write_back(task, mark, &dirty)?;
        self.current = mark.tree.clone();
        self.stats.restored += 1;
        Ok(())
    }

    /// Puts the mappings back. Returns where there is now untouched memory or none, as the current version says, too.
    fn repair_layout(&mut self, task: &mut Stopped, mark: &Mark) -> Result<Vec<Range<u64>>> {
        // Unless all goes well, what is known is out of date.
        self.stale = true;
        let wanted = Space {
            layout: &mark.layout,
            brk: mark.brk,
        };
        let mut replaced = Vec::new();
        // What was mapped anew may not become one with its neighbours; then the next round maps them anew, too.
        for _ in 0..REPAIRS {
            let now = Space {
                layout: &self.layout,
                brk: self.brk,
            };
            let mut repaired = repair(task, now, wanted)?;
            for range in &repaired.replaced {
                for page in self.current.pages_in(numbers_of(range)) {
                    self.current.set(page, None);
                }
            }
            replaced.append(&mut repaired.replaced);
            let changed = merged(repaired.changed);
            self.layout = Rc::new(self.tracker.follow(task, &self.layout, &changed)?);
            self.tracker.change(&self.layout, &changed)?;
            self.brk = mark.brk;
            if self.layout.fits(&mark.layout) {
                self.stale = false;
                return Ok(replaced);
            }
        }
        Err(Error::Layout {
            pid: task.pid(),
            what: "the kernel arranges them differently".into(),
        })
    }

    /// Writes what differs between the task and the mark.
    fn write_back(&mut self, task: &mut Stopped, mark: &Mark, dirty: &[u64]) -> Result<()> {
        let mut wanted: BTreeMap<u64, Option<Page>> = BTreeMap::new();
        self.current.diff(&mark.tree, &mut |page, _, theirs| {
            wanted.insert(page, theirs.map(|entry| entry.page.clone()));
        });
        for &page in dirty {
            wanted
                .entry(page)
                .or_insert_with(|| mark.tree.get(page).map(|entry| entry.page.clone()));
        }
        let (pages, dropped) = self.plan(wanted);
        for range in dropped {
            let args = [
                range.start,
                range.end - range.start,
                MADV_DONTNEED_LOCKED,
                0,
                0,
                0,
            ];
            task.inject_checked("madvise", libc::SYS_madvise, args)?;
        }
        self.stats.pages_written += pages.len() as u64;
        let (open, closed): (Vec<_>, Vec<_>) = pages
            .iter()
            .map(|(page, content)| {
                (
                    page << PAGE_SHIFT,
                    content.as_ref().map_or(&ZEROS, Page::bytes).as_slice(),
                )
            })
            .partition(|&(addr, _)| {
                self.layout
                    .find(addr)
                    .is_some_and(|mapping| mapping.is_writable())
            });
        task.memory().write_many(&open)?;
        for (addr, content) in closed {
            task.memory().write_forced(addr, content)?;
        }
        Ok(())
    }

    /// Which pages to write (`None`: zeros), and which ranges to drop.
    #[allow(clippy::type_complexity, reason = "two plain lists")]
    fn plan(&mut self, wanted: BTreeMap<u64, Option<Page>>) -> (Vec<(u64, Option<Page>)>, Vec<Range<u64>>) {
        let mut writes = Vec::with_capacity(wanted.len());
        let mut zeros: Vec<Range<u64>> = Vec::new();
        let mut dropped = Vec::new();
        for (page, content) in wanted {
            let addr = page << PAGE_SHIFT;
            let Some(mapping) = self.layout.find(addr).filter(|mapping| mapping.is_private()) else {
                continue;
            };
            if let Some(content) = content {
                writes.push((page, Some(content)));
                continue;
            }
            match self.reader.pristine.page(&mut self.reader.store, mapping, addr) {
                Untouched::File(content) => writes.push((page, Some(content))),
                Untouched::Unknown => dropped.push(addr..addr + PAGE as u64),
                Untouched::Zeros => match zeros.last_mut() {
                    Some(last) if last.end == page => last.end += 1,
                    _ => zeros.push(page..page + 1),
                },
            }
        }
        for run in zeros {
            if run.end - run.start >= DROP {
                dropped.push(run.start << PAGE_SHIFT..run.end << PAGE_SHIFT);
            } else {
                writes.extend(run.map(|page| (page, None)));
            }
        }
        (writes, dropped)
    }

    fn known(&mut self) -> Known<'_> {
        Known {
            tree: &self.current,
            layout: &self.layout,
            pristine: &mut self.reader.pristine,
            store: &mut self.reader.store,
        }
    }
}

/// The range with the pages that it begins and ends in, unless it is empty.
fn whole_pages(range: &Range<u64>) -> Option<Range<u64>> {
    let size = PAGE as u64;
    let pages = range.start / size * size..range.end.checked_next_multiple_of(size)?;
    (pages.start < pages.end).then_some(pages)
}

impl Checkpointer for Rewind {
    fn mark(&mut self, task: &mut Stopped) -> Result<MarkId> {
        self.scan(task)?;
        self.layout.refuse_shared()?;
        let id = MarkId::fresh();
        let mark = Mark {
            tree: self.current.clone(),
            layout: Rc::clone(&self.layout),
            brk: self.brk,
            image: self.tracker.image,
        };
        self.marks.insert(id, mark);
        self.stats.count_mark();
        Ok(id)
    }

    fn restore(&mut self, task: &mut Stopped, mark: MarkId) -> Result<()> {
        let version = self.marks.get(&mark).ok_or(Error::UnknownMark(mark))?.clone();
        self.go_back(task, mark, &version)
    }

    fn restore_last(&mut self, task: &mut Stopped, mark: MarkId) -> Result<()> {
        let version = self.marks.remove(&mark).ok_or(Error::UnknownMark(mark))?;
        self.stats.live -= 1;
        self.go_back(task, mark, &version)
    }

    fn forget(&mut self, mark: MarkId) {
        if self.marks.remove(&mark).is_some() {
            self.stats.live -= 1;
        }
    }

    fn identity(&mut self, task: &mut Stopped, view: &View) -> Result<u128> {
        self.scan(task)?;
        Ok(self.known().identity(view))
    }

    fn digest(&mut self, task: &mut Stopped, range: Range<u64>) -> Result<u128> {
        self.scan(task)?;
        Ok(self.known().digest(range))
    }

    fn layout_changed(&mut self) {
        self.stale = true;
    }

    fn layout_changed_in(&mut self, range: Range<u64>) {
        self.changed.extend(whole_pages(&range));
    }

    fn memory_dropped(&mut self, range: Range<u64>) {
        self.dropped.extend(whole_pages(&range));
    }

    fn unchanged(&mut self) {
        self.unchanged = true;
    }

    fn stats(&self) -> Stats {
        Stats {
            bytes_held: self.reader.store.bytes_held(),
            ..self.stats
        }
    }

    fn backend(&self) -> Backend {
        Backend::Rewind
    }
}
