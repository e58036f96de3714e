//! The extended state without the task's memory: what a checkpoint saves beside the pages, and what identifies it.

use super::context::Threads;
use super::debug::Debug;
use super::endings::Endings;
use super::idle::Pace;
use super::spaces::{Invocation, Space, gone};
use super::{Context, Freed, ProcessEnd, Session, TaskKey};
use crate::code::Code;
use crate::maps::{Mapping, read_maps};
use checkpoint::ThreadStack;
use failure::Failure;
use peers::PeerState;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use syscall_model::processes::Pid;
use syscall_model::{Model, Thread, Tid};
use tracee::{Stopped, XState};
use xxhash_rust::xxh3::xxh3_128;

/// Everything of a [`Session`] that moves together with the memory of its tasks.
#[derive(Clone)]
pub struct Snapshot {
    model: Model,
    threads: Threads,
    peers: PeerState,
    pace: Pace,
    ends: Endings,
    spaces: Vec<SpaceSnapshot>,
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
        let task = space.task.as_mut().ok_or_else(gone)?;
        Ok(Self {
            id: space.id,
            key: space.key,
            loaded: space.loaded,
            xstate: task.xstate()?,
            code: space.code.clone(),
            layout_version: space.layout_version,
            mappings: space.known.mappings.clone(),
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
        space.known.mappings.clone_from(&self.mappings);
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
        let mut spaces = vec![SpaceSnapshot::of(&mut self.spaces.here)?];
        for space in self.spaces.others.values_mut() {
            spaces.push(SpaceSnapshot::of(space)?);
        }
        Ok(Snapshot {
            model: self.model.clone(),
            threads: self.threads.clone(),
            peers: self.network.state().clone(),
            pace: self.pace.clone(),
            ends: self.ends.clone(),
            spaces,
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
        self.threads.clone_from(&snapshot.threads);
        self.network.go_to(snapshot.peers.clone())?;
        self.pace.clone_from(&snapshot.pace);
        self.ends.clone_from(&snapshot.ends);
        self.debug = Debug::of(self.debug.process());
        let mut remains = std::mem::take(&mut self.spaces.remains);
        for saved in snapshot.spaces.iter().rev() {
            let task = tasks.remove(&saved.key).ok_or_else(gone)?;
            let space = saved.put_back(task, remains.remove(&saved.key))?;
            self.spaces.put_in_place(space);
        }
        self.spaces.show_process();
        Ok(())
    }

    /// The identity of everything but the memory.
    pub fn control_identity(&mut self) -> Result<u128, Failure> {
        self.go_home();
        let mut loaded = BTreeMap::new();
        for space in self.spaces.others.values_mut().chain([&mut self.spaces.here]) {
            let task = space.task.as_mut().ok_or_else(gone)?;
            loaded.insert(space.loaded, task.xstate()?);
        }
        let mut hasher = Gathered(Vec::with_capacity(TYPICAL));
        self.model.hash(&mut hasher);
        hasher.write_u128(self.network.state().id());
        hasher.write_u32(self.pace.quiet.ticks);
        for (tid, context) in self.threads.iter() {
            tid.hash(&mut hasher);
            let thread = self.model.find_thread(*tid);
            if thread.is_some_and(Thread::is_as_good_as_gone) {
                // It executes nothing any more: what counts is its status, which is in the model, and which stack it is on.
                (context.regs.rsp, context.regs.fs_base).hash(&mut hasher);
                continue;
            }
            context.regs.hash(&mut hasher);
            context.spins.hash(&mut hasher);
            (context.loops.unfair, &context.loops.looks).hash(&mut hasher);
            let hook = context.hook.as_ref();
            hook.and_then(|op| op.loaded).hash(&mut hasher);
            context.xstate.as_ref().or(loaded.get(tid)).hash(&mut hasher);
        }
        for freed in self.spaces.all().flat_map(|space| &space.freed) {
            freed.range.hash(&mut hasher);
        }
        self.ends.first_ended.hash(&mut hasher);
        // In no order: numbers and turns are no part of an outcome.
        let mut ended: Vec<_> = self.ends.children.iter().map(ProcessEnd::what).collect();
        ended.sort_unstable();
        ended.hash(&mut hasher);
        self.ends.misuse.is_some().hash(&mut hasher);
        self.ends.ended.hash(&mut hasher);
        self.ends.resting.is_some().hash(&mut hasher);
        self.ends.goes_on.hash(&mut hasher);
        self.ends.roused.is_some().hash(&mut hasher);
        Ok(xxh3_128(&hasher.0))
    }

    /// The identity of everything, memory too, but for the time. Costs a look at all that can be written.
    pub(super) fn timeless_identity(&mut self) -> Result<u128, Failure> {
        let mut hasher = Gathered(Vec::with_capacity(TYPICAL));
        hasher.write_u128(self.timeless_control());
        for context in self.threads.values() {
            context.regs.hash(&mut hasher);
        }
        self.read_memory(|_, _, bytes| hasher.write_u128(xxh3_128(bytes)))?;
        Ok(xxh3_128(&hasher.0))
    }

    /// The identity of everything but memory, registers and time.
    pub(super) fn timeless_control(&self) -> u128 {
        let mut model = self.model.clone();
        model.without_times();
        let mut hasher = Gathered(Vec::with_capacity(TYPICAL));
        model.hash(&mut hasher);
        hasher.write_u128(self.network.state().id());
        for (tid, context) in self.threads.iter() {
            (tid, context.regs.rip).hash(&mut hasher);
        }
        xxh3_128(&hasher.0)
    }

    /// Shows all memory that can be written, piece by piece.
    pub(super) fn read_memory(&self, mut show: impl FnMut(Pid, u64, &[u8])) -> Result<(), Failure> {
        let mut piece = vec![0; PIECE];
        for space in self.spaces.all() {
            read_space(space, &mut piece, &mut show)?;
        }
        Ok(())
    }

    /// Where the stacks of all threads in the memory of a process are.
    pub fn thread_stacks(&self, process: Pid) -> Vec<ThreadStack> {
        let stack = |context: &Context| ThreadStack {
            sp: context.regs.rsp,
            tls: context.regs.fs_base,
        };
        // A handler's stack may lie within another stack, above memory that is alive.
        let is_plain = |tid: Tid, context: &Context| !self.is_on_alternate_stack(tid, context.regs.rsp);
        self.threads
            .iter()
            .filter(|&(&tid, _)| {
                self.spaces.others.is_empty() || self.spaces.of(&self.model, tid).id == process
            })
            .filter(|&(&tid, context)| is_plain(tid, context))
            .map(|(_, context)| stack(context))
            .collect()
    }
}

/// All that a task can write.
fn read_space(
    space: &Space,
    piece: &mut [u8],
    show: &mut impl FnMut(Pid, u64, &[u8]),
) -> Result<(), Failure> {
    let task = space.task.as_ref().ok_or_else(gone)?;
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
            let len = piece.len().min((mapping.end - at) as usize);
            let read = task.memory().read_up_to(at, &mut piece[..len])?;
            show(space.id, at, &piece[..read]);
            at += len as u64;
        }
    }
    Ok(())
}
