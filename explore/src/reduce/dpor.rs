//! Dynamic partial-order reduction with source sets (Abdulla, Aronis, Jonsson, Sagonas: *Source sets*, JACM 2017), which grew out of the one by Flanagan
//! and Godefroid (POPL 2005).
//!
//! When an operation is executed, look at every executed operation that is dependent with it and did not have to come before it. These two could
//! come in the other order; so at the state before the earlier one, a thread that can begin a way to the later one must be explored as well. If
//! no such thread can run there, all that can do.
//!
//! Happens-before is kept in vector clocks over the footprints that were performed, so an operation that did more than it had announced (a
//! crash) needs no special care. What differs from the papers:
//! - Operations can block. A blocked one is treated at every state as if it were executed there: a lock that is held would otherwise never be seen to
//!   compete if it is never released. And since the release of a lock hides its acquisition from the next acquisition, though only the two
//!   acquisitions can be reversed, not only the latest operation of a chain of dependent ones is looked at, but all.
//! - An operation may have several alternatives: a thread is explored with all of them, and "can run there" means the very same alternative.
//! - Flanagan and Godefroid look at the last race of each pending operation only, and allow any thread on the way. Together with sleep sets that loses
//!   schedules: the thread that would lead to the next race may be asleep.

use crate::tree::NodeId;
use crate::{Access, Candidate, Choice, Footprint, Menu};
use hashbrown::HashMap;

/// For each thread, how much of its past is known: the position of its last known event, plus one.
#[derive(Clone, Debug, Default)]
struct Clock(Vec<(u32, usize)>);

impl Clock {
    fn get(&self, thread: u32) -> usize {
        self.0.iter().find(|e| e.0 == thread).map_or(0, |e| e.1)
    }

    fn raise(&mut self, thread: u32, to: usize) {
        match self.0.iter_mut().find(|e| e.0 == thread) {
            Some(entry) => entry.1 = entry.1.max(to),
            None => self.0.push((thread, to)),
        }
    }

    fn join(&mut self, other: &Clock) {
        for &(thread, to) in &other.0 {
            self.raise(thread, to);
        }
    }
}

struct Event {
    choice: Choice,
    footprint: Footprint,
    clock: Clock,
}

/// A state on the current path.
struct Stop {
    node: Option<NodeId>,
    menu: Menu,
}

/// More to explore at a node of the path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Backtrack {
    pub node: NodeId,
    /// One of these threads must be explored.
    pub one_of: Vec<u32>,
}

/// The current path, with what is needed to find races on it.
#[derive(Default)]
pub(crate) struct Dpor {
    stops: Vec<Stop>,
    events: Vec<Event>,
    /// For each object the events that touch it, in order, and whether they write.
    objects: HashMap<u64, Vec<(usize, bool)>>,
    globals: Vec<usize>,
    threads: HashMap<u32, Vec<usize>>,
    /// Threads and the number of events before they were first seen.
    births: Vec<(u32, usize)>,
}

impl Dpor {
    /// Forgets everything after the `length`-th event of the path.
    fn truncate(&mut self, length: usize) {
        while self.events.len() > length {
            let position = self.events.len() - 1;
            let Some(event) = self.events.pop() else { return };
            for (object, _) in event.footprint.accesses() {
                if let Some(list) = self.objects.get_mut(object) {
                    list.pop();
                }
            }
            if event.footprint.is_global() {
                self.globals.pop();
            }
            if let Some(list) = self.threads.get_mut(&event.choice.thread) {
                list.pop();
            }
            self.births.retain(|birth| birth.1 <= position);
        }
        self.stops.truncate(length + 1);
    }

    /// The path is back at its `length`-th state, where `choice` has now been executed. `killed` are the threads that were enabled
    /// before and are gone.
    pub fn executed(
        &mut self,
        length: usize,
        choice: Choice,
        performed: &Footprint,
        killed: &[u32],
    ) -> Vec<Backtrack> {
        self.truncate(length);
        let past = self.past_of(choice.thread);
        let mut clock = past.clone();
        self.join_dependent(&mut clock, performed);
        let mut found = self.reversals(choice, performed, &past, &clock);
        if let Some(node) = self.stops[length].node {
            found.extend(killed.iter().map(|&thread| Backtrack {
                node,
                one_of: vec![thread],
            }));
        }
        clock.raise(choice.thread, length + 1);
        for &(object, access) in performed.accesses() {
            self.objects
                .entry(object)
                .or_default()
                .push((length, access == Access::Write));
        }
        if performed.is_global() {
            self.globals.push(length);
        }
        self.threads.entry(choice.thread).or_default().push(length);
        self.events.push(Event {
            choice,
            footprint: performed.clone(),
            clock,
        });
        found
    }

    /// The path has reached a state. Returns where the pending operations ask for more.
    pub fn reached(&mut self, menu: &Menu) -> Vec<Backtrack> {
        let length = self.events.len();
        for pending in menu.choices.iter().chain(&menu.blocked) {
            let thread = pending.choice.thread;
            if !self.births.iter().any(|birth| birth.0 == thread) {
                self.births.push((thread, length));
            }
        }
        let mut found = Vec::new();
        for pending in &menu.blocked {
            found.extend(self.races_of_blocked(pending));
        }
        self.stops.push(Stop {
            node: None,
            menu: menu.clone(),
        });
        found
    }

    /// The state that was reached last has become a node.
    pub fn placed(&mut self, node: NodeId) {
        if let Some(stop) = self.stops.last_mut() {
            stop.node = Some(node);
        }
    }

    fn races_of_blocked(&self, pending: &Candidate) -> Vec<Backtrack> {
        let Some(last) = self.events.last() else {
            return Vec::new();
        };
        let before = self.stops.last().map(|stop| &stop.menu.blocked);
        // Nothing changed for this operation: it was compared at the state before.
        if before.is_some_and(|blocked| blocked.contains(pending))
            && !last.footprint.conflicts(&pending.footprint)
        {
            return Vec::new();
        }
        let past = self.past_of(pending.choice.thread);
        let mut known = past.clone();
        self.join_dependent(&mut known, &pending.footprint);
        self.reversals(pending.choice, &pending.footprint, &past, &known)
    }

    /// What a thread knows before its next operation.
    fn past_of(&self, thread: u32) -> Clock {
        if let Some(&last) = self.threads.get(&thread).and_then(|list| list.last()) {
            return self.events[last].clock.clone();
        }
        // A thread that was not there at first was made by the event before it appeared.
        match self.births.iter().find(|birth| birth.0 == thread) {
            Some(&(_, born)) if born > 0 => self.events[born - 1].clock.clone(),
            _ => Clock::default(),
        }
    }

    fn join_dependent(&self, clock: &mut Clock, footprint: &Footprint) {
        if footprint.is_global() {
            for list in self.threads.values() {
                if let Some(&last) = list.last() {
                    clock.join(&self.events[last].clock);
                }
            }
            return;
        }
        if let Some(&global) = self.globals.last() {
            clock.join(&self.events[global].clock);
        }
        for (object, access) in footprint.accesses() {
            for &(position, writes) in self.objects.get(object).into_iter().flatten().rev() {
                if writes || *access == Access::Write {
                    clock.join(&self.events[position].clock);
                }
                // Whatever is before a write is in the clock of that write.
                if writes {
                    break;
                }
            }
        }
    }

    /// Whether an event is neither by a thread nor in its past.
    fn races(&self, position: usize, thread: u32, past: &Clock) -> bool {
        let other = self.events[position].choice.thread;
        other != thread && past.get(other) <= position
    }

    /// The events that race with an operation, and what to explore before each. `past`: what its thread knew before it; `known`: what must come before
    /// it in this path.
    fn reversals(
        &self,
        choice: Choice,
        footprint: &Footprint,
        past: &Clock,
        known: &Clock,
    ) -> Vec<Backtrack> {
        let mut conflicting: Vec<usize> = if footprint.is_global() {
            (0..self.events.len()).collect()
        } else {
            let in_object = |&(object, access): &(u64, Access)| {
                let list = self.objects.get(&object).into_iter().flatten();
                list.filter(move |e| e.1 || access == Access::Write).map(|e| e.0)
            };
            footprint
                .accesses()
                .iter()
                .flat_map(in_object)
                .chain(self.globals.iter().copied())
                .collect()
        };
        conflicting.sort_unstable();
        conflicting.dedup();
        let mut found = Vec::new();
        for position in conflicting.into_iter().rev() {
            if self.races(position, choice.thread, past)
                && let Some(node) = self.stops[position].node
            {
                found.push(Backtrack {
                    node,
                    one_of: self.ways_to(choice, known, position),
                });
            }
        }
        found
    }

    /// Threads that can run before the event at `position` and begin a way to `choice` without it; none if there is no such thread.
    ///
    /// The way is what is known to come before `choice`, from `position` on, and not because of the event there. It can begin only with an event that depends on no other event of the way.
    fn ways_to(&self, choice: Choice, known: &Clock, position: usize) -> Vec<u32> {
        let enabled = &self.stops[position].menu;
        let avoided = self.events[position].choice.thread;
        let on_the_way = |&(thread, known): &(u32, usize)| {
            let first = self
                .first_after(thread, position)
                .filter(|&first| known > first)?;
            (self.events[first].clock.get(avoided) <= position).then_some(first)
        };
        let firsts: Vec<usize> = known.0.iter().filter_map(on_the_way).collect();
        if firsts.is_empty() {
            let possible = enabled.position(choice).is_some();
            return if possible { vec![choice.thread] } else { Vec::new() };
        }
        let begins = |&first: &usize| {
            let event = &self.events[first];
            let alone = firsts
                .iter()
                .all(|&f| f == first || event.clock.get(self.events[f].choice.thread) <= f);
            alone && enabled.position(event.choice).is_some()
        };
        firsts
            .iter()
            .copied()
            .filter(begins)
            .map(|first| self.events[first].choice.thread)
            .collect()
    }

    fn first_after(&self, thread: u32, position: usize) -> Option<usize> {
        let list = self.threads.get(&thread)?;
        list.get(list.partition_point(|&p| p <= position)).copied()
    }
}
