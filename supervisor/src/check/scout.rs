//! Which memory do threads share without an order? Found out by a few executions in which every load and store is watched.
//!
//! `--preempt auto` parks threads where `sync` does, and also before the loads and stores that matter: those of memory that two threads access, one of
//! them writing, with no lock, atomic instruction, start or end of a thread to order them. Which these are cannot be read off the code, so before the search
//! some walks are made as under `--preempt memory`, with vector clocks. Most programs have no such accesses, and are searched as under `sync`.
//!
//! Whatever two accesses have between them counts as an order if it is an operation on an object that both threads touched: this is the happens-before relation
//! of race detectors. It depends on the schedule, so each walk has another one. How long a walk may be is counted in stops, not in time: the same
//! program is searched in the same way everywhere.

use crate::error::Failure;
use crate::hooks::Preempt;
use crate::session::{Options, Session, Span};
use explore::{Access, Footprint};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use syscall_model::Tid;

/// Executions without anything new that end it, while nothing was found at all, and afterwards: where something is shared, more may be behind it.
const WALKS: u64 = 3;
const MORE_WALKS: u64 = 12;
/// But not more than these.
const MOST_WALKS: u64 = 60;
/// Steps of each, at most.
const STEPS: u32 = 4_000;
/// Stops of each at loads and stores that nobody else can see.
const STOPS: u64 = 20_000;
/// In the first walk a thread goes on as long as it can; in the others it is preempted at one of so many steps.
const PREEMPT_ONE_IN: u32 = 3;
/// How long a thread lets others go first before an access that is known to be shared.
const ASIDE: u32 = 12;
/// But not for longer than this: it may be in a loop that waits for another.
const LONG_RUN: u32 = 100;
/// Pairs that are named to the user; all of them are parking points.
const NAMED: usize = 20;

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Sharing {
    /// The instructions.
    pub sites: BTreeSet<u64>,
    /// The pairs, in words.
    pub races: Vec<Race>,
    /// Words that atomic instructions work on: plain loads and stores of them are atomic too (the release of a spin lock), so they are parking points
    /// and put others in order, but they are no races.
    atomic_words: HashSet<u64>,
}

/// Two accesses that nothing orders.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Race {
    pub object: String,
    pub accesses: [RacingAccess; 2],
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RacingAccess {
    /// `load` or `store`.
    pub kind: &'static str,
    /// Function, file and line, as far as they are known.
    pub at: String,
}

/// Makes the walks. A failure ends them; the search will meet it too, if it is one.
pub fn scout(options: &Options, seed: u64) -> Sharing {
    let mut found = Sharing::default();
    let mut news = 0;
    for walk in 0..MOST_WALKS {
        let patience = if found.sites.is_empty() { WALKS } else { MORE_WALKS };
        if walk >= news + patience || options.bounds.is_over() {
            break;
        }
        let known = found.sites.len();
        let mut options = options.clone();
        options.preempt = Preempt::Memory;
        options.bounds.stops = Some(STOPS);
        if let Err(failure) = walk_once(options, seed, walk, &mut found) {
            tracing::debug!(walk, "the walk ended: {failure}");
        }
        if found.sites.len() > known {
            news = walk + 1;
        }
    }
    found.races.sort();
    found.races.dedup();
    found.races.truncate(NAMED);
    found
}

fn walk_once(options: Options, seed: u64, walk: u64, found: &mut Sharing) -> Result<(), Failure> {
    let mut session = Session::start(options)?;
    let mut history = History::default();
    let mut scheduler = Scheduler {
        random: ChaCha8Rng::seed_from_u64(seed.wrapping_mul(MOST_WALKS).wrapping_add(walk)),
        preempts: walk > 0,
        last: None,
        run: 0,
        aside: None,
    };
    let mut outcome = Ok(());
    for _ in 0..STEPS {
        let Some(tid) = scheduler.next(&session, &found.sites) else {
            break;
        };
        tracing::trace!(walk, tid, access = ?session.plain_access(tid), "a step of a walk");
        history.before_step(&session, tid, found);
        let handle = session.handle(tid);
        let step = session.step(tid);
        if !session.model().threads.contains_key(&tid) {
            history.ended(tid, handle, session.sees_joins());
        }
        for (waiter, handle) in session.take_joins() {
            history.joined(waiter, handle);
        }
        outcome = step.map(drop);
        if outcome.is_err() {
            break;
        }
    }
    session.finish();
    outcome
}

/// Who goes next in a walk.
struct Scheduler {
    random: ChaCha8Rng,
    /// Not in the first walk, in which a thread goes on as long as it can.
    preempts: bool,
    last: Option<Tid>,
    /// Steps in a row of that thread.
    run: u32,
    /// A thread that lets the others go first, and for how many steps more: it stands before an access that is known to be shared, and
    /// the other order is as interesting as the one at hand.
    aside: Option<(Tid, u32)>,
}

impl Scheduler {
    fn next(&mut self, session: &Session, sites: &BTreeSet<u64>) -> Option<Tid> {
        let mut enabled = session.enabled();
        self.aside = self
            .aside
            .and_then(|(tid, steps)| Some((tid, steps.checked_sub(1)?)));
        if let Some((aside, _)) = self.aside
            && enabled.iter().any(|&tid| tid != aside)
        {
            enabled.retain(|&tid| tid != aside);
        }
        let stays = self.last.filter(|tid| enabled.contains(tid));
        let is_shared = |tid: Tid| {
            session
                .plain_access(tid)
                .is_some_and(|(site, _)| sites.contains(&site))
        };
        let others = stays.filter(|_| enabled.len() > 1);
        if let Some(tid) = others
            && self.preempts
            && self.aside.is_none()
            && is_shared(tid)
            && self.one_in(2)
        {
            self.aside = Some((tid, ASIDE));
            enabled.retain(|&other| other != tid);
            return self.take(&enabled);
        }
        if let Some(tid) = stays
            && self.run < LONG_RUN
            && !(self.preempts && self.one_in(PREEMPT_ONE_IN))
        {
            self.run += 1;
            return Some(tid);
        }
        self.take(&enabled)
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.random.next_u32().is_multiple_of(n)
    }

    fn take(&mut self, enabled: &[Tid]) -> Option<Tid> {
        let index = (self.random.next_u32() as usize).checked_rem(enabled.len())?;
        self.run = 0;
        self.last = Some(enabled[index]);
        self.last
    }
}

/// How far each thread has come, as another one knows it.
type Clock = BTreeMap<Tid, u32>;

fn join(clock: &mut Clock, other: &Clock) {
    for (&tid, &time) in other {
        let known = clock.entry(tid).or_insert(0);
        *known = (*known).max(time);
    }
}

/// The last access of a thread to a word, of each kind.
struct Earlier {
    tid: Tid,
    time: u32,
    site: u64,
    writes: bool,
}

/// What a walk has seen.
#[derive(Default)]
struct History {
    clocks: BTreeMap<Tid, Clock>,
    /// What whoever wrote an object last had seen.
    objects: HashMap<u64, Clock>,
    words: HashMap<u64, Vec<Earlier>>,
    /// Threads that have ended and were not waited for, by handle.
    ended: HashMap<u64, Clock>,
}

impl History {
    fn before_step(&mut self, session: &Session, tid: Tid, found: &mut Sharing) {
        *self.clocks.entry(tid).or_default().entry(tid).or_insert(0) += 1;
        found.atomic_words.extend(session.atomic_word(tid));
        let Some((site, spans)) = session.plain_access(tid) else {
            return self.synchronised(tid, &session.footprint(tid));
        };
        let is_atomic = |(span, _): &Span| found.atomic_words.contains(&(span.start & !7));
        let is_atomic = spans.iter().any(is_atomic);
        self.accessed(session, tid, site, &spans, found, is_atomic);
        if is_atomic {
            self.synchronised(tid, &session.footprint(tid));
        }
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

    /// Whoever waits for a thread that has ended already need not make a call for that. Where this is not seen, its end comes before all that
    /// others do from now on; that it does not where nobody waits is for another walk to show, in which it ends later.
    fn ended(&mut self, tid: Tid, handle: Option<u64>, joins_are_seen: bool) {
        let Some(clock) = self.clocks.remove(&tid) else {
            return;
        };
        match handle.filter(|_| joins_are_seen) {
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

    fn accessed(
        &mut self,
        session: &Session,
        tid: Tid,
        site: u64,
        spans: &[Span],
        found: &mut Sharing,
        is_atomic: bool,
    ) {
        const WORD: u64 = 8;
        let time = self.clocks[&tid].get(&tid).copied().unwrap_or(0);
        for (span, writes) in spans {
            let words = (span.start & !(WORD - 1)..span.end).step_by(WORD as usize);
            for word in words.take(64) {
                let known = self.clocks[&tid].clone();
                let earlier = self.words.entry(word).or_default();
                for other in earlier.iter().filter(|other| {
                    other.tid != tid
                        && (other.writes || *writes)
                        && known.get(&other.tid).copied().unwrap_or(0) < other.time
                }) {
                    let is_known = found.sites.contains(&site) && found.sites.contains(&other.site);
                    if !is_known && !is_atomic {
                        let mut accesses = [
                            access_at(session, other.site, other.writes),
                            access_at(session, site, *writes),
                        ];
                        accesses.sort();
                        found.races.push(Race {
                            object: name_of(session, span.start),
                            accesses,
                        });
                    }
                    found.sites.extend([site, other.site]);
                }
                earlier.retain(|other| other.tid != tid || other.writes != *writes);
                earlier.push(Earlier {
                    tid,
                    time,
                    site,
                    writes: *writes,
                });
            }
        }
    }
}

fn access_at(session: &Session, site: u64, writes: bool) -> RacingAccess {
    RacingAccess {
        kind: if writes { "store" } else { "load" },
        at: session.place(site),
    }
}

fn name_of(session: &Session, address: u64) -> String {
    session
        .objects()
        .name(address)
        .unwrap_or_else(|| format!("{address:#x}"))
}
