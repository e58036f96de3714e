//! The extended state without the task's memory: what a checkpoint saves beside the pages, and what identifies it.

use super::debug::Debug;
use super::idle::{Idling, Quiet};
use super::spaces::{Invocation, Space};
use super::{Context, Crash, Freed, Misuse, ProcessEnd, Session, TaskKey};
use crate::code::{Code, Mapping, read_maps};
use checkpoint::ThreadStack;
use failure::Failure;
use hooks::Blocked;
use peers::PeerState;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use syscall_model::clock::Clock;
use syscall_model::processes::Pid;
use syscall_model::{Model, Tid};
use trace::End;
use tracee::{Stopped, XState};
use xxhash_rust::xxh3::xxh3_128;

/// Everything of a [`Session`] that moves together with the memory of its tasks.
#[derive(Clone)]
pub struct Snapshot {
    model: Model,
    contexts: BTreeMap<Tid, Context>,
    peers: PeerState,
    quiet: Quiet,
    idling: Idling,
    busy: u32,
    spaces: Vec<SpaceSnapshot>,
    ended: Option<End>,
    resting: Option<End>,
    first_ended: Option<End>,
    ended_children: Vec<ProcessEnd>,
    left_behind: BTreeSet<String>,
    crash: Option<Crash>,
    locks: BTreeMap<Tid, Blocked>,
    misuse: Option<Misuse>,
}

/// What is known about the memory of one task.
#[derive(Clone)]
struct SpaceSnapshot {
    id: Pid,
    key: TaskKey,
    loaded: Tid,
    /// Extended state of the loaded thread.
    xstate: XState,
    code: Code,
    layout_version: u64,
    mappings: Option<(u64, Arc<Vec<Mapping>>)>,
    freed: Vec<Freed>,
    invocation: Invocation,
}

impl SpaceSnapshot {
    fn of(space: &mut Space) -> Result<Self, Failure> {
        let task = space.task.as_mut().ok_or_else(Session::gone)?;
        Ok(Self {
            id: space.id,
            key: space.key,
            loaded: space.loaded,
            xstate: task.xstate()?,
            code: space.code.clone(),
            layout_version: space.layout_version,
            mappings: space.mappings.clone(),
            freed: space.freed.clone(),
            invocation: space.invocation.clone(),
        })
    }

    /// Makes a space of it again, if need be of another one's remains: what is cached there holds as long as its layout does.
    fn put_back(&self, mut task: Stopped, remains: Option<Space>) -> Result<Space, Failure> {
        task.set_xstate(&self.xstate)?;
        let mut space = match remains {
            Some(mut space) => {
                space.code.clone_from(&self.code);
                space.task = Some(task);
                space
            }
            None => Space::new(
                self.id,
                self.key,
                task,
                self.code.clone(),
                self.invocation.clone(),
            ),
        };
        space.loaded = self.loaded;
        space.layout_version = self.layout_version;
        space.mappings.clone_from(&self.mappings);
        space.freed.clone_from(&self.freed);
        space.invocation.clone_from(&self.invocation);
        space.changes.clear();
        space.touched = false;
        Ok(space)
    }
}

/// Memory is read in pieces of this many bytes.
const PIECE: usize = 1 << 20;
/// Bytes of a model without much in it.
const TYPICAL: usize = 8 << 10;

/// All that is fed to it, to be hashed at once: a model is a thousand small numbers, and a hash that takes them one by one
/// costs several times as much as the hash of them all.
struct Gathered(Vec<u8>);

impl Hasher for Gathered {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        xxh3_128(&self.0) as u64
    }
}

impl Session {
    /// Saves all but the memory.
    pub fn snapshot(&mut self) -> Result<Snapshot, Failure> {
        self.go_home();
        let mut spaces = vec![SpaceSnapshot::of(&mut self.space)?];
        for space in self.spaces.values_mut() {
            spaces.push(SpaceSnapshot::of(space)?);
        }
        Ok(Snapshot {
            model: self.model.clone(),
            contexts: self.contexts.clone(),
            peers: self.network.state().clone(),
            quiet: self.quiet.clone(),
            idling: self.idling.clone(),
            busy: self.busy,
            spaces,
            ended: self.ended.clone(),
            resting: self.resting.clone(),
            first_ended: self.first_ended.clone(),
            ended_children: self.ended_children.clone(),
            left_behind: self.left_behind.clone(),
            crash: self.crash.clone(),
            locks: self.locks.clone(),
            misuse: self.misuse.clone(),
        })
    }

    /// Puts back all but the memory, which the caller has put back in these tasks. It was saved between two transitions, without a debugger's
    /// breakpoints.
    pub fn revert(
        &mut self,
        snapshot: &Snapshot,
        mut tasks: BTreeMap<TaskKey, Stopped>,
    ) -> Result<(), Failure> {
        self.model.clone_from(&snapshot.model);
        self.contexts.clone_from(&snapshot.contexts);
        self.network.go_to(snapshot.peers.clone())?;
        self.quiet.clone_from(&snapshot.quiet);
        self.idling.clone_from(&snapshot.idling);
        self.busy = snapshot.busy;
        self.ended.clone_from(&snapshot.ended);
        self.resting.clone_from(&snapshot.resting);
        self.first_ended.clone_from(&snapshot.first_ended);
        self.ended_children.clone_from(&snapshot.ended_children);
        self.left_behind.clone_from(&snapshot.left_behind);
        self.crash.clone_from(&snapshot.crash);
        self.debug = Debug::default();
        self.locks.clone_from(&snapshot.locks);
        self.misuse.clone_from(&snapshot.misuse);
        let mut remains = std::mem::take(&mut self.remains);
        for saved in snapshot.spaces.iter().rev() {
            let task = tasks.remove(&saved.key).ok_or_else(Self::gone)?;
            let space = saved.put_back(task, remains.remove(&saved.key))?;
            let before = std::mem::replace(&mut self.space, space);
            if before.task.is_some() {
                self.spaces.insert(before.id, before);
            }
        }
        self.show_process();
        Ok(())
    }

    /// The tasks of all processes, for whoever puts their memory back; [`Session::revert`] takes them again.
    pub fn take_tasks(&mut self) -> BTreeMap<TaskKey, Stopped> {
        let mut tasks = BTreeMap::from_iter(self.take_retired());
        let mut spaces = std::mem::take(&mut self.spaces).into_values().collect::<Vec<_>>();
        if let Some(task) = self.space.task.take() {
            tasks.insert(self.space.key, task);
            let empty = self.space.without_task();
            spaces.push(std::mem::replace(&mut self.space, empty));
        }
        for mut space in spaces {
            if let Some(task) = space.task.take() {
                tasks.insert(space.key, task);
            }
            self.remains.insert(space.key, space);
        }
        tasks
    }

    /// The task in place.
    pub fn task_slot(&mut self) -> Result<&mut Stopped, Failure> {
        self.task()
    }

    /// The identity of everything but the memory.
    pub fn control_identity(&mut self) -> Result<u128, Failure> {
        self.go_home();
        let mut loaded = BTreeMap::new();
        for space in self.spaces.values_mut().chain([&mut self.space]) {
            let task = space.task.as_mut().ok_or_else(Self::gone)?;
            loaded.insert(space.loaded, task.xstate()?);
        }
        let mut hasher = Gathered(Vec::with_capacity(TYPICAL));
        self.model.hash(&mut hasher);
        hasher.write_u128(self.network.state().id());
        hasher.write_u32(self.quiet.ticks);
        for (tid, context) in &self.contexts {
            tid.hash(&mut hasher);
            context.regs.hash(&mut hasher);
            context.spins.hash(&mut hasher);
            let hook = context.hook.as_ref();
            hook.and_then(|op| op.loaded).hash(&mut hasher);
            context.xstate.as_ref().or(loaded.get(tid)).hash(&mut hasher);
        }
        for freed in self.all_spaces().flat_map(|space| &space.freed) {
            freed.range.hash(&mut hasher);
        }
        self.first_ended.hash(&mut hasher);
        // In no order: numbers and turns are no part of an outcome.
        let mut ended: Vec<_> = self.ended_children.iter().map(ProcessEnd::what).collect();
        ended.sort_unstable();
        ended.hash(&mut hasher);
        self.misuse.is_some().hash(&mut hasher);
        self.ended.hash(&mut hasher);
        self.resting.is_some().hash(&mut hasher);
        Ok(xxh3_128(&hasher.0))
    }

    /// The identity of everything, memory too, but for the time. Costs a look at all that can be written.
    pub(super) fn timeless_identity(&mut self) -> Result<u128, Failure> {
        let mut model = self.model.clone();
        model.clock = Clock::new(syscall_model::clock::DEFAULT_EPOCH_SECONDS);
        model.residents.without_times();
        for thread in model.all_threads_mut() {
            thread.deadline = None;
        }
        let mut hasher = Gathered(Vec::with_capacity(TYPICAL));
        model.hash(&mut hasher);
        hasher.write_u128(self.network.state().id());
        for (tid, context) in &self.contexts {
            tid.hash(&mut hasher);
            context.regs.hash(&mut hasher);
        }
        for space in self.all_spaces() {
            hash_memory(space, &mut hasher)?;
        }
        Ok(xxh3_128(&hasher.0))
    }

    /// Where the stacks of all threads in the memory of a process are.
    pub fn thread_stacks(&self, process: Pid) -> Vec<ThreadStack> {
        let stack = |context: &Context| ThreadStack {
            sp: context.regs.rsp,
            tls: context.regs.fs_base,
        };
        // A handler's stack may lie within another stack, above memory that is alive.
        let is_plain = |tid: Tid, context: &Context| !self.is_on_alternate_stack(tid, context.regs.rsp);
        self.contexts
            .iter()
            .filter(|&(&tid, _)| self.spaces.is_empty() || self.space_of(tid).id == process)
            .filter(|&(&tid, context)| is_plain(tid, context))
            .map(|(_, context)| stack(context))
            .collect()
    }
}

/// All that a task can write.
fn hash_memory(space: &Space, hasher: &mut Gathered) -> Result<(), Failure> {
    let task = space.task.as_ref().ok_or_else(Session::gone)?;
    let mut piece = vec![0; PIECE];
    for mapping in read_maps(task.pid())? {
        let is_own = space
            .code
            .scratch_ranges()
            .any(|range| range.contains(&mapping.start));
        if !mapping.writable || is_own {
            continue;
        }
        let mut at = mapping.start;
        while at < mapping.end {
            let len = PIECE.min((mapping.end - at) as usize);
            let read = task.memory().read_up_to(at, &mut piece[..len])?;
            hasher.write_u128(xxh3_128(&piece[..read]));
            at += len as u64;
        }
    }
    Ok(())
}
