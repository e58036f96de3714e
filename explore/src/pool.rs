//! The work that workers share: items to begin with, and the end of the search.
//!
//! An item is a *path*, not a state: a state cannot leave the worker whose system is in it. An idle worker waits here; a busy one looks now and
//! then whether someone is hungry and gives away its shallowest node. The search is over when all workers are idle and nothing is queued:
//! only a busy worker can add items, so this cannot change any more.

use crate::Choice;
use crate::reduce::Sleeper;
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
}

/// A node that one worker gives to another.
pub(crate) struct Handover {
    /// From the initial state.
    pub path: Vec<Choice>,
    pub todo: Vec<Choice>,
    pub sleep: Vec<Sleeper>,
    pub preemptions: u32,
    pub violated: bool,
    pub id: Option<u128>,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    /// The numbers of the walks that were not taken yet.
    walks: Option<std::ops::Range<u64>>,
    idle: usize,
    over: bool,
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

    /// Waits for something to do. `None`: the search is over.
    pub fn take(&self) -> Option<Item> {
        let mut queue = self.lock();
        let over = queue.over;
        if let Some(walks) = queue.walks.as_mut() {
            return if over { None } else { walks.next().map(Item::Walk) };
        }
        queue.idle += 1;
        loop {
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
