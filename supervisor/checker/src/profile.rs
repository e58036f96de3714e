//! Where the states go (`--profile`): at which places of the program threads stand when there is something to choose, and which places make them dependent.
//!
//! Counted is what the searches look at, all of them: the states in which they ask what can be done. A program that is too large to be explored is told apart by this
//! from one that is large for one lock: what is turned off, or taken out of the scenario, should be what has most states here.

use crate::alike::{Alike, Differences};
use explore::{Candidate, Menu};
use failure::Failure;
use serde::Serialize;
use session::Session;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Places and pairs of them that are told.
const MOST: usize = 10;

/// Collects while searches run.
#[derive(Clone, Default)]
pub struct Profile(Arc<Mutex<Counts>>);

#[derive(Default)]
struct Counts {
    states: u64,
    alone: u64,
    with_choice: u64,
    /// By site.
    places: HashMap<u64, Counted>,
    /// By their sites.
    conflicts: HashMap<[u64; 2], u64>,
    alike: Alike,
}

struct Counted {
    name: String,
    states: u64,
}

/// What was counted, for the report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Profiled {
    /// States that were looked at, by all searches of this check.
    pub states: u64,
    /// Those in which the program has one thread: start-up, mostly.
    pub alone: u64,
    /// Those with more than one choice. The following are about these.
    pub with_choice: u64,
    /// Where threads stand that could go on, and in how many states.
    pub places: Vec<Place>,
    /// Where two threads stand whose order matters.
    pub conflicts: Vec<Conflict>,
    /// In what states differ that could be one.
    pub differences: Differences,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    pub place: String,
    pub states: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Conflict {
    pub places: [String; 2],
    pub states: u64,
}

impl Profile {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A state is looked at, in which these can go on. `name` says where a candidate stands; it is asked once for each place.
    pub fn count(&self, menu: &Menu, is_alone: bool, name: impl Fn(&Candidate) -> String) {
        let mut counts = self.counts();
        counts.states += 1;
        counts.alone += u64::from(is_alone);
        if menu.choices.len() < 2 {
            return;
        }
        counts.with_choice += 1;
        let first_of_each = menu.choices.iter().filter(|c| c.choice.alternative == 0);
        let parked: Vec<&Candidate> = first_of_each.filter(|c| c.site.is_some()).collect();
        let mut seen = Vec::new();
        for (index, candidate) in parked.iter().enumerate() {
            let Some(site) = candidate.site else { continue };
            if !seen.contains(&site) {
                seen.push(site);
                let place = counts.places.entry(site).or_insert_with(|| Counted {
                    name: name(candidate),
                    states: 0,
                });
                place.states += 1;
            }
            for other in &parked[index + 1..] {
                if let Some(there) = other.site
                    && candidate.footprint.conflicts(&other.footprint)
                {
                    let pair = [site.min(there), site.max(there)];
                    *counts.conflicts.entry(pair).or_default() += 1;
                }
            }
        }
    }

    /// A search has come to a state with this identity, which leaves these variables out.
    ///
    /// # Errors
    /// Its memory cannot be read.
    pub fn meet(&self, session: &Session, id: u128, auxiliary: &[String]) -> Result<(), Failure> {
        let mut counts = self.counts();
        // Before there is a choice no two states could be one.
        match counts.with_choice {
            0 => Ok(()),
            _ => counts.alike.meet(session, id, auxiliary),
        }
    }

    /// What was counted: the places with most states, by name.
    pub fn told(&self) -> Profiled {
        let counts = self.counts();
        let name = |site: &u64| counts.places.get(site).map_or("?", |place| place.name.as_str());
        let mut places: HashMap<&str, u64> = HashMap::new();
        for place in counts.places.values() {
            *places.entry(&place.name).or_default() += place.states;
        }
        let mut conflicts: HashMap<[&str; 2], u64> = HashMap::new();
        for ([one, other], states) in &counts.conflicts {
            let mut pair = [name(one), name(other)];
            pair.sort_unstable();
            *conflicts.entry(pair).or_default() += states;
        }
        Profiled {
            states: counts.states,
            alone: counts.alone,
            with_choice: counts.with_choice,
            places: most(places, |place, states| Place {
                place: place.to_owned(),
                states,
            }),
            conflicts: most(conflicts, |places, states| Conflict {
                places: places.map(str::to_owned),
                states,
            }),
            differences: counts.alike.told(),
        }
    }
}

/// Those with the highest counts; of equal ones the first by name.
fn most<K: Ord + std::hash::Hash, T>(counted: HashMap<K, u64>, told: impl Fn(K, u64) -> T) -> Vec<T> {
    let mut counted: Vec<(K, u64)> = counted.into_iter().collect();
    counted.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    counted.truncate(MOST);
    counted
        .into_iter()
        .map(|(key, states)| told(key, states))
        .collect()
}

impl Profiled {
    /// For people, line by line.
    pub fn lines(&self) -> Vec<String> {
        let share = |states: u64, of: u64| states * 100 / of.max(1);
        let mut lines = vec![format!(
            "{} states looked at: {} % with one thread, {} % with a choice. Of these, threads that could go on stood",
            self.states,
            share(self.alone, self.states),
            share(self.with_choice, self.states)
        )];
        let is_much = |states: u64| share(states, self.with_choice) > 0;
        for Place { place, states } in self.places.iter().filter(|place| is_much(place.states)) {
            let percent = share(*states, self.with_choice);
            lines.push(format!("{percent:>4} %  at {place}"));
        }
        let mut mattered = self
            .conflicts
            .iter()
            .filter(|pair| is_much(pair.states))
            .peekable();
        if mattered.peek().is_some() {
            lines.push("and the order of two of them mattered".to_owned());
        }
        for Conflict {
            places: [one, other],
            states,
        } in mattered
        {
            let percent = share(*states, self.with_choice);
            lines.push(format!("{percent:>4} %  between {one} and {other}"));
        }
        lines.extend(self.differences.lines());
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use explore::{Choice, Footprint};

    fn candidate(thread: u32, site: u64, object: u64) -> Candidate {
        Candidate::new(Choice::of(thread), Footprint::write(object)).at(Some(site))
    }

    #[test]
    fn places_are_counted_by_states_and_pairs_by_conflicts() {
        let profile = Profile::default();
        let look = |choices: Vec<Candidate>| {
            let menu = Menu {
                choices,
                ..Menu::default()
            };
            profile.count(&menu, menu.choices.len() == 1, |c| {
                format!("place {}", c.site.unwrap_or(0))
            });
        };
        look(vec![candidate(1, 10, 7)]);
        look(vec![candidate(1, 10, 7), candidate(2, 10, 7)]);
        look(vec![candidate(1, 10, 7), candidate(2, 20, 8)]);
        let told = profile.told();
        assert_eq!((told.states, told.alone, told.with_choice), (3, 1, 2));
        let places: Vec<_> = told.places.iter().map(|p| (p.place.as_str(), p.states)).collect();
        assert_eq!(places, [("place 10", 2), ("place 20", 1)]);
        assert_eq!(told.conflicts.len(), 1);
        assert_eq!(told.conflicts[0].places, ["place 10", "place 10"]);
        assert!(told.lines()[1].contains("100 %  at place 10"));
    }
}
