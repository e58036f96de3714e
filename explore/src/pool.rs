//! The work that workers share: items to begin with, and the end of the search.
//!
//! An item is a *path*, not a state: a state cannot leave the worker whose system is in it. An idle worker waits here; a busy one looks now and
//! then whether someone is hungry and gives away its shallowest node. The search is over when all workers are idle and nothing is queued:
//! only a busy worker can add items, so this cannot change any more.

use crate::Choice;
use crate::reduce::Sleeper;
use crate::tree::SoFar;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Something to begin with.
pub(crate) enum Item {
    /// The whole search.
    Root,
    /// The walk with this number.
    Walk(u64),
    /// What is left to do at the end of a path.
    Node(Box<Handover>),
    /// What was put off until everything that ranks lower was done.
    PutOff(u32),
}

/// A node that one worker gives to another.
pub(crate) struct Handover {
    /// From the initial state.
    pub path: Vec<Choice>,
    pub todo: Vec<Choice>,
    pub sleep: Vec<Sleeper>,
    pub so_far: SoFar,
    pub id: Option<u128>,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    /// The numbers of the walks that were not taken yet.
    walks: Option<std::ops::Range<u64>>,
    idle: usize,
    over: bool,
    /// The rank of what comes first of all that was put off, by any worker.
    put_off: Option<u32>,
    /// The rank that all workers are at, and how often it has changed.
    rank: u32,
    round: u64,
}

pub(crate) struct Pool {
    queue: Mutex<Queue>,
    news: Condvar,
    workers: usize,
    /// Idle workers for whom nothing is queued yet. A hint, read without the lock.
    hungry: AtomicUsize,
}

impl Pool {
    /// A pool with the whole search as its only item.
    pub fn with_root(workers: usize) -> Self {
        let queue = Queue {
            items: [Item::Root].into(),
            ..Queue::default()
        };
        Self {
            queue: Mutex::new(queue),
            news: Condvar::new(),
            workers,
            hungry: AtomicUsize::new(0),
        }
    }

    /// A pool with walks.
    pub fn with_walks(workers: usize, walks: Option<u64>) -> Self {
        let queue = Queue {
            walks: Some(0..walks.unwrap_or(u64::MAX)),
            ..Queue::default()
        };
        Self {
            queue: Mutex::new(queue),
            news: Condvar::new(),
            workers,
            hungry: AtomicUsize::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count_hungry(&self, queue: &Queue) {
        self.hungry
            .store(queue.idle.saturating_sub(queue.items.len()), Relaxed);
    }

    /// Waits for something to do. `None`: the search is over. `put_off`: the rank of what the worker has put off until all others have done what ranks
    /// lower; `round`: how often that has happened to it.
    pub fn take(&self, put_off: Option<u32>, round: &mut u64) -> Option<Item> {
        let mut queue = self.lock();
        let over = queue.over;
        if let Some(walks) = queue.walks.as_mut() {
            return if over { None } else { walks.next().map(Item::Walk) };
        }
        queue.idle += 1;
        queue.put_off = [queue.put_off, put_off].into_iter().flatten().min();
        loop {
            let is_done = queue.items.is_empty() && queue.idle == self.workers;
            match queue.put_off {
                Some(rank) if is_done && *round == queue.round => {
                    queue.put_off = None;
                    (queue.rank, queue.round) = (rank, queue.round + 1);
                    // All of them have something to do now, also those that have not heard of it yet.
                    queue.idle = 0;
                    self.news.notify_all();
                }
                _ => {}
            }
            if !queue.over && *round < queue.round {
                *round = queue.round;
                self.count_hungry(&queue);
                return Some(Item::PutOff(queue.rank));
            }
            if queue.over || (queue.items.is_empty() && queue.idle == self.workers) {
                queue.over = true;
                self.news.notify_all();
                return None;
            }
            if let Some(item) = queue.items.pop_front() {
                queue.idle -= 1;
                self.count_hungry(&queue);
                return Some(item);
            }
            self.count_hungry(&queue);
            queue = self.news.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether a worker waits for which there is no item.
    pub fn is_hungry(&self) -> bool {
        self.hungry.load(Relaxed) > 0
    }

    pub fn give(&self, handover: Handover) {
        let mut queue = self.lock();
        queue.items.push_back(Item::Node(Box::new(handover)));
        self.count_hungry(&queue);
        self.news.notify_one();
    }

    /// Ends the search for all.
    pub fn close(&self) {
        self.lock().over = true;
        self.news.notify_all();
    }
}
