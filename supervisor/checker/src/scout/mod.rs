//! Which memory do threads share without an order? Found out by executions in which every load and store is watched.
//!
//! `--preempt auto` parks threads where `sync` does, and also before the loads and stores that matter: those of memory that two threads access, one of
//! them writing, with no lock, atomic instruction, start or end of a thread to order them. Which these are cannot be read off the code, so before the search
//! some walks are made as under `--preempt memory`, with vector clocks. Most programs have no such accesses, and are searched as under `sync`.
//!
//! Whatever two accesses have between them counts as an order if it is an operation on an object that both threads touched: this is the happens-before relation
//! of race detectors. It depends on the schedule, so each walk has another one. How long a walk may be is counted in stops, not in time: the same
//! program is searched in the same way everywhere.
//!
//! - `history.rs`: what happened before what in one walk
//! - `atomic_locks.rs`: locks that the program has made of atomic instructions
//! - `conflicts.rs`: two accesses to the same memory, and what comes of it
//! - `race.rs`: what is said of it
//! - `met.rs`: violations that a walk runs into
//! - `scheduler.rs`: who goes next
//! - `walker.rs`: one walk after the other, each from where the program has its second thread
//!
//! What a walk learns only on its way (that an object is atomic, that a variable on a stack was lent to another thread) should have been known from
//! its beginning: such a walk tells of sites, and its races are left for the next one to find.

mod atomic_locks;
mod conflicts;
mod history;
mod met;
mod race;
mod scheduler;
mod walker;

pub use met::Met;
pub use race::{Race, RacingAccess};

use super::{CheckpointChoice, Judge};
use explore::Choice;
use hooks::{Place, Watched};
use race::{Side, Stacks};
use scheduler::Scheduler;
use session::network::Peers;
use session::{Options, Session};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use symbols::{is_go_runtime, is_library_lock, is_rust_library};
use trace::{Violation, ViolationKind};
use walker::Walker;

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
/// Accesses that only atomic operations keep in order are parking points if there are at most so many. Where there are more the program has a runtime of its own
/// (Go's), and walks alone try other orders of them.
const MOST_ENTRUSTED: usize = 64;
/// Pairs that are named to the user; all of them are parking points.
const NAMED: usize = 20;

/// What the walks have found so far.
#[derive(Default)]
pub struct Known {
    pub watched: Watched,
    races: Vec<(Race, [Side; 2])>,
    /// Uses of memory that was freed: these are bugs whatever else a walk learns.
    uses: Vec<(Race, [Side; 2])>,
    named: HashSet<([Side; 2], bool)>,
    /// Accesses that only atomic operations of the program keep in order.
    entrusted: Watched,
    /// Words on stacks that threads other than their owner have accessed.
    lent: BTreeSet<u64>,
    /// Places whose accesses are atomic operations, and those that were found not to be, with the first byte that they accessed.
    atomic_places: HashMap<(Place, u64), bool>,
    stacks: Stacks,
    in_locks: HashMap<Place, bool>,
    /// Violations, one of each kind.
    met: Vec<Met>,
    /// Accesses that only an accident has kept apart so far, such as the order in which a lock was taken: another schedule may show that nothing orders them.
    doubtful: HashSet<Place>,
    /// Where atomic objects are stored to by plain instructions, which other processors may see late: in words, one for each place.
    weak: BTreeMap<Place, String>,
}

/// What one walk finds.
#[derive(Default)]
struct Findings {
    sites: Watched,
    /// Sites of atomic accesses, and of what is wrong in any case.
    atomic_sites: Watched,
    /// Sites of accesses that only atomic operations of the program keep in order.
    entrusted: Watched,
    races: Vec<(Race, [Side; 2])>,
    /// The first of them that is told, and the way to it.
    first_race: Option<(usize, Vec<Choice>)>,
    named: HashSet<([Side; 2], bool)>,
    /// It knows more than it did at its beginning.
    has_learned: bool,
    /// What went wrong, and how the walk came to it.
    violations: Vec<(Violation, Vec<Choice>)>,
}

impl Known {
    fn is_watched(&self, place: Place) -> bool {
        match place {
            Place::Instruction(site) => self.watched.instructions.contains(&site),
            Place::Atomic(_) => false,
            Place::Call(site) | Place::Kernel(site) => self.watched.calls.contains(&site),
        }
    }

    fn is_atomic(&self, place: Place, span: &Range<u64>) -> bool {
        self.watched.is_atomic(span) || self.atomic_places.get(&(place, span.start)) == Some(&true)
    }

    /// Looks into the debug information, once for each place and object.
    fn finds_atomic(&mut self, session: &Session, place: Place, span: &Range<u64>) -> bool {
        if let Some(is_atomic) = self.atomic_places.get(&(place, span.start)) {
            return *is_atomic;
        }
        let is_atomic = match place {
            Place::Instruction(site) => session.explain().is_atomic_access(site, span) == Some(true),
            Place::Atomic(_) => true,
            Place::Call(_) | Place::Kernel(_) => false,
        };
        self.atomic_places.insert((place, span.start), is_atomic);
        is_atomic
    }

    /// Is the access made within a lock of Rust's standard library, or by Go's runtime?
    fn is_in_lock(&mut self, session: &Session, place: Place) -> bool {
        *self.in_locks.entry(place).or_insert_with(|| {
            let frames = session.explain().frames_at(place.lookup());
            let is_call = matches!(place, Place::Call(_) | Place::Kernel(_));
            is_library_lock(&frames) || is_go_runtime(&frames) || (is_call && is_rust_library(&frames))
        })
    }

    /// Is another order of this access worth a try?
    fn is_interesting(&self, place: Place) -> bool {
        self.is_watched(place) || self.doubtful.contains(&place)
    }

    /// How much it is that a search depends on.
    fn size(&self) -> usize {
        self.watched.len() + self.races.len() + self.uses.len() + self.doubtful.len()
    }

    fn take(&mut self, found: Findings) {
        self.watched.merge(found.atomic_sites);
        if found.has_learned {
            return;
        }
        self.watched.merge(found.sites);
        self.entrusted.merge(found.entrusted);
        if self.entrusted.len() <= MOST_ENTRUSTED {
            self.watched.merge(self.entrusted.clone());
        }
        for (race, sides) in found.races {
            if self.named.insert((sides, false)) {
                self.races.push((race, sides));
            }
        }
    }
}

/// Makes walks, as many as it takes, and more when it is asked again.
pub struct Scout {
    options: Options,
    judge: Judge,
    choice: CheckpointChoice,
    seed: u64,
    walks: u64,
    /// Which of them was the first to run into a violation.
    met_after: Option<u64>,
    walker: Option<Walker>,
    /// The program never had a second thread.
    is_alone: bool,
    known: Known,
}

impl Scout {
    pub fn new(options: &Options, mut judge: Judge, choice: CheckpointChoice, seed: u64) -> Self {
        // Walks ask nobody anything.
        judge.properties.expect_client_exit = None;
        Self {
            options: options.clone(),
            judge,
            choice,
            seed,
            walks: 0,
            met_after: None,
            walker: None,
            is_alone: false,
            known: Known::default(),
        }
    }

    /// Makes walks until some in a row have found nothing new. Returns whether there is more to park at than before.
    /// A failure ends a walk; the search will meet it too, if it is one.
    pub fn walk(&mut self, peers: &Peers) -> bool {
        self.options.peers = peers.clone();
        let parked = self.known.watched.len();
        let first = self.walks;
        let mut news = first;
        while self.walks < first + MOST_WALKS {
            let nothing = self.known.watched.is_empty() && self.known.doubtful.is_empty();
            let enough = if nothing { WALKS } else { MORE_WALKS };
            if self.walks >= news + enough || self.options.bounds.is_over() || self.is_alone {
                break;
            }
            let known = self.known.size();
            if self.walk_once() || self.known.size() > known {
                news = self.walks;
            }
        }
        self.walker = None;
        let watched = &self.known.watched;
        tracing::debug!(walks = self.walks, ?watched, "walks are over");
        watched.len() > parked
    }

    /// One walk. Returns whether it has learned something that another one should have known before.
    fn walk_once(&mut self) -> bool {
        let up_to_date = |walker: &Walker| walker.is_up_to_date(&self.known, &self.judge);
        let mut walker = self
            .walker
            .take()
            .filter(up_to_date)
            .unwrap_or_else(|| Walker::new(&self.options, &self.judge, self.choice, &self.known));
        let seed = self.seed.wrapping_mul(1 << 20).wrapping_add(self.walks);
        let scheduler = Scheduler::new(seed, self.walks > 0);
        let mut found = Findings::default();
        let walk = walker.follow(scheduler, &mut self.known, &mut found);
        self.walks += 1;
        let has_learned = found.has_learned;
        for (violation, path) in found.violations.drain(..) {
            // What was not known to be atomic in time may have been taken for a race.
            if !(has_learned && violation.kind == ViolationKind::Race) {
                met::keep(&mut self.known.met, walker.met(violation, path, false));
                self.met_after.get_or_insert(self.walks);
            }
        }
        if let Some((violation, path)) = self.race_by_order(&mut found) {
            met::keep(&mut self.known.met, walker.met(violation, path, true));
        }
        match walk {
            Ok(has_threads) => {
                self.is_alone = !has_threads;
                self.walker = Some(walker);
            }
            // It stands somewhere in the middle of something: the next walk begins with a new one.
            Err(failure) => tracing::debug!(walk = self.walks, "the walk ended: {failure}"),
        }
        self.known.take(found);
        has_learned
    }

    /// Where races are violations: one that a walk has seen by what it knows of the order of its steps.
    fn race_by_order(&self, found: &mut Findings) -> Option<(Violation, Vec<Choice>)> {
        let properties = &self.judge.properties;
        if !properties.races || found.has_learned {
            return None;
        }
        let (number, path) = found.first_race.take()?;
        let (race, sides) = found.races.get(number)?;
        let mut race = race.clone();
        self.known.stacks.fill(&mut race, sides);
        (!properties.suppressions.hide_race(&race)).then(|| (race.violation(), path))
    }

    /// How many walks there were.
    pub fn walks(&self) -> u64 {
        self.walks
    }

    /// How many there were when one ran into a violation.
    pub fn met_after(&self) -> Option<u64> {
        self.met_after
    }

    /// Violations that walks have run into, one of each kind.
    pub fn met(&self) -> &[Met] {
        &self.known.met
    }

    /// What a search cannot show: that stores with less than sequentially consistent order are seen late, or in another order.
    pub fn weak_note(&self) -> Option<String> {
        let (_, first) = self.known.weak.first_key_value()?;
        let more = match self.known.weak.len() - 1 {
            0 => String::new(),
            n => format!(" (and {n} more)"),
        };
        Some(format!(
            "the atomic store at {first}{more} has relaxed or release order: only sequentially consistent executions are explored, not those where other threads see it later"
        ))
    }

    /// What a search is to park at.
    pub fn watched(&self) -> Arc<Watched> {
        Arc::new(self.known.watched.clone())
    }

    /// What is said to the user: accesses that nothing orders, and uses of freed memory first.
    pub fn races(&self) -> Vec<Race> {
        let in_words = |list: &[(Race, [Side; 2])]| {
            let filled = |(race, sides): &(Race, [Side; 2])| {
                let mut race = race.clone();
                self.known.stacks.fill(&mut race, sides);
                race
            };
            let mut races: Vec<Race> = list.iter().map(filled).collect();
            races.sort();
            races.dedup_by(|a, b| {
                let told = |race: &Race| race.accesses.clone().map(|access| (access.kind, access.at));
                a.object == b.object && told(a) == told(b)
            });
            races
        };
        let mut races = in_words(&self.known.uses);
        races.append(&mut in_words(&self.known.races));
        races.truncate(NAMED);
        races
    }
}
