//! What happened before what in a walk: vector clocks, and the last accesses to each byte.

use super::atomic_locks::AtomicLocks;
use super::conflicts::{add_site, bytes_of, lend, note_freed, ordered_by_accident, unordered};
use super::race::Side;
use super::{Findings, Known};
use explore::{Access, Footprint};
use hooks::Place;
use session::{Event, Session, Watching};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;
use syscall_model::{Pending, Tid};

pub(super) const WORD: u64 = 8;
/// Words of one access that are looked at.
pub(super) const MOST_WORDS: u64 = 1 << 13;

/// How far each thread has come, as another one knows it.
type Clock = BTreeMap<Tid, u32>;

fn join(clock: &mut Clock, other: &Clock) {
    for (&tid, &time) in other {
        let known = clock.entry(tid).or_insert(0);
        *known = (*known).max(time);
    }
}

/// How far threads have come, and who knows of it by what.
#[derive(Clone, Default)]
struct Order {
    clocks: BTreeMap<Tid, Clock>,
    /// What whoever wrote an object last had seen.
    objects: HashMap<u64, Clock>,
    /// Threads that have ended and were not waited for, by handle.
    ended: HashMap<u64, Clock>,
}

impl Order {
    fn tick(&mut self, tid: Tid) {
        *self.clocks.entry(tid).or_default().entry(tid).or_insert(0) += 1;
    }

    /// An operation that others may be ordered by: whoever looks at an object comes after whoever wrote it. That somebody has looked before puts nobody in
    /// order: a thread that waits for the end of another one has not been waited for by it.
    fn synchronised(&mut self, tid: Tid, footprint: &Footprint) {
        let clock = self.clocks.entry(tid).or_default();
        for (object, access) in footprint.accesses() {
            let written = self.objects.entry(*object).or_default();
            join(clock, written);
            if *access == Access::Write {
                written.clone_from(clock);
            }
        }
    }

    /// An atomic load or store: whoever loads comes after those who stored, but a store comes after nobody.
    fn atomic_access(&mut self, tid: Tid, footprint: &Footprint) {
        let clock = self.clocks.entry(tid).or_default();
        for (object, access) in footprint.accesses() {
            let written = self.objects.entry(*object).or_default();
            match access {
                Access::Write => join(written, clock),
                _ => join(clock, written),
            }
        }
    }

    fn ended(&mut self, tid: Tid, handle: Option<u64>) {
        let Some(clock) = self.clocks.remove(&tid) else {
            return;
        };
        match handle {
            Some(handle) => drop(self.ended.insert(handle, clock)),
            None => self.clocks.values_mut().for_each(|other| join(other, &clock)),
        }
    }

    /// A thread waits for the one with this handle; if that has not ended, it will be seen to wait.
    fn joined(&mut self, waiter: Tid, handle: u64) {
        if let Some(clock) = self.ended.remove(&handle) {
            join(self.clocks.entry(waiter).or_default(), &clock);
        }
    }

    /// Does a thread know of what another one did at this time?
    fn knows(&self, tid: Tid, other: Tid, time: u32) -> bool {
        let clock = self.clocks.get(&tid);
        clock.and_then(|clock| clock.get(&other)).copied().unwrap_or(0) >= time
    }
}

/// The locks that a thread holds, by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    of_library: Arc<BTreeSet<u64>>,
    of_atomics: Arc<BTreeSet<u64>>,
}

impl Held {
    /// Is there a lock of the C library that both hold?
    fn excludes(&self, other: &Held) -> bool {
        !self.of_library.is_disjoint(&other.of_library)
    }

    /// Or one that the program has made of atomic instructions?
    fn excludes_by_atomics(&self, other: &Held) -> bool {
        !self.of_atomics.is_disjoint(&other.of_atomics)
    }
}

/// An access of a thread to some bytes of a word.
#[derive(Clone, Debug)]
pub(super) struct Earlier {
    pub(super) tid: Tid,
    pub(super) time: u32,
    pub(super) side: Side,
    pub(super) own_stack: bool,
    /// One bit for each byte.
    pub(super) bytes: u8,
    pub(super) is_atomic: bool,
    pub(super) in_handler: bool,
    pub(super) held: Held,
}

/// One access while it is compared with the earlier ones.
pub(super) struct Now<'a> {
    pub(super) tid: Tid,
    pub(super) time: u32,
    pub(super) side: Side,
    pub(super) own_stack: bool,
    pub(super) span: &'a Range<u64>,
    pub(super) is_atomic: bool,
    pub(super) in_handler: bool,
    pub(super) held: Held,
}

/// What a walk has seen.
#[derive(Clone, Default)]
pub struct History {
    order: Order,
    /// The same without atomic operations. Whether those of the program really keep its threads in order is what it is checked for.
    without_atomics: Order,
    /// The same without locks, semaphores and files, too. Who was first to take a lock, or what there was to take, is an accident of the schedule: accesses that only
    /// this orders, and that no lock excludes from each other, are as good as unordered in another schedule.
    by_waiting: Order,
    atomic_locks: AtomicLocks,
    /// Who has touched each word, where: all of it, while `words` has the last accesses only.
    touched: BTreeMap<u64, BTreeSet<(Tid, Place)>>,
    /// The locks that each thread holds.
    held: BTreeMap<Tid, Arc<BTreeSet<u64>>>,
    words: BTreeMap<u64, Vec<Earlier>>,
}

impl History {
    /// A thread is about to make its step.
    pub fn before_step(&mut self, session: &Session, tid: Tid, known: &mut Known, found: &mut Findings) {
        for order in [&mut self.order, &mut self.without_atomics, &mut self.by_waiting] {
            order.tick(tid);
        }
        if session.model().thread(tid).pending == Pending::Start
            && let Some(region) = session.sharing().own_region(tid)
        {
            // Another thread may have had this stack before.
            self.renewed(&session.sharing().name_of(tid, &region));
        }
        if let Some((span, site)) = session.sharing().atomic_object(tid) {
            self.atomic_instruction(session, tid, site, &span, known, found);
            if session.sharing().finds_out_by_atomic(tid) {
                self.atomic_locks.before(session, tid, &span);
            }
            return self.order.synchronised(tid, &session.footprints().footprint(tid));
        }
        if let Some(watching) = session.sharing().works_on(tid) {
            note_freed(session, tid, &watching, known, found);
            self.accessed(session, tid, &watching, known, found);
        }
        let Some(watching) = session.sharing().watching(tid) else {
            return self.synchronised(session, tid);
        };
        if known.is_watched(watching.place) && !known.stacks.knows(watching.place) {
            known.stacks.see(session, tid, watching.place);
        }
        note_freed(session, tid, &watching, known, found);
        let is_atomic = self.accessed(session, tid, &watching, known, found);
        if is_atomic {
            self.order
                .atomic_access(tid, &session.footprints().footprint(tid));
        }
        // What is done inside of a function like `pthread_once` comes before what its next caller does.
        let inside = session.footprints().inside(tid);
        self.order.atomic_access(tid, &inside);
        self.without_atomics.atomic_access(tid, &inside);
    }

    /// What happened in the rest of its step.
    pub fn after_step(
        &mut self,
        session: &Session,
        tid: Tid,
        events: Vec<Event>,
        known: &mut Known,
        found: &mut Findings,
    ) {
        self.atomic_locks.after(session);
        for event in events {
            match event {
                Event::Joins { waiter, handle } => self.joined(waiter, handle),
                Event::Renewed(range) => self.renewed(&session.sharing().name_of(tid, &range)),
                Event::Accesses(watching) => {
                    if self.order.clocks.contains_key(&tid) {
                        // What has just been freed is no use of it.
                        if !watching.frees {
                            note_freed(session, tid, &watching, known, found);
                        }
                        self.accessed(session, tid, &watching, known, found);
                    }
                }
            }
        }
    }

    fn synchronised(&mut self, session: &Session, tid: Tid) {
        let footprint = session.footprints().footprint(tid);
        self.order.synchronised(tid, &footprint);
        self.without_atomics.synchronised(tid, &footprint);
        let Some((lock, takes)) = session.sharing().lock_step(tid) else {
            if session.sharing().is_ordered_by_waiting(tid) {
                self.by_waiting.synchronised(tid, &footprint);
            }
            return;
        };
        let held = Arc::make_mut(self.held.entry(tid).or_default());
        if takes {
            held.insert(lock);
        } else {
            held.remove(&lock);
        }
    }

    /// Whoever waits for a thread that has ended already need not make a call for that. Where this is not seen, its end comes before all that
    /// others do from now on; that it does not where nobody waits is for another walk to show, in which it ends later.
    pub fn ended(&mut self, tid: Tid, handle: Option<u64>, joins_are_seen: bool) {
        let handle = handle.filter(|_| joins_are_seen);
        self.order.ended(tid, handle);
        self.without_atomics.ended(tid, handle);
        self.by_waiting.ended(tid, handle);
        self.held.remove(&tid);
        self.atomic_locks.ended(tid);
    }

    fn joined(&mut self, waiter: Tid, handle: u64) {
        self.order.joined(waiter, handle);
        self.without_atomics.joined(waiter, handle);
        self.by_waiting.joined(waiter, handle);
    }

    /// The memory is new: what was done to it belongs to something else.
    fn renewed(&mut self, range: &Range<u64>) {
        let words: Vec<u64> = self
            .words
            .range(range.start & !(WORD - 1)..range.end)
            .map(|(word, _)| *word)
            .collect();
        for word in words {
            self.words.remove(&word);
            self.touched.remove(&word);
        }
    }

    /// What an atomic instruction works on is an atomic object, for plain loads and stores as well (the release of a spin lock).
    fn atomic_instruction(
        &mut self,
        session: &Session,
        tid: Tid,
        site: u64,
        span: &Range<u64>,
        known: &mut Known,
        found: &mut Findings,
    ) {
        if !known.watched.is_atomic(span) {
            let named = session.sharing().name_of(tid, span);
            let words = self.words.range(named.start & !(WORD - 1)..named.end);
            // Plain accesses before this one were not taken for what they are.
            found.has_learned |= words
                .flat_map(|(_, earlier)| earlier)
                .any(|earlier| earlier.tid != tid);
        }
        known.watched.atomic.extend(span.clone());
        let watching = Watching {
            place: Place::Atomic(site),
            spans: vec![(span.clone(), true)],
            own_stack: false,
            frees: false,
        };
        note_freed(session, tid, &watching, known, found);
        self.accessed(session, tid, &watching, known, found);
    }

    /// Compares an access with those before it, and remembers it. Returns whether it is atomic.
    fn accessed(
        &mut self,
        session: &Session,
        tid: Tid,
        watching: &Watching,
        known: &mut Known,
        found: &mut Findings,
    ) -> bool {
        let clock = self.order.clocks.get(&tid);
        let time = clock.and_then(|clock| clock.get(&tid)).copied().unwrap_or(0);
        let held = Held {
            of_library: self.held.get(&tid).cloned().unwrap_or_default(),
            of_atomics: self.atomic_locks.held_by(session, tid),
        };
        let mut any_atomic = false;
        for (span, writes) in &watching.spans {
            let mut now = Now {
                tid,
                time,
                side: Side {
                    place: watching.place,
                    writes: *writes,
                    frees: watching.frees,
                },
                own_stack: watching.own_stack,
                span,
                is_atomic: known.is_atomic(watching.place, span),
                in_handler: session.sharing().is_in_handler(tid),
                held: held.clone(),
            };
            if session
                .sharing()
                .stack_owner(tid, span.start)
                .is_some_and(|owner| owner != tid)
            {
                lend(span, known, found);
            }
            let first = span.start & !(WORD - 1);
            for word in (first..span.end).step_by(WORD as usize).take(MOST_WORDS as usize) {
                self.accessed_word(session, word, &mut now, known, found);
            }
            any_atomic |= now.is_atomic;
        }
        any_atomic
    }

    fn accessed_word(
        &mut self,
        session: &Session,
        word: u64,
        now: &mut Now,
        known: &mut Known,
        found: &mut Findings,
    ) {
        let bytes = bytes_of(now.span, word);
        let name = session.model().memory_name(now.tid, word);
        let touched = self.touched.entry(name).or_default();
        touched.insert((now.tid, now.side.place));
        let earlier = self.words.entry(name).or_default();
        for other in earlier.iter_mut() {
            let meets = other.bytes & bytes != 0 && (other.side.writes || now.side.writes);
            if meets && other.tid == now.tid && other.in_handler != now.in_handler {
                // The handler may have come at another moment, unless the signal was blocked: then the search finds out.
                for (side, own_stack) in [(other.side, other.own_stack), (now.side, now.own_stack)] {
                    add_site(&mut found.atomic_sites, side.place, own_stack);
                }
            }
            if !meets || other.tid == now.tid {
                continue;
            }
            if !self.order.knows(now.tid, other.tid, other.time) {
                unordered(session, word, other, now, known, found);
                continue;
            }
            if self.by_waiting.knows(now.tid, other.tid, other.time) || other.held.excludes(&now.held) {
                continue;
            }
            known.doubtful.extend([other.side.place, now.side.place]);
            let are_kept_apart = self.without_atomics.knows(now.tid, other.tid, other.time)
                || other.held.excludes_by_atomics(&now.held);
            ordered_by_accident(session, word, other, now, are_kept_apart, known, found);
            if now.side.frees {
                let theirs = touched.iter().filter(|(tid, _)| *tid == other.tid);
                known.doubtful.extend(theirs.map(|(_, place)| *place));
            }
        }
        let is_replaced = |other: &Earlier| {
            other.tid == now.tid
                && other.side.writes == now.side.writes
                && other.in_handler == now.in_handler
                && other.bytes & !bytes == 0
        };
        earlier.retain(|other| !is_replaced(other));
        earlier.push(Earlier {
            tid: now.tid,
            time: now.time,
            side: now.side,
            own_stack: now.own_stack,
            bytes,
            is_atomic: now.is_atomic,
            in_handler: now.in_handler,
            held: now.held.clone(),
        });
    }
}
