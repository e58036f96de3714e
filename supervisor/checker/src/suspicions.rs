//! What may be a deadlock of some threads, while others go on: seen in passing, judged when the search is over.
//!
//! Threads that wait for each other's locks stand still for good only if nobody outside ends that. Where nobody else can move any more this is certain, and a
//! violation at once. Where others could go on but the program ends, or never does, it is a suspicion: refuted if the same threads at the same places were set
//! free in any schedule, and else a violation. (By the rules of POSIX only its holder may unlock a mutex, so a cycle that nobody is ever seen to break is
//! one that nobody may.)

use super::endless::Finding;
use super::properties::lock_cycle;
use explore::{Choice, Found};
use imbl::Vector;
use session::{ForeignUnlock, Standstill};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use trace::Violation;

/// A search that was not finished counts as having tried if others went on for so many steps.
const LONG: usize = 100;

/// Shared by the workers of all stages.
#[derive(Clone, Debug, Default)]
pub struct Suspicions(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    suspects: BTreeMap<u64, Suspect>,
    /// Standstills that somebody ended.
    refuted: BTreeSet<u64>,
    foreign_unlocks: BTreeSet<ForeignUnlock>,
    /// Processes that were left behind.
    left_behind: BTreeSet<String>,
    /// A thread waited for time to pass while others could go on.
    waits_for_time: bool,
    goes_on: bool,
    /// What the last complete search says of schedules without an end.
    endless: Option<Finding>,
}

#[derive(Debug)]
struct Suspect {
    violation: Violation,
    /// The shortest way to it.
    path: Vec<Choice>,
    /// How long it stood at most, in steps of others; as good as for ever if the program has ended meanwhile.
    stood: usize,
}

/// What a search should think of a standstill that it sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Others go on.
    Stands { since: usize },
    /// The program has ended.
    Ended,
}

impl Suspicions {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A standstill at the end of this path.
    pub fn suspect(&self, standstill: &Standstill, path: &Vector<Choice>, fate: Fate) {
        let stood = match fate {
            Fate::Stands { since } => path.len().saturating_sub(since),
            Fate::Ended => usize::MAX,
        };
        let mut seen = self.seen();
        let suspect = seen.suspects.entry(standstill.key).or_insert_with(|| Suspect {
            violation: lock_cycle(standstill),
            path: path.iter().copied().collect(),
            stood,
        });
        suspect.stood = suspect.stood.max(stood);
        if path.len() < suspect.path.len() {
            suspect.path = path.iter().copied().collect();
        }
    }

    /// Somebody has set these threads free.
    pub fn refute(&self, standstill: &Standstill) {
        self.seen().refuted.insert(standstill.key);
    }

    pub fn left_behind(&self, what: &BTreeSet<String>) {
        if !what.is_empty() {
            self.seen().left_behind.extend(what.iter().cloned());
        }
    }

    pub fn unlocked(&self, unlock: ForeignUnlock) {
        self.seen().foreign_unlocks.insert(unlock);
    }

    /// Several threads would go on for ever.
    pub fn goes_on(&self) {
        self.seen().goes_on = true;
    }

    /// A thread sleeps, or waits for something not longer than until some moment, while others can go on.
    pub fn waits_for_time(&self) {
        self.seen().waits_for_time = true;
    }

    /// Was there such a thread?
    pub fn has_waited_for_time(&self) -> bool {
        self.seen().waits_for_time
    }

    /// The violations, after searches that were complete or not.
    pub fn verdict(&self, is_complete: bool) -> Vec<Found<Violation>> {
        let seen = self.seen();
        let stands = |(key, suspect): &(&u64, &Suspect)| {
            !seen.refuted.contains(key) && (is_complete || suspect.stood >= LONG)
        };
        let found = |(_, suspect): (&u64, &Suspect)| Found {
            violation: suspect.violation.clone(),
            path: suspect.path.clone(),
            times: 1,
        };
        seen.suspects.iter().filter(stands).map(found).collect()
    }

    /// What is no violation, for the user to know.
    pub fn notes(&self) -> Vec<String> {
        let seen = self.seen();
        let is_refuted = |(key, _): &(&u64, &Suspect)| seen.refuted.contains(key);
        let note = |(_, suspect): (&u64, &Suspect)| {
            format!(
                "{}; another thread resolves this, so it is not a deadlock",
                suspect.violation.message
            )
        };
        let notes: BTreeSet<String> = seen.suspects.iter().filter(is_refuted).map(note).collect();
        notes
            .into_iter()
            .chain(seen.left_behind.iter().cloned())
            .collect()
    }

    /// What a complete search says of schedules without an end. The last one counts.
    pub fn may_go_on_for_ever(&self, finding: Finding) {
        self.seen().endless = Some(finding);
    }

    /// Mutexes that were unlocked by others than their holders, and schedules without an end.
    pub fn warnings(&self) -> Vec<String> {
        let seen = self.seen();
        let warning = |unlock: &ForeignUnlock| {
            let place = if unlock.at.is_empty() {
                String::new()
            } else {
                format!(" at {}", unlock.at)
            };
            format!(
                "a thread unlocks {}{place} while another thread holds it: this is undefined behavior in POSIX",
                unlock.mutex
            )
        };
        let endless = match seen.endless {
            None | Some(Finding::Ends | Finding::Livelock) => seen
                .goes_on
                .then_some("several threads sleep and go on for ever, and change nothing"),
            Some(Finding::Busy) => Some("no schedule ends: several threads go on forever"),
            Some(Finding::Unproved) => {
                Some("there may be a livelock: states were seen from which no schedule is known to end")
            }
        };
        let unlocks = seen.foreign_unlocks.iter().map(warning);
        unlocks.chain(endless.map(str::to_owned)).collect()
    }
}
