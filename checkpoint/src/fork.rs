//! The fork backend: a mark is a frozen copy of the process.
//!
//! Copies are made with `CLONE_PARENT`, so each is a child of the supervisor and the program never learns of them. The kernel
//! shares the pages until someone writes. Nothing tracks writes here, so an identity takes a look at every page that the
//! process has of its own: correct everywhere, slow with much memory. (Tracking writes by userfaultfd would have to be
//! set up anew in each copy, at a price of several injected calls and a first look at all pages: more than it saves.)

use crate::error::{Error, Result};
use crate::identity::Known;
use crate::image::Reader;
use crate::layout::Layout;
use crate::pagemap::{Own, Pagemap, USER_END};
use crate::store::{PAGE, PAGE_SHIFT};
use crate::tree::Tree;
use crate::{Backend, Checkpointer, MarkId, Stats, View};
use hashbrown::HashMap;
use nix::errno::Errno;
use std::ops::Range;
use std::rc::Rc;
use tracee::Stopped;

/// Checkpoints by fork.
#[derive(Debug)]
pub(crate) struct Fork {
    marks: HashMap<MarkId, Template>,
    /// The task's mappings, unless they may have changed.
    layout: Option<Rc<Layout>>,
    reader: Reader,
    /// What the last look at the pages saw.
    seen: Option<Tree>,
    /// The caller's word that `seen` is still true.
    unchanged: bool,
    stats: Stats,
    why_not_rewind: Option<String>,
}

/// A frozen copy.
#[derive(Debug)]
struct Template {
    process: Stopped,
    layout: Rc<Layout>,
}

impl Fork {
    pub(crate) fn new(why_not_rewind: Option<String>) -> Self {
        Fork {
            marks: HashMap::new(),
            layout: None,
            reader: Reader::default(),
            seen: None,
            unchanged: false,
            stats: Stats::default(),
            why_not_rewind,
        }
    }

    fn layout(&mut self, task: &Stopped) -> Result<Rc<Layout>> {
        if let Some(layout) = &self.layout {
            return Ok(Rc::clone(layout));
        }
        let layout = Rc::new(Layout::read(task.pid())?);
        self.layout = Some(Rc::clone(&layout));
        Ok(layout)
    }

    /// All pages that the task has of its own.
    fn scan(&mut self, task: &Stopped) -> Result<(Tree, Rc<Layout>)> {
        // Spent, whatever comes of this.
        let unchanged = std::mem::take(&mut self.unchanged);
        let mut layout = self.layout(task)?;
        if let Some(seen) = self.seen.take().filter(|_| unchanged) {
            return Ok((seen, layout));
        }
        let mut pages = own_pages(task.pid(), &layout)?;
        if pages
            .iter()
            .any(|&page| layout.find(page << PAGE_SHIFT).is_none())
        {
            // The mappings changed after all.
            self.layout = None;
            layout = self.layout(task)?;
            pages = own_pages(task.pid(), &layout)?;
        }
        let mut tree = Tree::default();
        self.reader.read_into(&mut tree, task, &layout, &pages)?;
        self.stats.pages_read += pages.len() as u64;
        Ok((tree, layout))
    }

    fn with_look<T>(&mut self, task: &Stopped, ask: impl FnOnce(&mut Known) -> T) -> Result<T> {
        let (tree, layout) = self.scan(task)?;
        let answer = ask(&mut Known {
            tree: &tree,
            layout: &layout,
            pristine: &mut self.reader.pristine,
            store: &mut self.reader.store,
        });
        self.seen = Some(tree);
        Ok(answer)
    }

    /// The task is another process now.
    fn moved(&mut self) {
        self.stats.restored += 1;
        self.seen = None;
        self.unchanged = false;
    }
}

impl Checkpointer for Fork {
    fn mark(&mut self, task: &mut Stopped) -> Result<MarkId> {
        if !std::mem::take(&mut self.unchanged) {
            self.seen = None;
        }
        let layout = self.layout(task)?;
        layout.refuse_shared()?;
        let process = task.inject_fork()?;
        let mark = MarkId::fresh();
        self.marks.insert(mark, Template { process, layout });
        self.stats.count_mark();
        Ok(mark)
    }

    fn restore(&mut self, task: &mut Stopped, mark: MarkId) -> Result<()> {
        let template = self.marks.get_mut(&mark).ok_or(Error::UnknownMark(mark))?;
        *task = template.process.inject_fork()?;
        self.layout = Some(Rc::clone(&template.layout));
        self.moved();
        Ok(())
    }

    fn restore_last(&mut self, task: &mut Stopped, mark: MarkId) -> Result<()> {
        let template = self.marks.remove(&mark).ok_or(Error::UnknownMark(mark))?;
        self.stats.live -= 1;
        *task = template.process;
        self.layout = Some(template.layout);
        self.moved();
        Ok(())
    }

    fn forget(&mut self, mark: MarkId) {
        if self.marks.remove(&mark).is_some() {
            self.stats.live -= 1;
        }
    }

    fn identity(&mut self, task: &mut Stopped, view: &View) -> Result<u128> {
        self.with_look(task, |known| known.identity(view))
    }

    fn digest(&mut self, task: &mut Stopped, range: Range<u64>) -> Result<u128> {
        self.with_look(task, |known| known.digest(range))
    }

    fn layout_changed(&mut self) {
        self.layout = None;
        self.unchanged = false;
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
        Backend::Fork
    }

    fn fallback_reason(&self) -> Option<&str> {
        self.why_not_rewind.as_deref()
    }
}

/// Numbers of the pages in private mappings that are not just the file's, or zero. Pages in no known
/// mapping are among them, for the caller to notice.
fn own_pages(pid: i32, layout: &Layout) -> Result<Vec<u64>> {
    let mut pagemap = Pagemap::open(pid)?;
    let mut found: Vec<Own> = Vec::new();
    match pagemap.own(0..USER_END, &mut found) {
        Err(Error::Sys {
            errno: Errno::ENOTTY | Errno::EINVAL,
            ..
        }) => {
            found.clear();
            // As they are now: the main stack may have grown.
            let now = Layout::read(pid)?;
            let private = now.mappings().iter().filter(|mapping| mapping.is_private());
            let ranges: Vec<_> = private.map(|mapping| mapping.start..mapping.end).collect();
            pagemap.own_by_reading(&ranges, &mut found)?;
        }
        other => other?,
    }
    let pages = found
        .into_iter()
        .flat_map(|own| own.range.step_by(PAGE))
        .filter(|&addr| layout.find(addr).is_none_or(|mapping| mapping.is_private()));
    Ok(pages.map(|addr| addr >> PAGE_SHIFT).collect())
}
