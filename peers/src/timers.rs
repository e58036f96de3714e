//! Peers that go on by themselves: a server that answers when a timer of its event loop runs out looks, until then, like one that waits for input.
//!
//! Most time limits of event loops are housekeeping, so an answer is not held up by them. But a program that can do nothing more is not deadlocked, and its
//! own time limit not over, before the timers of its peers had their chance: then they are waited for, in the peers' time. That is counted in the time
//! limits that have run out, not on the clock, so that it does not depend on how busy the machine is. What comes is put down as a late answer, and where
//! nothing comes that is remembered too.

use crate::answer::Answer;
use crate::error::PeerError;
use crate::inspect::Doing;
use crate::physical::Physical;
use crate::settle::Ground;
use crate::state::{Instance, PeerState};
use crate::tree::{At, Pos, Tree};
use crate::world::{Config, PeerWorld};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// So many of a peer's time limits in a row may run out without a word.
const IN_VAIN: u32 = 10;
/// A shorter limit counts as much: one of nothing at all would never add up to anything.
const SHORTEST: Duration = Duration::from_millis(1);
/// So often a peer is waited for at one place of a conversation. One that goes on for ever has no last word.
const ANSWERS: u32 = 16;
/// All that is ever waited in vain, for all peers.
const BUDGET: Duration = Duration::from_secs(60);

/// What is known of a peer's timers at one place of a conversation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timer {
    /// One was running when the peer came to rest.
    pub(crate) is_running: bool,
    /// Nothing comes within this time.
    silence: Duration,
    /// How often something came.
    answers: u32,
}

impl Timer {
    /// Of a conversation that was read from a file.
    pub(crate) fn unknown() -> Timer {
        Timer {
            is_running: true,
            ..Timer::default()
        }
    }
}

impl Tree {
    pub(crate) fn timer(&mut self, pos: Pos) -> Option<&mut Timer> {
        let mark = self.nodes[pos.node as usize].marks.get_mut(pos.offset)?;
        Some(&mut mark.timer)
    }
}

impl Ground {
    /// A timer of the peer runs, one that is waited for if need be.
    pub(crate) fn has_timer(&mut self, focus: &mut Physical, config: &Config) -> bool {
        let timer = self.watch(focus).and_then(|watch| watch.next_timer());
        timer.is_some_and(|timer| timer <= config.sleep_bound)
    }

    /// Waits until the peer has moved, which it does when the time limit `timer` has run out at the latest, and rests again.
    fn outlast(
        &mut self,
        focus: &mut Physical,
        others: &mut BTreeMap<u64, Physical>,
        config: &Config,
        name: &str,
        timer: Duration,
    ) -> Result<Answer, PeerError> {
        let start = Instant::now();
        let first = self.watch(focus).map(|watch| watch.inspect().1);
        let mut rounds = 0;
        // The bound is for a peer that is stopped, or that nobody gives a processor.
        while start.elapsed() < timer + config.hang_bound {
            let moved = self.watch(focus).zip(first.as_ref());
            let moved = moved.is_none_or(|(watch, first)| !watch.unmoved_since(first));
            if moved || self.pump(focus, others, config.flood_limit) || config.time_budget.is_over() {
                break;
            }
            self.pause(focus, rounds, Doing::Waiting, config);
            rounds += 1;
        }
        self.wait_for_answer(focus, others, config, name)
    }
}

impl PeerWorld {
    /// The program waits for its peers, and would go on after `limit` without them: gives those of them whose timers run so much of their own time; true if one said something.
    ///
    /// # Errors
    /// A peer failed.
    pub(crate) fn wait_for_timers(&mut self, state: &PeerState, limit: Duration) -> Result<bool, PeerError> {
        // Those that have yet to come may also be waiting for a time.
        let callers = match state.0.listening.is_empty() {
            true => 0,
            false => self.client_count(),
        };
        let places = state.0.places.keys().cloned();
        let instances: BTreeSet<Instance> = places.chain((0..callers).map(Instance::Client)).collect();
        for instance in &instances {
            let (tree, at) = self.locate(state, instance);
            let can_say_more = self.trees[tree].exit(at.pos).is_none() && !state.has_left(instance);
            if can_say_more && self.wait_for_timer(tree, at, limit)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn wait_for_timer(&mut self, tree: usize, at: At, limit: Duration) -> Result<bool, PeerError> {
        let limit = limit.min(self.config.sleep_bound);
        let worth_while =
            |timer: &mut Timer| timer.is_running && timer.silence < limit && timer.answers < ANSWERS;
        if self.config.offline
            || self.waited_in_vain > BUDGET
            || !self.trees[tree].timer(at.pos).is_some_and(worth_while)
        {
            return Ok(false);
        }
        let before = self.counters.late_answers;
        let id = self.ensure_at(tree, at)?;
        if self.counters.late_answers > before {
            return Ok(true);
        }
        // Out of the map while it is dealt with: if that fails, it is closed.
        let Some(mut physical) = self.pool.physicals.remove(&id) else {
            return Ok(false);
        };
        let start = Instant::now();
        let said = self.hear_timers(&mut physical, limit)?;
        self.pool.physicals.insert(id, physical);
        if said.is_empty() {
            self.waited_in_vain += start.elapsed();
            if let Some(timer) = self.trees[tree].timer(at.pos) {
                timer.silence = limit;
            }
            return Ok(false);
        }
        self.put_down_late(tree, at.pos, &said)?;
        if let Some(timer) = self.trees[tree].timer(at.pos) {
            timer.answers += 1;
        }
        Ok(true)
    }

    /// What the peer says when its timers run out within `limit`, at the first of them that lets it say anything.
    fn hear_timers(&mut self, physical: &mut Physical, limit: Duration) -> Result<Answer, PeerError> {
        let name = self.trees.key(physical.tree).to_string();
        let mut passed = Duration::ZERO;
        for _ in 0..IN_VAIN {
            let timer = self.ground.watch(physical).and_then(|watch| watch.next_timer());
            let Some(timer) = timer.filter(|timer| passed + *timer <= limit) else {
                break;
            };
            let others = &mut self.pool.physicals;
            let said = self
                .ground
                .outlast(physical, others, &self.config, &name, timer)?;
            if !said.is_empty() {
                return Ok(said);
            }
            passed += timer.max(SHORTEST);
        }
        Ok(Answer::default())
    }
}
