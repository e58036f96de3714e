//! Epoll sets: the interest list and the ready list, kept as the kernel keeps them.
//!
//! A channel that changes tells every set that watches it ([`notify`]), which puts the item at the end of its
//! ready list. `epoll_wait` goes through that list: what is not ready after all is dropped, a level-triggered
//! item goes back to the end, an edge-triggered one waits for the next change. Whatever becomes ready without
//! a call of the program (a timer, a signal, a set inside the set) is *lazy*: it is looked at whenever
//! somebody asks.

use super::EpollId;
use crate::clock::Nanos;
use crate::fd::{Kind, OfdId, PollEvents};
use crate::model::Model;
use crate::thread::Tid;
use imbl::{OrdMap, Vector};
use syscalls::Errno;

const EXCLUSIVE: u32 = 1 << 28;
const WAKEUP: u32 = 1 << 29;
const ONESHOT: u32 = 1 << 30;
const EDGE: u32 = 1 << 31;
/// What is left of an item's events once a one-shot has been reported.
const PRIVATE: u32 = EXCLUSIVE | WAKEUP | ONESHOT | EDGE;
/// `EP_MAX_NESTS`.
const MAX_NESTING: usize = 4;

/// An item is known by descriptor number and description: after a `dup` both can be in one set.
pub type Key = (i32, OfdId);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Item {
    kind: Kind,
    events: u32,
    data: u64,
    /// When a lazy edge-triggered item was last reported.
    seen: Nanos,
}

impl Item {
    fn interest(&self) -> PollEvents {
        PollEvents::from_bits_truncate(self.events & !PRIVATE)
    }

    fn edge_triggered(&self) -> bool {
        self.events & EDGE != 0
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Epoll {
    items: OrdMap<Key, Item>,
    ready: Vector<Key>,
}

/// What `epoll_wait` reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub events: u32,
    pub data: u64,
}

impl Epoll {
    pub fn descriptions(&self) -> impl Iterator<Item = OfdId> + '_ {
        self.items.keys().map(|&(_, id)| id)
    }

    /// Each item: what it watches, for which events, and whether every change counts.
    pub(crate) fn watched(&self) -> impl Iterator<Item = (OfdId, PollEvents, bool)> + '_ {
        let items = self.items.iter();
        items.map(|(&(_, id), item)| (id, item.interest(), item.edge_triggered()))
    }

    pub fn watches(&self, kind: &Kind) -> bool {
        self.items.values().any(|item| item.kind == *kind)
    }

    /// Does an edge-triggered item watch this? Then each change counts, not only the first.
    pub fn watches_edges(&self, kind: &Kind) -> bool {
        let mut items = self.items.values();
        items.any(|item| item.kind == *kind && item.edge_triggered())
    }

    fn enqueue(&mut self, key: Key) -> bool {
        let fresh = !self.ready.contains(&key);
        if fresh {
            self.ready.push_back(key);
        }
        fresh
    }

    fn forget(&mut self, id: OfdId) {
        let gone: Vec<Key> = self.items.keys().filter(|(_, ofd)| *ofd == id).copied().collect();
        for key in gone {
            self.remove(key);
        }
    }

    fn remove(&mut self, key: Key) -> Option<Item> {
        self.ready.retain(|&queued| queued != key);
        self.items.remove(&key)
    }
}

fn set(model: &Model, id: EpollId) -> &Epoll {
    model
        .channels
        .epolls
        .get(&id)
        .unwrap_or_else(|| panic!("no epoll set {}", id.0))
}

fn set_mut(model: &mut Model, id: EpollId) -> &mut Epoll {
    let sets = &mut model.channels.epolls;
    sets.get_mut(&id)
        .unwrap_or_else(|| panic!("no epoll set {}", id.0))
}

/// Something changed at `kind`: `events` may have become true. [`PollEvents::all`] for a change of state that
/// concerns everybody (a hang-up).
pub fn notify(model: &mut Model, kind: &Kind, events: PollEvents) {
    let mut woken = Vec::new();
    for (&id, epoll) in model.channels.epolls.iter_mut() {
        let concerned = |item: &Item| item.kind == *kind && item.interest().intersects(events);
        let keys: Vec<Key> = epoll
            .items
            .iter()
            .filter(|(_, item)| concerned(item))
            .map(|(&key, _)| key)
            .collect();
        let fresh = keys.into_iter().filter(|&key| epoll.enqueue(key)).count();
        if fresh > 0 {
            woken.push(id);
        }
    }
    // Sets inside sets; `add` keeps them free of cycles.
    for id in woken {
        notify(model, &Kind::Epoll(id), PollEvents::IN | PollEvents::RDNORM);
    }
}

/// A description is gone: no set watches it any more.
pub fn forget(model: &mut Model, id: OfdId) {
    for (_, epoll) in model.channels.epolls.iter_mut() {
        epoll.forget(id);
    }
}

/// Readiness of the set itself, as seen by `tid` (signals are per thread).
pub fn poll(model: &Model, tid: Option<Tid>, id: EpollId) -> PollEvents {
    let epoll = set(model, id);
    let listed = epoll
        .ready
        .iter()
        .filter_map(|key| Some((key, epoll.items.get(key)?)));
    let ready = listed
        .chain(
            epoll
                .items
                .iter()
                .filter(|(_, item)| lazily_ready(model, tid, item)),
        )
        .any(|(&(_, ofd), item)| model.poll_as(tid, ofd).intersects(item.interest()));
    if ready {
        PollEvents::IN | PollEvents::RDNORM
    } else {
        PollEvents::empty()
    }
}

/// Did this item become ready without anybody telling us? Whether it is ready is asked afterwards.
fn lazily_ready(model: &Model, _tid: Option<Tid>, item: &Item) -> bool {
    match item.kind {
        Kind::TimerFd(id) if item.edge_triggered() => {
            let now = model.clock.now();
            let latest = model
                .channels
                .timerfds
                .get(&id)
                .and_then(|timer| timer.latest(now));
            latest.is_some_and(|latest| latest > item.seen)
        }
        // An edge-triggered signalfd is reported as long as a signal is pending: who reads it dry, as
        // one must, does not see the difference.
        Kind::TimerFd(_) | Kind::SignalFd(_) => true,
        Kind::Epoll(_) => !item.edge_triggered(),
        _ => false,
    }
}

/// `EPOLL_CTL_ADD`.
pub fn add(model: &mut Model, id: EpollId, key: Key, events: u32, data: u64) -> Result<(), Errno> {
    let kind = model.files.get(key.1).ok_or(Errno::EBADF)?.kind.clone();
    if set(model, id).items.contains_key(&key) {
        return Err(Errno::EEXIST);
    }
    if let Kind::Epoll(inner) = kind
        && (reaches(model, inner, id) || depth(model, inner) + height(model, id) > MAX_NESTING)
    {
        return Err(Errno::ELOOP);
    }
    let item = Item {
        kind,
        events: events | always(),
        data,
        seen: model.clock.now(),
    };
    set_mut(model, id).items.insert(key, item);
    enqueue_if_ready(model, id, key);
    Ok(())
}

/// `EPOLL_CTL_MOD`.
pub fn modify(model: &mut Model, id: EpollId, key: Key, events: u32, data: u64) -> Result<(), Errno> {
    let item = set_mut(model, id).items.get_mut(&key).ok_or(Errno::ENOENT)?;
    if (events | item.events) & EXCLUSIVE != 0 {
        return Err(Errno::EINVAL);
    }
    item.events = events | always();
    item.data = data;
    enqueue_if_ready(model, id, key);
    Ok(())
}

/// `EPOLL_CTL_DEL`.
pub fn delete(model: &mut Model, id: EpollId, key: Key) -> Result<(), Errno> {
    set_mut(model, id).remove(key).map(drop).ok_or(Errno::ENOENT)
}

/// Errors and hang-ups are reported whether asked for or not.
fn always() -> u32 {
    (PollEvents::ERR | PollEvents::HUP).bits()
}

pub fn exclusive_allows() -> u32 {
    (PollEvents::IN | PollEvents::OUT | PollEvents::ERR | PollEvents::HUP).bits() | WAKEUP | EDGE | EXCLUSIVE
}

fn enqueue_if_ready(model: &mut Model, id: EpollId, key: Key) {
    let interest = set(model, id).items.get(&key).map(Item::interest);
    if interest.is_some_and(|interest| model.poll(key.1).intersects(interest))
        && set_mut(model, id).enqueue(key)
    {
        notify(model, &Kind::Epoll(id), PollEvents::IN | PollEvents::RDNORM);
    }
}

fn children(model: &Model, id: EpollId) -> Vec<EpollId> {
    let kinds = set(model, id).items.values().map(|item| &item.kind);
    kinds
        .filter_map(|kind| match kind {
            Kind::Epoll(child) => Some(*child),
            _ => None,
        })
        .collect()
}

fn reaches(model: &Model, from: EpollId, to: EpollId) -> bool {
    from == to
        || children(model, from)
            .into_iter()
            .any(|child| reaches(model, child, to))
}

/// How many sets are nested in this one, itself included.
fn depth(model: &Model, id: EpollId) -> usize {
    let nested = children(model, id).into_iter().map(|child| depth(model, child));
    1 + nested.max().unwrap_or(0)
}

/// How many sets this one is nested in.
fn height(model: &Model, id: EpollId) -> usize {
    let parents = model.channels.epolls.keys().copied();
    parents
        .filter(|&parent| parent != id && children(model, parent).contains(&id))
        .map(|parent| 1 + height(model, parent))
        .max()
        .unwrap_or(0)
}

/// `epoll_wait`: at most `max` events, and the ready list turned accordingly.
pub fn collect(model: &mut Model, tid: Tid, id: EpollId, max: usize) -> Vec<Event> {
    enqueue_lazy(model, tid, id);
    let queue = std::mem::take(&mut set_mut(model, id).ready);
    let now = model.clock.now();
    let mut out = Vec::new();
    let (mut left, mut again) = (Vector::new(), Vector::new());
    for key in queue {
        if out.len() == max {
            left.push_back(key);
            continue;
        }
        let ready = model.poll_as(Some(tid), key.1);
        let Some(item) = set_mut(model, id).items.get_mut(&key) else {
            continue;
        };
        let events = ready & item.interest();
        if events.is_empty() {
            continue;
        }
        out.push(Event {
            events: events.bits(),
            data: item.data,
        });
        item.seen = now;
        if item.events & ONESHOT != 0 {
            item.events &= PRIVATE;
        } else if !item.edge_triggered() {
            again.push_back(key);
        }
    }
    // What did not fit comes first next time.
    left.append(again);
    set_mut(model, id).ready = left;
    out
}

fn enqueue_lazy(model: &mut Model, tid: Tid, id: EpollId) {
    let items = set(model, id).items.iter();
    let lazy: Vec<Key> = items
        .filter(|(key, item)| {
            lazily_ready(model, Some(tid), item)
                && model.poll_as(Some(tid), key.1).intersects(item.interest())
        })
        .map(|(&key, _)| key)
        .collect();
    for key in lazy {
        set_mut(model, id).enqueue(key);
    }
}
