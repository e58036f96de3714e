//! Dynamic partial-order reduction with source sets (Abdulla, Aronis, Jonsson, Sagonas: *Source sets*, JACM 2017), which grew out of the one by Flanagan
//! and Godefroid (POPL 2005).
//!
//! When an operation is executed, look at every executed operation that is dependent with it and did not have to come before it. These two could
//! come in the other order; so at the state before the earlier one, a thread that can begin a way to the later one must be explored as well. If
//! no such thread can run there, all that can do.
//!
//! Happens-before is kept in vector clocks over the footprints that were performed, so an operation that did more than it had announced (a
//! crash) needs no special care. What differs from the papers:
//! - Operations can block. One that is still blocked where a path ends is treated as if it were executed there: a lock that is held would otherwise never
//!   be seen to compete if it is never released. And since the release of a lock hides its acquisition from the next acquisition, though only the two
//!   acquisitions can be reversed, not only the latest operation of a chain of dependent ones is looked at, but all.
//! - What one operation hands over to the other (a lock, the end of a thread) makes no race: see [`Footprint::hands_over_to`]. Without that, the thread to which
//!   it is handed would be tried before, come to where it must wait, and find the one that it waits for asleep.
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

/// One access to an object.
struct Touch {
    event: usize,
    writes: bool,
    /// The last write before it, as a position in the same list.
    write_before: Option<usize>,
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
    /// Unless one of these choices is, or need not be.
    pub covered_by: Vec<Choice>,
    /// The operations that lead from there to the one that is to come earlier, with it.
    pub way: Vec<Choice>,
}

/// The current path, with what is needed to find races on it.
#[derive(Default)]
pub(crate) struct Dpor {
    stops: Vec<Stop>,
    events: Vec<Event>,
    /// For each object the events that touch it, in order.
    objects: HashMap<u64, Vec<Touch>>,
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

    /// The path is back at its `length`-th state, where `choice` has now been executed. `gone`: the path ends with it, and these threads, which were
    /// enabled before, are gone.
    pub fn executed(
        &mut self,
        length: usize,
        choice: Choice,
        performed: &Footprint,
        gone: Option<&[u32]>,
    ) -> Vec<Backtrack> {
        self.truncate(length);
        let past = self.past_of(choice.thread);
        let mut clock = past.clone();
        self.join_dependent(&mut clock, performed);
        let mut found = self.reversals(choice, performed, &past);
        if let Some(gone) = gone {
            // What was blocked may be gone too, and would not be seen after the step.
            found.extend(self.blocked_to_the_end());
            let here = self.stops[length].node;
            found.extend(gone.iter().filter_map(|&t| {
                Some(Backtrack {
                    node: here?,
                    one_of: vec![t],
                    covered_by: Vec::new(),
                    way: Vec::new(),
                })
            }));
        }
        clock.raise(choice.thread, length + 1);
        for &(object, access) in performed.accesses() {
            let list = self.objects.entry(object).or_default();
            let (write_before, writes) = (last_write(list), access == Access::Write);
            list.push(Touch {
                event: length,
                writes,
                write_before,
            });
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

    /// The path has reached a state.
    pub fn reached(&mut self, menu: &Menu) {
        let length = self.events.len();
        for pending in menu.choices.iter().chain(&menu.blocked) {
            let thread = pending.choice.thread;
            if !self.births.iter().any(|birth| birth.0 == thread) {
                self.births.push((thread, length));
            }
        }
        self.stops.push(Stop {
            node: None,
            menu: menu.clone(),
        });
    }

    /// The path is not followed beyond the state that was reached last. Returns where the operations that are blocked there ask for more.
    pub fn blocked_to_the_end(&self) -> Vec<Backtrack> {
        let blocked = self.stops.last().map_or(&[][..], |stop| &stop.menu.blocked);
        blocked
            .iter()
            .flat_map(|pending| self.races_of_blocked(pending))
            .collect()
    }

    /// The state that was reached last has become a node.
    pub fn placed(&mut self, node: NodeId) {
        if let Some(stop) = self.stops.last_mut() {
            stop.node = Some(node);
        }
    }

    fn races_of_blocked(&self, pending: &Candidate) -> Vec<Backtrack> {
        let past = self.past_of(pending.choice.thread);
        self.reversals(pending.choice, &pending.footprint, &past)
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
            let Some(list) = self.objects.get(object) else {
                continue;
            };
            // Whatever is before a write is in the clock of that write.
            let write = last_write(list);
            let since = match access {
                Access::Write => write.unwrap_or(0)..list.len(),
                Access::Read => write.map_or(0..0, |w| w..w + 1),
            };
            for touch in &list[since] {
                clock.join(&self.events[touch.event].clock);
            }
        }
    }

    /// Whether an event is neither by a thread nor in its past.
    fn races(&self, position: usize, thread: u32, past: &Clock) -> bool {
        let other = self.events[position].choice.thread;
        other != thread && past.get(other) <= position
    }

    /// The events that race with an operation, and what to explore before each. `past`: what its thread knew before it.
    fn reversals(&self, choice: Choice, footprint: &Footprint, past: &Clock) -> Vec<Backtrack> {
        let mut conflicting = Vec::new();
        if footprint.is_global() {
            let unknown =
                |(&thread, list): (&u32, &Vec<usize>)| list.partition_point(|&p| p < past.get(thread));
            conflicting = self
                .threads
                .iter()
                .flat_map(|t| t.1[unknown(t)..].iter().copied())
                .collect();
        }
        for &(object, access) in footprint.accesses() {
            self.unordered_touches(object, access, choice.thread, past, &mut conflicting);
        }
        // Global events are ordered among themselves: before one that is known, all are.
        let globals = self.globals.iter().rev().copied();
        conflicting.extend(globals.take_while(|&p| self.races(p, choice.thread, past)));
        conflicting.sort_unstable();
        conflicting.dedup();
        let mut found = Vec::new();
        for position in conflicting.into_iter().rev() {
            if self.races(position, choice.thread, past)
                && !self.events[position].footprint.hands_over_to(footprint)
                && let Some(node) = self.stops[position].node
            {
                let known = self.known_without(position, footprint, past);
                let Some(one_of) = self.ways_to(choice, &known, position) else {
                    continue;
                };
                found.push(Backtrack {
                    node,
                    one_of,
                    covered_by: self.beginnings(position),
                    way: self.way_to(choice, &known, position),
                });
            }
        }
        found
    }

    /// Whether an event does not come because of the one at `position`, which is earlier.
    fn is_free_of(&self, event: usize, position: usize) -> bool {
        self.events[event].clock.get(self.events[position].choice.thread) <= position
    }

    /// What must come before an operation, if the event at `position` and all that comes because of it did not happen.
    fn known_without(&self, position: usize, footprint: &Footprint, past: &Clock) -> Clock {
        let mut known = past.clone();
        let mut join = |event: usize| {
            let after = event > position && self.is_free_of(event, position);
            if after && self.events[event].footprint.conflicts(footprint) {
                known.join(&self.events[event].clock);
            }
        };
        if footprint.is_global() {
            (position + 1..self.events.len()).for_each(join);
            return known;
        }
        for (object, _) in footprint.accesses() {
            let touches = self.objects.get(object).map_or(&[][..], Vec::as_slice);
            let events = touches.iter().rev().map(|touch| touch.event);
            events.take_while(|&event| event > position).for_each(&mut join);
        }
        let globals = self.globals.iter().rev().copied();
        globals.take_while(|&event| event > position).for_each(join);
        known
    }

    /// The operations that all that does not come because of the event at `position` can begin with: if one of them is explored there, or need not be,
    /// then so is the rest after it.
    fn beginnings(&self, position: usize) -> Vec<Choice> {
        let firsts = self.threads.keys().filter_map(|&thread| {
            let first = self.first_after(thread, position)?;
            self.is_free_of(first, position).then_some(first)
        });
        let firsts: Vec<usize> = firsts.collect();
        let begins = |&&first: &&usize| {
            let clock = &self.events[first].clock;
            let mut others = firsts.iter().filter(|&&other| other != first);
            others.all(|&other| clock.get(self.events[other].choice.thread) <= other)
        };
        firsts
            .iter()
            .filter(begins)
            .map(|&first| self.events[first].choice)
            .collect()
    }

    /// Collects the events that conflict with an access to an object and may race with it. Before a write that is known, all are known.
    fn unordered_touches(
        &self,
        object: u64,
        access: Access,
        thread: u32,
        past: &Clock,
        into: &mut Vec<usize>,
    ) {
        let Some(list) = self.objects.get(&object) else {
            return;
        };
        let mut next = match access {
            Access::Write => list.len().checked_sub(1),
            Access::Read => last_write(list),
        };
        while let Some(touch) = next.map(|i| &list[i]) {
            let races = self.races(touch.event, thread, past);
            if races {
                into.push(touch.event);
            } else if touch.writes {
                return;
            }
            next = match access {
                Access::Write => next.and_then(|i| i.checked_sub(1)),
                Access::Read => touch.write_before,
            };
        }
    }

    /// Threads that can run before the event at `position` and begin a way to `choice` without it; an empty list if there is no such thread.
    ///
    /// The way is what is known to come before `choice`, from `position` on, and not because of the event there. It can begin only
    /// with an event that depends on no other event of the way.
    ///
    /// `None` if the two cannot be reversed: nothing but the event stands between its state and `choice`, which was blocked there. So the event
    /// enabled it (the release of a lock its acquisition, the end of a thread its join), and whatever else might enable it is in conflict with it and
    /// a race of its own. Were everything explored there instead, each hand-over of a lock would cost a try of every thread, which sleep sets cut
    /// only after a few steps. Fairness also keeps threads from running, by no object that others touch: global operations are not treated so.
    fn ways_to(&self, choice: Choice, known: &Clock, position: usize) -> Option<Vec<u32>> {
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
            let mut blocked = enabled.blocked.iter();
            if blocked.any(|pending| pending.choice.thread == choice.thread && !pending.footprint.is_global())
            {
                return None;
            }
            let possible = enabled.position(choice).is_some();
            return Some(if possible { vec![choice.thread] } else { Vec::new() });
        }
        let begins = |&first: &usize| {
            let event = &self.events[first];
            let alone = firsts
                .iter()
                .all(|&f| f == first || event.clock.get(self.events[f].choice.thread) <= f);
            alone && enabled.position(event.choice).is_some()
        };
        let begin = firsts.iter().copied().filter(begins);
        Some(begin.map(|first| self.events[first].choice.thread).collect())
    }

    /// What comes before `choice`, from `position` on and not because of the event there, and `choice` itself. It only guides the search, so none is given
    /// where it would be long.
    fn way_to(&self, choice: Choice, known: &Clock, position: usize) -> Vec<Choice> {
        const LONG: usize = 256;
        if self.events.len() - position > LONG {
            return Vec::new();
        }
        let is_needed =
            |&at: &usize| known.get(self.events[at].choice.thread) > at && self.is_free_of(at, position);
        let way = (position + 1..self.events.len()).filter(is_needed);
        way.map(|at| self.events[at].choice).chain([choice]).collect()
    }

    fn first_after(&self, thread: u32, position: usize) -> Option<usize> {
        let list = self.threads.get(&thread)?;
        list.get(list.partition_point(|&p| p <= position)).copied()
    }
}

/// The position of the last write in a list of accesses.
fn last_write(list: &[Touch]) -> Option<usize> {
    let last = list.last()?;
    if last.writes {
        Some(list.len() - 1)
    } else {
        last.write_before
    }
}
