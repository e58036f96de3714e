//! Address spaces: a kernel task each, with what is known about its memory.
//!
//! One is *in place*, the one whose process is in place in the model; the others wait in a map. Threads of any process
//! may be next, so every transition begins with putting the right one in place.

use super::layout::Change;
use super::memory::Other;
use super::{Freed, Options, ProcessHost, residue};
use crate::code::Code;
use crate::maps::Mapping;
use crate::objects::Objects;
use failure::Failure;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use symbols::Symbolizer;
use syscall_model::processes::Pid;
use syscall_model::{Model, Tid};
use tracee::Stopped;

/// Names a kernel task among all that an execution ever had.
pub type TaskKey = u64;

/// One address space.
pub struct Space {
    /// The process that it belongs to, and those that borrow it.
    pub(super) id: Pid,
    /// Names the task; unlike the process, which comes again when an execution is taken back and goes on, it never comes again.
    pub(super) key: TaskKey,
    /// `None` only while the task runs, and after it is gone.
    pub(super) task: Option<Stopped>,
    /// Whose extended processor state the kernel task has.
    pub(super) loaded: Tid,
    pub(super) code: Code,
    /// Names the present layout of the address space.
    pub(super) layout_version: u64,
    pub(super) known: Known,
    /// Changes of the mappings that the checkpoints were not told of.
    pub(super) changes: Vec<Change>,
    /// Memory that was freed, as far as that is watched.
    pub(super) freed: Vec<Freed>,
    /// It has run, or was written to, since the checkpoints last looked.
    pub(super) touched: bool,
    /// What `/proc/self/cmdline` and `environ` show.
    pub(super) invocation: Invocation,
    /// Memory in it that is ours.
    pub(super) hidden: Arc<Vec<Range<u64>>>,
}

/// What was looked up about an address space, each as of some layout.
#[derive(Default)]
pub struct Known {
    /// For reports; made when first needed.
    pub(super) symbols: RefCell<Option<(u64, Symbolizer)>>,
    pub(super) objects: RefCell<Option<(usize, Rc<Objects>)>>,
    /// The mappings as of some version, for [`super::sharing`].
    pub(super) mappings: Option<(u64, Arc<Vec<Mapping>>)>,
    /// The mappings that threads have their stacks in, as of some layout.
    pub(super) stacks: BTreeMap<Tid, residue::Region>,
}

/// The words that a program was started with, each with a NUL behind it.
#[derive(Clone, Debug, Default)]
pub struct Invocation {
    pub command_line: Arc<[u8]>,
    pub environment: Arc<[u8]>,
}

impl Invocation {
    pub(super) fn of(options: &Options) -> Self {
        let environment = options.env.iter();
        let environment = environment.map(|(name, value)| [name.as_slice(), b"=", value].concat());
        Self::new(&options.argv, environment)
    }

    pub fn new(argv: &[Vec<u8>], environment: impl Iterator<Item = Vec<u8>>) -> Self {
        let terminated = |parts: &mut dyn Iterator<Item = Vec<u8>>| -> Arc<[u8]> {
            parts.flat_map(|part| [part, vec![0]].concat()).collect()
        };
        Self {
            command_line: terminated(&mut argv.iter().cloned()),
            environment: terminated(&mut { environment }),
        }
    }
}

impl Space {
    pub(super) fn new(id: Pid, key: TaskKey, task: Stopped, code: Code, invocation: Invocation) -> Self {
        Self {
            task: Some(task),
            ..Self::blank(id, key, code, invocation)
        }
    }

    /// One of which nothing is known yet, and that has no task.
    fn blank(id: Pid, key: TaskKey, code: Code, invocation: Invocation) -> Self {
        Self {
            id,
            key,
            task: None,
            loaded: id,
            code,
            layout_version: 0,
            known: Known::default(),
            changes: Vec::new(),
            freed: Vec::new(),
            touched: true,
            invocation,
            hidden: Arc::default(),
        }
    }

    /// The task, between steps.
    pub(super) fn task(&mut self) -> Result<&mut Stopped, Failure> {
        self.task.as_mut().ok_or_else(gone)
    }

    /// What stands in its place while its task is put back.
    pub(super) fn without_task(&self) -> Self {
        Self::blank(self.id, self.key, self.code.clone(), self.invocation.clone())
    }

    /// The same memory in another task.
    pub(super) fn copy(&self, id: Pid, key: TaskKey, task: Stopped) -> Self {
        Self {
            layout_version: self.layout_version,
            known: Known {
                mappings: self.known.mappings.clone(),
                ..Known::default()
            },
            freed: self.freed.clone(),
            hidden: Arc::clone(&self.hidden),
            ..Self::new(id, key, task, self.code.clone(), self.invocation.clone())
        }
    }
}

/// The memory of all processes.
pub struct Spaces {
    /// The one in place.
    pub(super) here: Space,
    /// Those of the other processes.
    pub(super) others: BTreeMap<Pid, Space>,
    /// This machine, as the process in place sees it.
    pub(super) host: ProcessHost,
    /// Kernel tasks so far.
    tasks_so_far: TaskKey,
    /// What is left of spaces whose tasks are being put back.
    pub(super) remains: BTreeMap<TaskKey, Space>,
    /// Tasks of processes that have ended.
    pub(super) retired: Vec<(TaskKey, Stopped)>,
    /// The last name given to a layout; unlike the layout it is never put back, so that no two layouts have one name.
    pub(super) layouts: u64,
}

impl Spaces {
    pub(super) fn new(first: Space, host: ProcessHost) -> Self {
        Self {
            here: first,
            others: BTreeMap::new(),
            host,
            tasks_so_far: 0,
            remains: BTreeMap::new(),
            retired: Vec::new(),
            layouts: 0,
        }
    }

    /// Puts the memory of a process in place.
    pub(super) fn enter(&mut self, wanted: Pid) {
        if wanted == self.here.id {
            return;
        }
        let Some(space) = self.others.remove(&wanted) else {
            return;
        };
        self.put_in_place(space);
        self.show_process();
    }

    /// The one that was in place before waits with the others, if it has a task.
    pub(super) fn put_in_place(&mut self, space: Space) {
        let before = std::mem::replace(&mut self.here, space);
        if before.task.is_some() {
            self.others.insert(before.id, before);
        }
    }

    /// What the host tells about "this process" is about the one in place.
    pub(super) fn show_process(&mut self) {
        if let Some(task) = &self.here.task {
            self.host.follow(task.pid());
        }
        let other = |space: &Space| {
            Some(Other {
                process: space.id,
                pid: space.task.as_ref()?.pid(),
                environment: Arc::clone(&space.invocation.environment),
                hidden: Arc::clone(&space.hidden),
            })
        };
        self.host.beside(self.others.values().filter_map(other));
        self.host.invoked(&self.here.invocation);
        self.hide_own();
    }

    /// Tells whoever shows the program its memory what is not the program's.
    pub(super) fn hide_own(&mut self) {
        let own = Arc::new(self.here.code.scratch_ranges().collect::<Vec<_>>());
        self.here.hidden = Arc::clone(&own);
        self.host.hide(own);
    }

    /// The memory of a thread's process.
    pub(super) fn of(&self, model: &Model, tid: Tid) -> &Space {
        let pid = model.process_of(tid);
        let id = pid.and_then(|pid| model.process_at(pid)).map(|p| p.program.space);
        match id {
            Some(id) if id != self.here.id => self.others.get(&id).unwrap_or(&self.here),
            _ => &self.here,
        }
    }

    /// Does a thread have the memory of this process?
    pub(super) fn is_in(&self, model: &Model, tid: Tid, process: Pid) -> bool {
        self.others.is_empty() || self.of(model, tid).id == process
    }

    /// Does a thread have the memory in place?
    pub(super) fn is_here(&self, model: &Model, tid: Tid) -> bool {
        self.is_in(model, tid, self.here.id)
    }

    /// All address spaces, by process.
    pub(super) fn all(&self) -> impl Iterator<Item = &Space> {
        let before = self.others.range(..self.here.id).map(|(_, space)| space);
        let after = self.others.range(self.here.id..).map(|(_, space)| space);
        before.chain([&self.here]).chain(after)
    }

    /// Address ranges in the memory of a process that are the supervisor's own: where displaced instructions are.
    pub fn own_ranges(&self, process: Pid) -> Vec<Range<u64>> {
        let space = self.all().find(|space| space.id == process);
        space.map_or_else(Vec::new, |space| space.code.scratch_ranges().collect())
    }

    /// The name of the next kernel task.
    pub(super) fn next_key(&mut self) -> TaskKey {
        self.tasks_so_far += 1;
        self.tasks_so_far
    }

    /// The task in place is no longer any process's. Checkpoints may still need it.
    pub(super) fn retire_task(&mut self) {
        if let Some(task) = self.here.task.take() {
            self.retired.push((self.here.key, task));
        }
    }

    /// Tasks whose processes have ended, for whoever has checkpoints of them.
    pub fn take_retired(&mut self) -> Vec<(TaskKey, Stopped)> {
        std::mem::take(&mut self.retired)
    }

    /// The tasks of all processes, for whoever puts their memory back; `Session::revert` takes them again.
    pub fn take_tasks(&mut self) -> BTreeMap<TaskKey, Stopped> {
        let mut tasks = BTreeMap::from_iter(self.take_retired());
        let mut spaces = std::mem::take(&mut self.others).into_values().collect::<Vec<_>>();
        if let Some(task) = self.here.task.take() {
            tasks.insert(self.here.key, task);
            let empty = self.here.without_task();
            spaces.push(std::mem::replace(&mut self.here, empty));
        }
        for mut space in spaces {
            if let Some(task) = space.task.take() {
                tasks.insert(space.key, task);
            }
            self.remains.insert(space.key, space);
        }
        tasks
    }

    /// All tasks, with what happened to their mappings, and whether they have run, since this was last asked.
    pub fn take_news(&mut self) -> Vec<News<'_>> {
        let spaces = self.others.values_mut().chain([&mut self.here]);
        let mut news: Vec<News> = spaces
            .filter_map(|space| {
                Some(News {
                    process: space.id,
                    key: space.key,
                    changes: std::mem::take(&mut space.changes),
                    touched: std::mem::take(&mut space.touched),
                    task: space.task.as_mut()?,
                })
            })
            .collect();
        news.sort_by_key(|news| news.process);
        news
    }

    /// The processes that have memory of their own.
    pub fn with_memory(&self) -> Vec<Pid> {
        self.all()
            .filter(|space| space.task.is_some())
            .map(|space| space.id)
            .collect()
    }

    /// The memory in place may have been changed.
    pub fn touch(&mut self) {
        self.here.touched = true;
    }

    /// The task in place, between steps.
    pub fn task(&mut self) -> Result<&mut Stopped, Failure> {
        self.here.task()
    }
}

/// A failure for whoever needs a task.
pub(super) fn gone() -> Failure {
    Failure::unsupported("the program under test is gone")
}

/// What checkpoints must know of a task.
pub struct News<'a> {
    pub process: Pid,
    pub key: TaskKey,
    pub changes: Vec<Change>,
    pub touched: bool,
    pub task: &'a mut Stopped,
}
