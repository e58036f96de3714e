//! Futex queues. The kernel's are per address; so are these. Wake-ups are first come, first served, as
//! the kernel's are for threads of equal priority.

use crate::thread::Tid;
use std::collections::{BTreeMap, VecDeque};

/// A thread in a futex queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Waiter {
    pub tid: Tid,
    pub bitset: u32,
    /// It waits in `FUTEX_LOCK_PI`, or will after a requeue to a PI futex.
    pub pi: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Futexes {
    queues: BTreeMap<u64, VecDeque<Waiter>>,
}

impl Futexes {
    pub fn enqueue(&mut self, addr: u64, waiter: Waiter) {
        self.queues.entry(addr).or_default().push_back(waiter);
    }

    /// Takes up to `count` waiters that match `bitset` out of the queue.
    pub fn dequeue(&mut self, addr: u64, count: usize, bitset: u32) -> Vec<Waiter> {
        let Some(queue) = self.queues.get_mut(&addr) else {
            return Vec::new();
        };
        let mut taken = Vec::new();
        queue.retain(|waiter| {
            let take = taken.len() < count && waiter.bitset & bitset != 0;
            if take {
                taken.push(*waiter);
            }
            !take
        });
        if queue.is_empty() {
            self.queues.remove(&addr);
        }
        taken
    }

    pub fn waiters(&self, addr: u64) -> usize {
        self.queues.get(&addr).map_or(0, VecDeque::len)
    }

    /// Takes a thread out of whatever queue it is in.
    pub fn forget(&mut self, tid: Tid) {
        self.queues.retain(|_, queue| {
            queue.retain(|waiter| waiter.tid != tid);
            !queue.is_empty()
        });
    }
}
