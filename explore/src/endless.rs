//! States from which no end can be reached, whatever the schedule: somebody waits in a loop for what never comes.
//!
//! A thread that waits in the kernel shows: nobody can move. One that looks again and again moves for ever, and a search that remembers states only sees that it
//! has been everywhere. So the transitions of a search are kept ([`Ways`]), and when it is over, states are looked for from which none leads to an end.
//!
//! A reduced search leaves out transitions that are explored elsewhere, and these may be what leads out of a loop. So nothing is claimed before an unreduced search from
//! that state has come to its end, and has met none ([`prospect`]).

use crate::minimise::Effort;
use crate::result::{Failure, Limit};
use crate::{Choice, Config, Coverage, Limits, Observer, Reduction, Search, Strategy, System};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Transitions that are kept; 48 bytes each. Of a larger search nothing is said.
const MAX_EDGES: usize = 1_000_000;
/// Random walks before the exhaustive search, and the share of the effort that is theirs.
const WALKS: u64 = 8;
const SHARE: u64 = 8;

/// The transitions of a search.
#[derive(Default)]
pub struct Ways(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    start: Option<u128>,
    edges: Vec<(u128, Choice, u128)>,
    is_too_large: bool,
}

/// A state from which no way to an end was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endless {
    /// The state.
    pub id: u128,
    /// A shortest way there.
    pub path: Vec<Choice>,
    /// No way at all leads to an end, from the start on, and wherever it leads in the long run, several threads keep moving.
    pub is_busy: bool,
}

impl Observer for Ways {
    fn state(&self, id: u128, _: u32) {
        self.seen().start.get_or_insert(id);
    }

    fn edge(&self, from: u128, choice: Choice, to: u128) {
        let mut seen = self.seen();
        if seen.edges.len() < MAX_EDGES {
            seen.edges.push((from, choice, to));
        } else {
            seen.is_too_large = true;
        }
    }
}

impl Ways {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many transitions are known.
    pub fn count(&self) -> usize {
        self.seen().edges.len()
    }

    /// After a complete search: the state nearest to the start from which no transition leads to an end, or to one of those that are known to have one.
    pub fn without_end(&self, known_to_end: &HashSet<u128>) -> Option<Endless> {
        let seen = self.seen();
        let start = seen.start.filter(|_| !seen.is_too_large)?;
        let ending = ending(&seen.edges, known_to_end);
        if seen.edges.iter().all(|(from, _, _)| ending.contains(from)) {
            return None;
        }
        let mut next: HashMap<u128, Vec<(Choice, u128)>> = HashMap::new();
        for &(from, choice, to) in &seen.edges {
            next.entry(from).or_default().push((choice, to));
        }
        let is_endless = |state: u128| !ending.contains(&state);
        if !is_endless(start) {
            let (id, path) = nearest(start, &next, is_endless)?;
            let is_busy = false;
            return Some(Endless { id, path, is_busy });
        }
        // Where a single thread is left that moves, the others wait for it in vain.
        let lonely = lonely(start, &next);
        let (id, path) =
            nearest(start, &next, |state| lonely.contains(&state)).unwrap_or((start, Vec::new()));
        Some(Endless {
            id,
            path,
            is_busy: lonely.is_empty(),
        })
    }
}

/// States from which a transition leads to one without any, which is an end, or to one of those that are known.
fn ending(edges: &[(u128, Choice, u128)], known: &HashSet<u128>) -> HashSet<u128> {
    let inner: HashSet<u128> = edges.iter().map(|edge| edge.0).collect();
    let mut before: HashMap<u128, Vec<u128>> = HashMap::new();
    for &(from, _, to) in edges {
        before.entry(to).or_default().push(from);
    }
    let is_end = |state: &u128| !inner.contains(state) || known.contains(state);
    let mut ending: HashSet<u128> = before
        .keys()
        .chain(known)
        .copied()
        .filter(|s| is_end(s))
        .collect();
    let mut open: Vec<u128> = ending.iter().copied().collect();
    while let Some(state) = open.pop() {
        for &from in before.get(&state).into_iter().flatten() {
            if ending.insert(from) {
                open.push(from);
            }
        }
    }
    ending
}

type Next = HashMap<u128, Vec<(Choice, u128)>>;

/// The nearest state of a kind, with a shortest way there.
fn nearest(start: u128, next: &Next, is_wanted: impl Fn(u128) -> bool) -> Option<(u128, Vec<Choice>)> {
    let mut came_from: HashMap<u128, (u128, Choice)> = HashMap::new();
    let mut open = VecDeque::from([start]);
    let mut known = HashSet::from([start]);
    while let Some(state) = open.pop_front() {
        if is_wanted(state) {
            let mut path = Vec::new();
            let mut at = state;
            while let Some(&(before, choice)) = came_from.get(&at) {
                path.push(choice);
                at = before;
            }
            path.reverse();
            return Some((state, path));
        }
        for &(choice, to) in next.get(&state).into_iter().flatten() {
            if known.insert(to) {
                came_from.insert(to, (state, choice));
                open.push_back(to);
            }
        }
    }
    None
}

/// States of loops that nothing leads out of, and in which one thread moves.
fn lonely(start: u128, next: &Next) -> HashSet<u128> {
    let loops = components(start, next);
    let mut movers: HashMap<usize, BTreeSet<u32>> = HashMap::new();
    let mut open_ended: HashSet<usize> = HashSet::new();
    for (from, component) in &loops {
        for (choice, to) in next.get(from).into_iter().flatten() {
            movers.entry(*component).or_default().insert(choice.thread);
            if loops.get(to) != Some(component) {
                open_ended.insert(*component);
            }
        }
    }
    let is_lonely = |component: &usize| {
        !open_ended.contains(component) && movers.get(component).is_some_and(|movers| movers.len() == 1)
    };
    let lonely = loops.iter().filter(|(_, component)| is_lonely(component));
    lonely.map(|(state, _)| *state).collect()
}

/// The strongly connected components of what can be reached, by Tarjan's algorithm, without recursion: the number of each state's.
fn components(start: u128, next: &Next) -> HashMap<u128, usize> {
    let none = Vec::new();
    let successors = |state: u128| next.get(&state).unwrap_or(&none);
    let mut found = HashMap::new();
    // When a state was met, and the earliest that is known to be in its component.
    let mut met: HashMap<u128, (usize, usize)> = HashMap::new();
    let mut unassigned = Vec::new();
    let mut path = vec![(start, 0)];
    while let Some((state, position)) = path.pop() {
        let count = met.len();
        met.entry(state).or_insert_with(|| {
            unassigned.push(state);
            (count, count)
        });
        if let Some(&(_, to)) = successors(state).get(position) {
            path.push((state, position + 1));
            if !met.contains_key(&to) {
                path.push((to, 0));
            } else if !found.contains_key(&to) {
                let earliest = met[&to].0;
                met.entry(state)
                    .and_modify(|known| known.1 = known.1.min(earliest));
            }
            continue;
        }
        let (number, earliest) = met[&state];
        if let Some(&(parent, _)) = path.last() {
            met.entry(parent)
                .and_modify(|known| known.1 = known.1.min(earliest));
        }
        if number == earliest {
            while let Some(member) = unassigned.pop() {
                found.insert(member, number);
                if member == state {
                    break;
                }
            }
        }
    }
    found
}

/// What the continuations of a path come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prospect {
    /// None of them ends.
    Endless,
    /// One ends, after these states.
    Ends(Vec<u128>),
    /// It takes more than the effort to tell.
    Unknown,
}

/// The transitions of a search in the order in which they were made.
#[derive(Default)]
struct Trail(Mutex<Vec<(u128, u128)>>);

impl Observer for Trail {
    fn state(&self, _: u128, _: u32) {}

    fn edge(&self, from: u128, _: Choice, to: u128) {
        self.made().push((from, to));
    }
}

impl Trail {
    fn made(&self) -> MutexGuard<'_, Vec<(u128, u128)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The states that the last transition was come to by, the nearest first.
    fn back_from_last(&self) -> Vec<u128> {
        let made = self.made();
        let mut states = Vec::new();
        let mut at = made.last().map(|last| last.1);
        for &(from, to) in made.iter().rev() {
            if at == Some(to) {
                states.push(from);
                at = Some(from);
            }
        }
        states
    }
}

/// Does no continuation of a path end?
pub fn prospect<S: System>(
    system: &mut S,
    path: &[Choice],
    effort: Effort<'_>,
) -> Result<Prospect, Failure<S::Error>> {
    let walks = Strategy::Random { walks: Some(WALKS) };
    // Whatever a path violates, its end is an end.
    let none = |_: &S::Violation| false;
    for (strategy, steps) in [(walks, effort.steps / SHARE), (Strategy::Dfs, effort.steps)] {
        let is_exhaustive = !strategy.is_walk();
        let config = Config {
            strategy,
            hash: is_exhaustive,
            reduction: Reduction::None,
            max_live_marks: effort.max_live_marks,
            max_violations: None,
            limits: Limits {
                steps: Some(steps),
                ..Limits::default()
            },
            ..Config::default()
        };
        let trail = Trail::default();
        let mut search = Search::new(config).start_at(path).wanted(&none).observer(&trail);
        search.hooks.until_clean_end = true;
        search.hooks.stop = effort.stop;
        let result = search.run_one(system);
        if let Some(failure) = result.failure {
            return Err(failure);
        }
        match result.coverage {
            Coverage::Incomplete(Limit::Goal) => return Ok(Prospect::Ends(trail.back_from_last())),
            Coverage::Complete if is_exhaustive => return Ok(Prospect::Endless),
            _ => {}
        }
    }
    Ok(Prospect::Unknown)
}
