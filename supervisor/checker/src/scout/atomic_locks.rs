//! Locks that a program has made of atomic instructions: what is accessed while one is held is kept apart by it.
//!
//! A lock is an object that an atomic instruction changes from what it holds when it is free to something else, and that is free again when it holds this once
//! more: spin locks, futex locks, the locks of Rust's and Go's libraries. A thread that finds it otherwise has not taken it, whatever it does to it. What works in
//! another way (tickets, turns, flags of one's own, counters) is no lock here, and whether it keeps threads apart is for the search to find out.

use session::Session;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;
use syscall_model::Tid;

#[derive(Clone, Default)]
pub(super) struct AtomicLocks {
    /// What each object held before the first atomic instruction changed it, by name.
    free: HashMap<u64, u64>,
    /// Who has changed which from that.
    held: BTreeMap<Tid, Vec<Range<u64>>>,
    /// The object of the instruction that is being executed, and what it held before.
    changing: Option<(Tid, Range<u64>, u64)>,
}

impl AtomicLocks {
    /// A thread is about to execute an atomic instruction that works on this object, and will see what it found there.
    pub fn before(&mut self, session: &Session, tid: Tid, object: &Range<u64>) {
        let value = session.sharing().value_of(tid, object);
        self.changing = value.map(|value| (tid, object.clone(), value));
    }

    /// It has executed it.
    pub fn after(&mut self, session: &Session) {
        let Some((tid, object, before)) = self.changing.take() else {
            return;
        };
        // A thread that has ended holds nothing.
        if session.model().find_thread(tid).is_none() {
            return;
        }
        let Some(now) = session.sharing().value_of(tid, &object) else {
            return;
        };
        if now == before {
            return;
        }
        let name = session.model().memory_name(tid, object.start);
        let free = *self.free.entry(name).or_insert(before);
        if before == free {
            self.held.entry(tid).or_default().push(object);
        }
    }

    /// Names of the locks that a thread holds now. One that it has given back by a plain store is free, too.
    pub fn held_by(&mut self, session: &Session, tid: Tid) -> Arc<BTreeSet<u64>> {
        let Some(held) = self.held.get_mut(&tid).filter(|held| !held.is_empty()) else {
            return Arc::default();
        };
        let name_of = |object: &Range<u64>| session.model().memory_name(tid, object.start);
        held.retain(|object| {
            session.sharing().value_of(tid, object) != self.free.get(&name_of(object)).copied()
        });
        Arc::new(held.iter().map(name_of).collect())
    }

    pub fn ended(&mut self, tid: Tid) {
        self.held.remove(&tid);
    }
}
