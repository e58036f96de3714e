//! Address spaces: a kernel task each, with what is known about its memory.
//!
//! One is *in place*, the one whose process is in place in the model; the others wait in a map. Threads of any process
//! may be next, so every transition begins with putting the right one in place.

use super::layout::Change;
use super::{Freed, Options, Session, residue};
use crate::code::{Code, Mapping};
use crate::objects::Objects;
use failure::Failure;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use symbols::Symbolizer;
use syscall_model::Tid;
use syscall_model::processes::Pid;
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
    /// For reports; made when first needed.
    pub(super) symbols: RefCell<Option<(u64, Symbolizer)>>,
    pub(super) objects: RefCell<Option<(usize, Rc<Objects>)>>,
    /// The mappings as of some version, for [`super::sharing`].
    pub(super) mappings: Option<(u64, Arc<Vec<Mapping>>)>,
    /// The mappings that threads have their stacks in, as of some layout.
    pub(super) stacks: BTreeMap<Tid, residue::Region>,
    /// Changes of the mappings that the checkpoints were not told of.
    pub(super) changes: Vec<Change>,
    /// Memory that was freed, as far as that is watched.
    pub(super) freed: Vec<Freed>,
    /// It has run, or was written to, since the checkpoints last looked.
    pub(super) touched: bool,
    /// What `/proc/self/cmdline` and `environ` show.
    pub(super) invocation: Invocation,
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
            symbols: RefCell::default(),
            objects: RefCell::default(),
            mappings: None,
            stacks: BTreeMap::new(),
            changes: Vec::new(),
            freed: Vec::new(),
            touched: true,
            invocation,
        }
    }

    /// What stands in its place while its task is put back.
    pub(super) fn without_task(&self) -> Self {
        Self::blank(self.id, self.key, self.code.clone(), self.invocation.clone())
    }

    /// The same memory in another task.
    pub(super) fn copy(&self, id: Pid, key: TaskKey, task: Stopped) -> Self {
        Self {
            layout_version: self.layout_version,
            mappings: self.mappings.clone(),
            freed: self.freed.clone(),
            ..Self::new(id, key, task, self.code.clone(), self.invocation.clone())
        }
    }
}

impl Session {
    /// Puts the process of a thread in place, in the model and here.
    pub(super) fn enter_process_of(&mut self, tid: Tid) {
        if let Some(pid) = self.model.process_of(tid) {
            self.enter(pid);
        }
    }

    pub(super) fn enter(&mut self, pid: Pid) {
        self.model.enter(pid);
        self.follow_model();
    }

    /// Puts the process in place that is there between steps.
    pub(super) fn go_home(&mut self) {
        self.model.go_home();
        self.follow_model();
    }

    /// Makes the memory of the process that is in place in the model the one in place here.
    pub(super) fn follow_model(&mut self) {
        let wanted = self.model.process.space;
        if wanted == self.space.id {
            return;
        }
        let Some(space) = self.spaces.remove(&wanted) else {
            return;
        };
        let before = std::mem::replace(&mut self.space, space);
        if before.task.is_some() {
            self.spaces.insert(before.id, before);
        }
        self.show_process();
    }

    /// What the host tells about "this process" is about the one in place.
    pub(super) fn show_process(&mut self) {
        if let Some(task) = &self.space.task {
            self.host.follow(task.pid());
        }
        self.host.invoked(&self.space.invocation);
        self.hide_own();
    }

    /// The memory of a thread's process.
    pub(super) fn space_of(&self, tid: Tid) -> &Space {
        let pid = self.model.process_of(tid);
        let id = pid.and_then(|pid| self.model.process_at(pid)).map(|p| p.space);
        match id {
            Some(id) if id != self.space.id => self.spaces.get(&id).unwrap_or(&self.space),
            _ => &self.space,
        }
    }

    /// All address spaces, by process.
    pub(super) fn all_spaces(&self) -> impl Iterator<Item = &Space> {
        let before = self.spaces.range(..self.space.id).map(|(_, space)| space);
        let after = self.spaces.range(self.space.id..).map(|(_, space)| space);
        before.chain([&self.space]).chain(after)
    }

    /// The name of the next kernel task.
    pub(super) fn next_key(&mut self) -> TaskKey {
        self.tasks_so_far += 1;
        self.tasks_so_far
    }

    /// The task in place is no longer any process's. Checkpoints may still need it.
    pub(super) fn retire_task(&mut self) {
        if let Some(task) = self.space.task.take() {
            self.retired.push((self.space.key, task));
        }
    }

    /// Tasks whose processes have ended, for whoever has checkpoints of them.
    pub fn take_retired(&mut self) -> Vec<(TaskKey, Stopped)> {
        std::mem::take(&mut self.retired)
    }

    /// All tasks, with what happened to their mappings, and whether they have run, since this was last asked.
    pub fn take_news(&mut self) -> Vec<News<'_>> {
        let spaces = self.spaces.values_mut().chain([&mut self.space]);
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
    pub fn processes_with_memory(&self) -> Vec<Pid> {
        self.all_spaces()
            .filter(|space| space.task.is_some())
            .map(|space| space.id)
            .collect()
    }

    /// The memory in place may have been changed.
    pub fn touch(&mut self) {
        self.space.touched = true;
    }

    /// A failure for whoever needs the task.
    pub(super) fn gone() -> Failure {
        Failure::unsupported("the program under test is gone")
    }
}

/// What checkpoints must know of a task.
pub struct News<'a> {
    pub process: Pid,
    pub key: TaskKey,
    pub changes: Vec<Change>,
    pub touched: bool,
    pub task: &'a mut Stopped,
}
