//! Checkpoints of a traced task: its memory and mappings, saved, restored, and told apart by identity.
//!
//! A session has one kernel task, whatever the number of its virtual threads, so its memory is all that there is to save here;
//! registers and the modelled kernel state are the caller's, which clones them. Two backends do it:
//!
//! - [`Backend::Fork`]: a mark is a frozen copy of the process, made by `fork`; to restore is to fork the copy again and to
//!   put the new process in the place of the old one. Works everywhere; costs a process per mark and grows with memory.
//! - [`Backend::Rewind`]: one process lives on; the kernel tells which pages were written since the last look, and those are
//!   copied out and back. Costs what the changes cost.
//!
//! Both give equal identities to equal memory. All processes of a checkpointer die with the supervisor, since
//! [`tracee`] traces them so.
//!
//! ```no_run
//! # fn main() -> checkpoint::Result<()> {
//! # let mut task: tracee::Stopped = unimplemented!();
//! use checkpoint::{Backend, View};
//! let mut marks = checkpoint::best(&mut task, Backend::Auto)?;
//! let identity = marks.identity(&mut task, &View::default())?;
//! marks.unchanged();
//! let mark = marks.mark(&mut task)?;
//! // … the task runs …
//! marks.restore_last(&mut task, mark)?;
//! assert_eq!(marks.identity(&mut task, &View::default())?, identity);
//! # Ok(())
//! # }
//! ```

mod error;
mod fork;
mod huge;
mod identity;
mod image;
mod layout;
mod pagemap;
mod pristine;
mod probe;
mod repair;
mod rewind;
mod store;
mod tracker;
mod tree;
mod uffd;
mod watch;

pub use error::{Error, Result};
pub use probe::{RewindSupport, probe};

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use tracee::Stopped;

/// A remembered state of a task's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MarkId(u64);

impl MarkId {
    /// One that no checkpointer of this process has used: a mark that outlives its checkpointer is unknown to the
    /// next one, never mistaken for another.
    fn fresh() -> MarkId {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        MarkId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl fmt::Display for MarkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How to do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Backend {
    /// Rewind where the machine can, else fork.
    #[default]
    Auto,
    /// Frozen copies of the process.
    Fork,
    /// One process, changed pages.
    Rewind,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Backend::Auto => "auto",
            Backend::Fork => "fork",
            Backend::Rewind => "rewind",
        })
    }
}

/// Which memory counts for the identity of a state: all of it, but for these.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct View {
    /// Every live thread. What is below its stack pointer and red zone never counts.
    pub threads: Vec<ThreadStack>,
    /// Irrelevant memory: the supervisor's own areas, and what the user declared auxiliary.
    pub exclude: Vec<Range<u64>>,
    /// Stacks that ended threads left behind.
    pub dead: Vec<Dead>,
}

/// Where a thread's stack is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ThreadStack {
    /// Its stack pointer.
    pub sp: u64,
    /// Its thread pointer (`fs_base`), by which the stack of a thread library is recognised.
    pub tls: u64,
}

/// Memory that does not count as long as it is not written again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Dead {
    /// Where.
    pub range: Range<u64>,
    /// What [`Checkpointer::digest`] said of the range when it died.
    pub digest: u128,
}

/// What a checkpointer has done and what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Marks made.
    pub taken: u64,
    /// Restores done.
    pub restored: u64,
    /// Marks that exist. With the fork backend each is a process.
    pub live: u64,
    /// The most that ever existed at a time.
    pub live_max: u64,
    /// Bytes of page content held by the supervisor. The fork backend's memory is the processes' own and is not counted.
    pub bytes_held: u64,
    /// Pages read from the task.
    pub pages_read: u64,
    /// Pages written to the task.
    pub pages_written: u64,
}

impl Stats {
    fn count_mark(&mut self) {
        self.taken += 1;
        self.live += 1;
        self.live_max = self.live_max.max(self.live);
    }
}

/// Saves and restores the memory of one task.
///
/// The task is to be stopped whenever one of these is called, and its registers are the caller's business.
/// After an error the task may be in an unknown state, and the caller should start it anew, unless
/// the error is [`Error::SharedMapping`] or [`Error::UnknownMark`].
pub trait Checkpointer: fmt::Debug {
    /// Remembers the task as it is.
    fn mark(&mut self, task: &mut Stopped) -> Result<MarkId>;

    /// Puts the task back. The fork backend kills the task and puts another process in its place.
    fn restore(&mut self, task: &mut Stopped, mark: MarkId) -> Result<()>;

    /// The same for the last time: the mark is forgotten, and the fork backend uses the copy itself.
    fn restore_last(&mut self, task: &mut Stopped, mark: MarkId) -> Result<()>;

    /// Forgets a mark.
    fn forget(&mut self, mark: MarkId);

    /// Identity of the memory that counts, and of the mappings.
    fn identity(&mut self, task: &mut Stopped, view: &View) -> Result<u128>;

    /// Digest of a range of memory, for [`View::dead`].
    fn digest(&mut self, task: &mut Stopped, range: Range<u64>) -> Result<u128>;

    /// The task's mappings changed, by a call of its own or an injected one: mmap, munmap, mremap, mprotect, brk, exec; or
    /// memory that it cannot write itself was written by force.
    fn layout_changed(&mut self);

    /// The same, and it is known where, page by page: by mmap, munmap, mremap or mprotect.
    fn layout_changed_in(&mut self, range: Range<u64>) {
        let _ = range;
        self.layout_changed();
    }

    /// The task dropped memory by `madvise`: the mappings are what they were, the pages are not.
    fn memory_dropped(&mut self, range: Range<u64>) {
        self.layout_changed_in(range);
    }

    /// Promises that the task has neither run nor been written to since the last call of `mark`, `identity`, `digest` or `restore`,
    /// which saves the next of these a look at the pages.
    fn unchanged(&mut self);

    /// What was done so far.
    fn stats(&self) -> Stats;

    /// Which backend this is.
    fn backend(&self) -> Backend;

    /// Why a better backend was not chosen, if none was asked for.
    fn fallback_reason(&self) -> Option<&str> {
        None
    }
}

/// A checkpointer for this task.
pub fn best(task: &mut Stopped, choice: Backend) -> Result<Box<dyn Checkpointer>> {
    if choice == Backend::Fork {
        return Ok(Box::new(fork::Fork::new(None)));
    }
    match (rewind::Rewind::new(task), choice) {
        (Ok(rewind), _) => Ok(Box::new(rewind)),
        (Err(error), _) if is_gone(&error) => Err(error),
        (Err(error), Backend::Auto) => {
            let reason = error.to_string();
            tracing::info!(reason, "no rewinding of pages: checkpoints are made by fork");
            Ok(Box::new(fork::Fork::new(Some(reason))))
        }
        (Err(error), _) => Err(Error::Unsupported(error.to_string())),
    }
}

fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Tracee(error) if error.is_gone())
}
