//! The extended state without the task's memory: what a checkpoint saves beside the pages, and what identifies it.

use super::debug::Debug;
use super::idle::{Idling, Quiet};
use super::{Context, Crash, Freed, Misuse, Session};
use crate::code::{Code, Mapping, read_maps};
use crate::error::Failure;
use crate::hooks::Blocked;
use crate::trace::End;
use checkpoint::ThreadStack;
use peers::PeerState;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use syscall_model::clock::Clock;
use syscall_model::{Model, Tid};
use tracee::{Stopped, XState};
use xxhash_rust::xxh3::xxh3_128;

/// Everything of a [`Session`] that moves together with the memory of its task.
#[derive(Clone)]
pub struct Snapshot {
    model: Model,
    contexts: BTreeMap<Tid, Context>,
    peers: PeerState,
    quiet: Quiet,
    idling: Idling,
    busy: u32,
    loaded: Tid,
    /// Extended state of the loaded thread.
    xstate: XState,
    code: Code,
    layout_version: u64,
    mappings: Option<(u64, Arc<Vec<Mapping>>)>,
    ended: Option<End>,
    crash: Option<Crash>,
    locks: BTreeMap<Tid, Blocked>,
    freed: Vec<Freed>,
    misuse: Option<Misuse>,
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
        let xstate = self.task()?.xstate()?;
        Ok(Snapshot {
            model: self.model.clone(),
            contexts: self.contexts.clone(),
            peers: self.network.state().clone(),
            quiet: self.quiet.clone(),
            idling: self.idling.clone(),
            busy: self.busy,
            loaded: self.loaded,
            xstate,
            code: self.code.clone(),
            layout_version: self.layout_version,
            mappings: self.mappings.clone(),
            ended: self.ended.clone(),
            crash: self.crash.clone(),
            locks: self.locks.clone(),
            freed: self.freed.clone(),
            misuse: self.misuse.clone(),
        })
    }

    /// Puts back all but the memory, which the caller has put back. It was saved between two transitions, without a debugger's breakpoints.
    pub fn revert(&mut self, snapshot: &Snapshot) -> Result<(), Failure> {
        self.model.clone_from(&snapshot.model);
        self.contexts.clone_from(&snapshot.contexts);
        self.network.go_to(snapshot.peers.clone())?;
        self.quiet.clone_from(&snapshot.quiet);
        self.idling.clone_from(&snapshot.idling);
        self.busy = snapshot.busy;
        self.loaded = snapshot.loaded;
        self.code.clone_from(&snapshot.code);
        self.layout_version = snapshot.layout_version;
        self.mappings.clone_from(&snapshot.mappings);
        self.ended.clone_from(&snapshot.ended);
        self.crash.clone_from(&snapshot.crash);
        self.changes.clear();
        self.debug = Debug::default();
        self.locks.clone_from(&snapshot.locks);
        self.freed.clone_from(&snapshot.freed);
        self.misuse.clone_from(&snapshot.misuse);
        let task = self.task()?;
        task.set_xstate(&snapshot.xstate)?;
        let pid = task.pid();
        self.host.follow(pid);
        self.hide_own();
        Ok(())
    }

    /// The task, for a checkpoint backend, which may put another process in its place.
    pub fn task_slot(&mut self) -> Result<&mut Stopped, Failure> {
        self.task()
    }

    /// The identity of everything but the memory.
    pub fn control_identity(&mut self) -> Result<u128, Failure> {
        let loaded = self.task()?.xstate()?;
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
            context.xstate.as_ref().unwrap_or(&loaded).hash(&mut hasher);
        }
        for freed in &self.freed {
            freed.range.hash(&mut hasher);
        }
        self.misuse.is_some().hash(&mut hasher);
        self.ended.hash(&mut hasher);
        Ok(xxh3_128(&hasher.0))
    }

    /// The identity of everything, memory too, but for the time. Costs a look at all that can be written.
    pub(super) fn timeless_identity(&mut self) -> Result<u128, Failure> {
        let mut model = self.model.clone();
        model.clock = Clock::new(syscall_model::clock::DEFAULT_EPOCH_SECONDS);
        for thread in model.threads.values_mut() {
            thread.deadline = None;
        }
        let mut hasher = Gathered(Vec::with_capacity(TYPICAL));
        model.hash(&mut hasher);
        hasher.write_u128(self.network.state().id());
        for (tid, context) in &self.contexts {
            tid.hash(&mut hasher);
            context.regs.hash(&mut hasher);
        }
        let own = self.own_ranges();
        let task = self.task()?;
        let mut piece = vec![0; PIECE];
        for mapping in read_maps(task.pid())? {
            let is_own = own.iter().any(|range| range.contains(&mapping.start));
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
        Ok(xxh3_128(&hasher.0))
    }

    /// Where the stacks of all threads are.
    pub fn thread_stacks(&self) -> Vec<ThreadStack> {
        let stack = |context: &Context| ThreadStack {
            sp: context.regs.rsp,
            tls: context.regs.fs_base,
        };
        // A handler's stack may lie within another stack, above memory that is alive.
        let is_plain = |tid: Tid, context: &Context| !self.is_on_alternate_stack(tid, context.regs.rsp);
        self.contexts
            .iter()
            .filter(|&(&tid, context)| is_plain(tid, context))
            .map(|(_, context)| stack(context))
            .collect()
    }
}
