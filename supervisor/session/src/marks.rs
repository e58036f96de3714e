//! Checkpoints of all tasks of a session: one per task, and what they have in common.
//!
//! Processes come and go while marks are kept. A task whose process has ended is parked as long as a mark needs it, and
//! killed when none does any more.

use super::{Change, Session, Snapshot, TaskKey};
use checkpoint::{Backend, Checkpointer, MarkId, Stats, View};
use failure::Failure;
use std::collections::{BTreeMap, HashSet};
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
    /// The marks that this task is part of.
    marks: HashSet<MarkId>,
    /// The task, if its process has ended.
    parked: Option<Stopped>,
    /// Its process is alive.
    lives: bool,
}

/// A remembered state of an execution, for whoever goes back to it: the memory of all tasks, and everything else.
pub struct Mark {
    memory: Vec<(TaskKey, MarkId)>,
    rest: Snapshot,
}

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
        for (key, task) in session.spaces.take_retired() {
            self.retire(key, task);
        }
        for news in session.spaces.take_news() {
            let kept = match self.kept.entry(news.key) {
                std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
                std::collections::btree_map::Entry::Vacant(new) => new.insert(Kept {
                    checkpoints: checkpoint::best(news.task, self.backend)?,
                    marks: HashSet::new(),
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
        let is_unused = |kept: &Kept| !kept.lives && kept.marks.is_empty();
        if self.kept.get(&key).is_some_and(is_unused)
            && let Some(kept) = self.kept.remove(&key)
        {
            self.past = sum(self.past, kept.checkpoints.stats());
        }
    }

    /// Remembers the state as it is; `None` where that cannot be done.
    pub fn mark(&mut self, session: &mut Session) -> Result<Option<Mark>, Failure> {
        self.follow(session)?;
        let mut memory = Vec::new();
        for news in session.spaces.take_news() {
            let Some(kept) = self.kept.get_mut(&news.key) else {
                continue;
            };
            match kept.checkpoints.mark(news.task) {
                Ok(id) => {
                    kept.marks.insert(id);
                    memory.push((news.key, id));
                }
                Err(error) if error.needs_reexecution() => {
                    self.forget_memory(&memory);
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
        }
        let rest = session.snapshot()?;
        Ok(Some(Mark { memory, rest }))
    }

    /// Puts everything back; `false` where that cannot be done, and then the session is of no more use.
    pub fn restore(&mut self, session: &mut Session, mark: &Mark) -> Result<bool, Failure> {
        self.put_back(session, mark, |checkpoints, task, id| {
            checkpoints.restore(task, id)
        })
    }

    /// The same for the last time: the mark is forgotten.
    pub fn restore_last(&mut self, session: &mut Session, mark: &Mark) -> Result<bool, Failure> {
        let done = self.put_back(session, mark, |checkpoints, task, id| {
            checkpoints.restore_last(task, id)
        });
        for (key, id) in &mark.memory {
            if let Some(kept) = self.kept.get_mut(key) {
                kept.marks.remove(id);
            }
        }
        done
    }

    fn put_back(
        &mut self,
        session: &mut Session,
        mark: &Mark,
        restore: impl Fn(&mut dyn Checkpointer, &mut Stopped, MarkId) -> checkpoint::Result<()>,
    ) -> Result<bool, Failure> {
        self.follow(session)?;
        let mut tasks = session.spaces.take_tasks();
        let mut ready = BTreeMap::new();
        for &(key, id) in &mark.memory {
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
        session.revert(&mark.rest, ready)?;
        Ok(true)
    }

    /// A mark is not needed any more. One of an execution before this one is gone already.
    pub fn forget(&mut self, mark: &Mark) {
        self.forget_memory(&mark.memory);
    }

    fn forget_memory(&mut self, memory: &[(TaskKey, MarkId)]) {
        for &(key, id) in memory {
            if let Some(kept) = self.kept.get_mut(&key)
                && kept.marks.remove(&id)
            {
                kept.checkpoints.forget(id);
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
            .spaces
            .with_memory()
            .into_iter()
            .map(|process| view(session, process))
            .collect();
        let mut identities = Vec::with_capacity(views.len());
        for (news, view) in session.spaces.take_news().into_iter().zip(views) {
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
