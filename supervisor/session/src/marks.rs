//! Checkpoints of all tasks of a session: one per task, and what they have in common.
//!
//! Processes come and go while marks are kept. A task whose process has ended is parked as long as a mark needs it, and
//! killed when none does any more.

use super::{Change, Session, Snapshot, TaskKey};
use checkpoint::{Backend, Checkpointer, MarkId, Stats, View};
use failure::Failure;
use std::collections::BTreeMap;
use syscall_model::processes::Pid;
use tracee::Stopped;
use xxhash_rust::xxh3::xxh3_128;

/// The checkpoints of one execution.
pub struct Marks {
    backend: Backend,
    kept: BTreeMap<TaskKey, Kept>,
    /// What checkpointers did that are gone.
    past: Stats,
}

struct Kept {
    checkpoints: Box<dyn Checkpointer>,
    /// How many marks are of this task.
    marks: u64,
    /// The task, if its process has ended.
    parked: Option<Stopped>,
    /// Its process is alive.
    lives: bool,
}

/// A remembered state of the memory of all tasks.
#[derive(Debug)]
pub struct MemoryMark(Vec<(TaskKey, MarkId)>);

impl Marks {
    pub fn new(session: &mut Session, backend: Backend) -> Result<Self, Failure> {
        let mut marks = Self {
            backend,
            kept: BTreeMap::new(),
            past: Stats::default(),
        };
        marks.follow(session)?;
        Ok(marks)
    }

    /// Takes note of what happened to the tasks.
    fn follow(&mut self, session: &mut Session) -> Result<(), Failure> {
        for (key, task) in session.take_retired() {
            self.retire(key, task);
        }
        for news in session.take_news() {
            let kept = match self.kept.entry(news.key) {
                std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
                std::collections::btree_map::Entry::Vacant(new) => new.insert(Kept {
                    checkpoints: checkpoint::best(news.task, self.backend)?,
                    marks: 0,
                    parked: None,
                    lives: true,
                }),
            };
            kept.lives = true;
            for change in news.changes {
                match change {
                    Change::Anywhere => kept.checkpoints.layout_changed(),
                    Change::Mapped(range) => kept.checkpoints.layout_changed_in(range),
                    Change::Dropped(range) => kept.checkpoints.memory_dropped(range),
                }
            }
            if !news.touched {
                kept.checkpoints.unchanged();
            }
        }
        Ok(())
    }

    /// A task is nobody's: it is kept as long as a mark needs it.
    fn retire(&mut self, key: TaskKey, task: Stopped) {
        if let Some(kept) = self.kept.get_mut(&key) {
            kept.lives = false;
            kept.parked = Some(task);
        }
        self.drop_if_unused(key);
    }

    fn drop_if_unused(&mut self, key: TaskKey) {
        let is_unused = |kept: &Kept| !kept.lives && kept.marks == 0;
        if self.kept.get(&key).is_some_and(is_unused)
            && let Some(kept) = self.kept.remove(&key)
        {
            self.past = sum(self.past, kept.checkpoints.stats());
        }
    }

    /// Remembers the memory as it is; `None` where that cannot be done.
    pub fn mark(&mut self, session: &mut Session) -> Result<Option<MemoryMark>, Failure> {
        self.follow(session)?;
        let mut made = MemoryMark(Vec::new());
        for news in session.take_news() {
            let Some(kept) = self.kept.get_mut(&news.key) else {
                continue;
            };
            match kept.checkpoints.mark(news.task) {
                Ok(id) => {
                    kept.marks += 1;
                    made.0.push((news.key, id));
                }
                Err(error) if error.needs_reexecution() => {
                    self.forget(&made);
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(made))
    }

    /// Puts everything back; `false` where that cannot be done, and then the session is of no more use.
    pub fn restore(
        &mut self,
        session: &mut Session,
        mark: &MemoryMark,
        rest: &Snapshot,
    ) -> Result<bool, Failure> {
        self.put_back(session, mark, rest, |checkpoints, task, id| {
            checkpoints.restore(task, id)
        })
    }

    /// The same for the last time: the mark is forgotten.
    pub fn restore_last(
        &mut self,
        session: &mut Session,
        mark: &MemoryMark,
        rest: &Snapshot,
    ) -> Result<bool, Failure> {
        let done = self.put_back(session, mark, rest, |checkpoints, task, id| {
            checkpoints.restore_last(task, id)
        });
        for (key, _) in &mark.0 {
            if let Some(kept) = self.kept.get_mut(key) {
                kept.marks = kept.marks.saturating_sub(1);
            }
        }
        done
    }

    fn put_back(
        &mut self,
        session: &mut Session,
        mark: &MemoryMark,
        rest: &Snapshot,
        restore: impl Fn(&mut dyn Checkpointer, &mut Stopped, MarkId) -> checkpoint::Result<()>,
    ) -> Result<bool, Failure> {
        self.follow(session)?;
        let mut tasks = session.take_tasks();
        let mut ready = BTreeMap::new();
        for &(key, id) in &mark.0 {
            let Some(kept) = self.kept.get_mut(&key) else {
                return Ok(false);
            };
            let parked = &mut kept.parked;
            let Some(mut task) = tasks.remove(&key).or_else(|| parked.take()) else {
                return Ok(false);
            };
            if !kept.lives {
                kept.checkpoints.layout_changed();
                kept.lives = true;
            }
            match restore(kept.checkpoints.as_mut(), &mut task, id) {
                Ok(()) => ready.insert(key, task),
                Err(error) if error.needs_reexecution() => return Ok(false),
                Err(error) => return Err(error.into()),
            };
        }
        for (key, task) in tasks {
            self.retire(key, task);
        }
        session.revert(rest, ready)?;
        Ok(true)
    }

    pub fn forget(&mut self, mark: &MemoryMark) {
        for &(key, id) in &mark.0 {
            if let Some(kept) = self.kept.get_mut(&key) {
                kept.checkpoints.forget(id);
                kept.marks = kept.marks.saturating_sub(1);
            }
            self.drop_if_unused(key);
        }
    }

    /// The identity of all memory that counts.
    pub fn identity(
        &mut self,
        session: &mut Session,
        view: impl Fn(&Session, Pid) -> View,
    ) -> Result<u128, Failure> {
        self.follow(session)?;
        let views: Vec<View> = session
            .processes_with_memory()
            .into_iter()
            .map(|process| view(session, process))
            .collect();
        let mut identities = Vec::with_capacity(views.len());
        for (news, view) in session.take_news().into_iter().zip(views) {
            if let Some(kept) = self.kept.get_mut(&news.key) {
                identities.push((news.process, kept.checkpoints.identity(news.task, &view)?));
            }
        }
        Ok(match identities[..] {
            [(_, only)] => only,
            _ => {
                let bytes: Vec<u8> = identities
                    .iter()
                    .flat_map(|(process, id)| [process.to_le_bytes().as_slice(), &id.to_le_bytes()].concat())
                    .collect();
                xxh3_128(&bytes)
            }
        })
    }

    pub fn backend(&self) -> Backend {
        let mut kept = self.kept.values();
        kept.next()
            .map_or(self.backend, |kept| kept.checkpoints.backend())
    }

    pub fn stats(&self) -> Stats {
        let all = self.kept.values().map(|kept| kept.checkpoints.stats());
        all.fold(self.past, sum)
    }
}

fn sum(one: Stats, other: Stats) -> Stats {
    Stats {
        taken: one.taken + other.taken,
        restored: one.restored + other.restored,
        live: one.live + other.live,
        live_max: one.live_max + other.live_max,
        bytes_held: one.bytes_held + other.bytes_held,
        pages_read: one.pages_read + other.pages_read,
        pages_written: one.pages_written + other.pages_written,
    }
}
