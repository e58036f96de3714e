//! Threads that wait for each other's locks while others still run, and those who unlock what they do not hold.
//!
//! A cycle of locks is no deadlock yet: glibc lets anybody unlock an ordinary mutex, so a thread outside of the cycle may end it. Whether one does is for
//! the search to show. Certain is only what nobody is left to change; see `suspicions.rs` of the checker for the rest.

use super::context::Threads;
use super::enabled::Movers;
use super::spaces::Spaces;
use super::stacks::Explain;
use super::{Context, Session, TaskMemory};
use hooks::{Blocked, SyncFn};
use std::hash::{Hash, Hasher};
use syscall_model::Model;
use syscall_model::{Tid, WaitFor};
use xxhash_rust::xxh3::Xxh3;

/// Threads each of which waits for a lock that the next one holds; or for one whose holder has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standstill {
    pub threads: Vec<Tid>,
    /// Names it by where these threads stand and for which locks they wait.
    pub key: u64,
    /// No other thread can move, nor will one when time passes.
    pub is_final: bool,
    /// Who waits for what.
    pub description: String,
}

/// An ordinary mutex that is unlocked by a thread that does not hold it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ForeignUnlock {
    pub mutex: String,
    pub at: String,
}

impl Session {
    /// Those that there were before the last step; final if only the thread that made it could move.
    pub fn standstills_before(&self) -> &[Standstill] {
        &self.seen.stuck_before
    }
}

/// Who waits for whom.
#[derive(Clone, Copy)]
pub struct Standstills<'a> {
    pub(super) model: &'a Model,
    pub(super) threads: &'a Threads,
    pub(super) spaces: &'a Spaces,
    pub(super) movers: Movers<'a>,
    pub(super) explain: Explain<'a>,
}

impl<'a> Standstills<'a> {
    /// All of them in the current state. `leaving` is a thread that will do nothing more than end the program.
    pub fn standstills(self, leaving: Option<Tid>) -> Vec<Standstill> {
        let is_held = |context: &Context| matches!(context.blocked, Blocked::HeldBy(_));
        if !self.threads.values().any(is_held) {
            return Vec::new();
        }
        let mut found: Vec<Standstill> = Vec::new();
        for start in self.model.tids() {
            let Some(mut threads) = self.chain(start) else {
                continue;
            };
            threads.sort_unstable();
            if !found.iter().any(|known| known.threads == threads) {
                found.push(self.standstill(threads, leaving));
            }
        }
        found
    }

    /// The way from a thread over those who hold what it waits for, if that comes back to it or ends at one that is gone.
    fn chain(self, start: Tid) -> Option<Vec<Tid>> {
        let mut path = vec![start];
        loop {
            let owner = self.waits_for_ever(*path.last()?)?;
            if owner == start || self.model.find_thread(owner).is_none() {
                return Some(path);
            }
            if path.contains(&owner) {
                return None;
            }
            path.push(owner);
        }
    }

    /// Who holds the lock that a thread waits for, without a time limit and without a signal that could take it away from there.
    fn waits_for_ever(self, tid: Tid) -> Option<Tid> {
        let thread = self.model.thread(tid);
        let is_timed = thread.wait.as_ref().is_some_and(|wait| wait.deadline.is_some());
        if is_timed || self.movers.able().any(|able| able == tid) {
            return None;
        }
        match self.threads.blocked(tid) {
            Blocked::HeldBy(owner) => Some(owner),
            _ => self.owner_of_retaken(tid),
        }
    }

    /// Who holds the mutex that a thread takes again after waiting for a condition variable.
    fn owner_of_retaken(self, tid: Tid) -> Option<Tid> {
        let wait = self.model.thread(tid).wait.as_ref()?;
        let inside = self.threads.get(&tid)?.inside.last()?;
        match wait.on {
            WaitFor::Futex(word) if inside.mutex == Some(word) => {
                let memory = TaskMemory::new(self.spaces.of(self.model, tid).task.as_ref()?);
                hooks::mutex_holder(word, &memory)
            }
            _ => None,
        }
    }

    fn standstill(self, threads: Vec<Tid>, leaving: Option<Tid>) -> Standstill {
        let mut places: Vec<_> = threads
            .iter()
            .map(|&tid| (self.explain.site(tid), self.lock_of(tid)))
            .collect();
        places.sort_unstable();
        let mut hasher = Xxh3::new();
        places.hash(&mut hasher);
        let others = self.movers.able().filter(|tid| Some(*tid) != leaving);
        let has_ended = |tid: &Tid| {
            self.waits_for_ever(*tid)
                .is_some_and(|owner| self.model.find_thread(owner).is_none())
        };
        let what = if threads.iter().any(has_ended) {
            "a lock whose holder has ended"
        } else {
            "a cycle of locks"
        };
        let waiting: Vec<String> = threads
            .iter()
            .map(|&tid| format!("thread {tid} {}", self.explain.stuck(tid)))
            .collect();
        Standstill {
            description: format!("{what}: {}", waiting.join("; ")),
            is_final: others.count() == 0 && self.model.next_deadline().is_none(),
            threads,
            key: hasher.finish(),
        }
    }

    fn lock_of(self, tid: Tid) -> Option<u64> {
        let context = self.threads.get(&tid)?;
        let hook = context.hook.as_ref().map(|op| op.object);
        hook.or_else(|| context.inside.last()?.mutex)
    }

    /// Before a step: is it the unlocking of a mutex that another thread holds?
    pub fn foreign_unlock(self, tid: Tid) -> Option<ForeignUnlock> {
        let op = self.threads.hook(tid)?;
        let sync = op.sync.as_ref()?;
        if sync.function != SyncFn::MutexUnlock {
            return None;
        }
        let memory = TaskMemory::new(self.spaces.of(self.model, tid).task.as_ref()?);
        let holder = hooks::plain_mutex_holder(sync.object, &memory)?;
        (holder != tid).then(|| ForeignUnlock {
            mutex: self.explain.object_name(tid, sync.object),
            at: self.explain.location(tid),
        })
    }
}
