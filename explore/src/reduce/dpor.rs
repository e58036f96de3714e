//! Dynamic partial-order reduction after Flanagan and Godefroid (POPL 2005).
//!
//! At every state of the path, for every pending operation (blocked ones too: a lock that is held would otherwise never be seen to compete), find
//! the last executed operation that is dependent with it and does not happen before it. These two could come in the other order; so at the
//! state before that operation, a thread that leads there must be explored as well. If none of them can run there, all that can do.
//!
//! Happens-before is kept in vector clocks over the executed footprints. Two additions to the paper:
//! - an operation has several alternatives: a thread is explored with all of them, and "can run there" means the very same alternative;
//! - what an operation performed may be more than what it announced (a crash): what it performed is looked at too, right after it.

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
        announced: &Footprint,
        performed: &Footprint,
        killed: &[u32],
    ) -> Vec<Backtrack> {
        self.truncate(length);
        let past = self.past_of(choice.thread);
        let mut found = Vec::new();
        if !announced.covers(performed) {
            found.extend(self.reversal(choice, performed, &past));
        }
        if let Some(node) = self.stops[length].node {
            found.extend(killed.iter().map(|&thread| Backtrack {
                node,
                one_of: vec![thread],
            }));
        }
        let mut clock = past;
        self.join_dependent(&mut clock, performed);
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
        for pending in menu.choices.iter().chain(&menu.blocked) {
            found.extend(self.races_of(pending));
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

    fn races_of(&self, pending: &Candidate) -> Option<Backtrack> {
        let last = self.events.last()?;
        let thread = pending.choice.thread;
        let past = self.past_of(thread);
        let unchanged = last.choice.thread != thread
            && self.stops.last().is_some_and(|before| {
                before.menu.choices.contains(pending) || before.menu.blocked.contains(pending)
            });
        // Nothing changed for this operation, except that there is one event more: earlier ones were compared at the state before.
        if unchanged && !last.footprint.conflicts(&pending.footprint) {
            return None;
        }
        self.reversal(pending.choice, &pending.footprint, &past)
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

    /// The last event that races with an operation, and what to explore before it.
    fn reversal(&self, choice: Choice, footprint: &Footprint, past: &Clock) -> Option<Backtrack> {
        let races = |position: usize| {
            let event = &self.events[position];
            event.choice.thread != choice.thread && past.get(event.choice.thread) <= position
        };
        let position = if footprint.is_global() {
            (0..self.events.len()).rev().find(|&p| races(p))
        } else {
            let in_object = |&(object, access): &(u64, Access)| {
                let list = self.objects.get(&object)?;
                let conflicting = |e: &&(usize, bool)| e.1 || access == Access::Write;
                list.iter()
                    .rev()
                    .filter(conflicting)
                    .map(|e| e.0)
                    .find(|&p| races(p))
            };
            let in_objects = footprint.accesses().iter().filter_map(in_object).max();
            in_objects.max(self.globals.iter().rev().copied().find(|&p| races(p)))
        }?;
        let node = self.stops[position].node?;
        Some(Backtrack {
            node,
            one_of: self.ways_to(choice, past, position),
        })
    }

    /// Threads that can run before the event at `position` and lead towards `choice` without it; all that can run if there is none.
    fn ways_to(&self, choice: Choice, past: &Clock, position: usize) -> Vec<u32> {
        let enabled = &self.stops[position].menu;
        let mut ways = Vec::new();
        for &(thread, known) in &past.0 {
            // Events of this thread after `position` are in the past of the operation; the first of them must be possible there.
            if known > position + 1
                && let Some(first) = self.first_after(thread, position)
                && enabled.position(self.events[first].choice).is_some()
            {
                ways.push(thread);
            }
        }
        let moved = self.first_after(choice.thread, position).is_some();
        if !moved && enabled.position(choice).is_some() {
            ways.push(choice.thread);
        }
        ways
    }

    fn first_after(&self, thread: u32, position: usize) -> Option<usize> {
        let list = self.threads.get(&thread)?;
        list.get(list.partition_point(|&p| p <= position)).copied()
    }
}
