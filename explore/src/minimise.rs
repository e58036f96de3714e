//! Makes a counterexample easier to read: fewest preemptions and alternatives other than the first, then fewest context switches, then fewest steps.
//!
//! First its own steps in other orders (`reorder.rs`), with as few preemptions as that can be done with. Then all schedules, with no preemption,
//! with one, and so on: if that gets through, the number of preemptions is the least there is. Then blocks of steps of one thread are moved together or left out, as long as the violation stays. Everything that is returned was executed;
//! nothing is returned that is worse than what was given.

use crate::reorder::Reordered;
use crate::result::Failure;
use crate::{Choice, Config, Coverage, Limits, Search, SearchResult, System};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// How much may be spent.
#[derive(Clone, Copy, Debug)]
pub struct Effort<'a> {
    /// Steps to execute in all.
    pub steps: u64,
    /// Use a visited set in the searches.
    pub hash: bool,
    /// See [`Config::max_live_marks`].
    pub max_live_marks: usize,
    /// Give up soon after it is set; the best so far is returned.
    pub stop: Option<&'a AtomicBool>,
}

impl Default for Effort<'_> {
    fn default() -> Self {
        Self {
            steps: 100_000,
            hash: true,
            max_live_marks: usize::MAX,
            stop: None,
        }
    }
}

/// A path that shows a violation with its last step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Minimised {
    /// The path.
    pub path: Vec<Choice>,
    /// How often a thread was left that could have gone on.
    pub preemptions: u32,
    /// How often an operation had another than its first alternative.
    pub alternatives: u32,
    /// How often another thread went on.
    pub switches: u32,
    /// Proved: there is no path to this violation with fewer preemptions and alternatives.
    pub fewest_preemptions: bool,
    /// Steps that were executed to find it.
    pub steps_spent: u64,
}

impl Minimised {
    fn cost(&self) -> (u32, u32, usize) {
        (self.deviations(), self.switches, self.path.len())
    }

    fn deviations(&self) -> u32 {
        self.preemptions + self.alternatives
    }
}

/// Minimises a path. `same` tells whether a violation is the one to keep. Fails if the path does not show it, or the system fails.
pub fn minimise<S: System>(
    system: &mut S,
    path: &[Choice],
    same: &(dyn Fn(&S::Violation) -> bool + Sync),
    effort: Effort<'_>,
) -> Result<Minimised, Failure<S::Error>> {
    let mut work = Work {
        system,
        same,
        effort,
        spent: 0,
    };
    let Some(mut best) = work.attempt(path)? else {
        let detail = "the path to be minimised does not show its violation".to_owned();
        return Err(Failure::Desync {
            path: path.to_vec(),
            detail,
        });
    };
    work.reorder(&mut best)?;
    let mut other = work.fewer_preemptions(&best)?;
    best.fewest_preemptions = other.fewest_preemptions;
    work.merge_blocks(&mut other)?;
    if best.cost() < other.cost() {
        work.merge_blocks(&mut best)?;
    }
    if other.cost() <= best.cost() {
        best = other;
    }
    best.steps_spent = work.spent;
    Ok(best)
}

/// A path as it is, executed once.
pub fn as_it_is<S: System>(system: &mut S, path: &[Choice]) -> Result<Minimised, Failure<S::Error>> {
    let failed = |error, steps: usize| Failure::System {
        error,
        path: path[..steps].to_vec(),
    };
    let mut done = Minimised {
        path: path.to_vec(),
        preemptions: 0,
        alternatives: 0,
        switches: 0,
        fewest_preemptions: false,
        steps_spent: path.len() as u64,
    };
    let mut before: Option<u32> = None;
    system.reset().map_err(|e| failed(e, 0))?;
    for (number, &choice) in path.iter().enumerate() {
        let menu = system.enabled().map_err(|e| failed(e, number))?;
        done.preemptions += u32::from(menu.preempts(choice));
        done.alternatives += u32::from(choice.alternative > 0);
        done.switches += u32::from(before.is_some_and(|thread| thread != choice.thread));
        before = Some(choice.thread);
        system.step(choice).map_err(|e| failed(e, number + 1))?;
    }
    Ok(done)
}

struct Work<'a, S: System> {
    system: &'a mut S,
    same: &'a (dyn Fn(&S::Violation) -> bool + Sync),
    effort: Effort<'a>,
    spent: u64,
}

impl<S: System> Work<'_, S> {
    fn left(&self) -> u64 {
        match self.effort.stop {
            Some(stop) if stop.load(Relaxed) => 0,
            _ => self.effort.steps.saturating_sub(self.spent),
        }
    }

    /// Executes a schedule as well as it can be: always the first of the remaining choices that is enabled, and of which no earlier one of
    /// its thread remains. `None` if that does not lead to the violation.
    fn attempt(&mut self, schedule: &[Choice]) -> Result<Option<Minimised>, Failure<S::Error>> {
        let mut remaining = schedule.to_vec();
        let mut done = Minimised {
            path: Vec::new(),
            preemptions: 0,
            alternatives: 0,
            switches: 0,
            fewest_preemptions: false,
            steps_spent: 0,
        };
        let failed = |error, path: &[Choice]| Failure::System {
            error,
            path: path.to_vec(),
        };
        self.system.reset().map_err(|e| failed(e, &[]))?;
        loop {
            let menu = self.system.enabled().map_err(|e| failed(e, &done.path))?;
            let possible = |i: &usize| {
                let choice = remaining[*i];
                menu.position(choice).is_some() && !remaining[..*i].iter().any(|c| c.thread == choice.thread)
            };
            let Some(next) = (0..remaining.len()).find(possible) else {
                return Ok(None);
            };
            let choice = remaining.remove(next);
            done.preemptions += u32::from(menu.preempts(choice));
            done.alternatives += u32::from(choice.alternative != 0);
            done.switches += u32::from(done.path.last().is_some_and(|last| last.thread != choice.thread));
            done.path.push(choice);
            self.spent += 1;
            let report = self.system.step(choice).map_err(|e| failed(e, &done.path))?;
            if report.violations.iter().any(self.same) {
                return Ok(Some(done));
            }
            if report.end.is_some() {
                return Ok(None);
            }
        }
    }

    /// Searches among the orders of the path's own steps, with a growing preemption bound and at most a quarter of the effort.
    fn reorder(&mut self, best: &mut Minimised) -> Result<(), Failure<S::Error>> {
        for bound in 0..best.preemptions {
            let steps = self.left().saturating_sub(self.effort.steps / 4 * 3);
            let bound = Bound::Preemptions(bound);
            let search = bounded(&self.effort, bound, steps, best.path.len(), self.same);
            let result = search.run_one(&mut Reordered::new(self.system, &best.path));
            let found = BoundedResult::of(result)?;
            self.spent += found.steps;
            if let Some(path) = found.path {
                return self.adopt(&path, best).map(drop);
            }
        }
        Ok(())
    }

    /// Searches among all schedules, with a growing preemption bound; a quarter of the effort is left. With as many preemptions as are known to be enough
    /// too: what is found first there has the first threads do what any could, which is easier to follow.
    fn fewer_preemptions(&mut self, best: &Minimised) -> Result<Minimised, Failure<S::Error>> {
        let mut found = None;
        let mut fewest_preemptions = true;
        for bound in 0..=best.deviations() {
            let steps = self.left().saturating_sub(self.effort.steps / 4);
            let depth = best.path.len().saturating_mul(2).saturating_add(64);
            let all = Bound::Deviations(bound);
            let result = bounded(&self.effort, all, steps, depth, self.same).run_one(self.system);
            let result = BoundedResult::of(result)?;
            self.spent += result.steps;
            if let Some(path) = result.path {
                found = self.attempt(&path)?.filter(|f| f.deviations() <= bound);
                break;
            }
            fewest_preemptions &= bound == best.deviations() || result.covered;
        }
        Ok(Minimised {
            fewest_preemptions,
            ..found.unwrap_or_else(|| best.clone())
        })
    }

    /// Takes a path if it is better; tells whether it was.
    fn adopt(&mut self, path: &[Choice], best: &mut Minimised) -> Result<bool, Failure<S::Error>> {
        let better = self.attempt(path)?.filter(|b| b.cost() < best.cost());
        let is_better = better.is_some();
        if let Some(better) = better {
            *best = Minimised {
                fewest_preemptions: best.fewest_preemptions,
                ..better
            };
        }
        Ok(is_better)
    }

    /// Tries all single changes to the blocks, and starts again after each that helps.
    fn merge_blocks(&mut self, best: &mut Minimised) -> Result<(), Failure<S::Error>> {
        'again: loop {
            for candidate in rearranged(&best.path) {
                if self.left() < best.path.len() as u64 {
                    return Ok(());
                }
                if self.adopt(&candidate, best)? {
                    continue 'again;
                }
            }
            return Ok(());
        }
    }
}

/// What a bounded search found, and what it cost.
struct BoundedResult {
    path: Option<Vec<Choice>>,
    /// There is no other within the bound.
    covered: bool,
    steps: u64,
}

impl BoundedResult {
    fn of<T: System>(result: SearchResult<T>) -> Result<Self, Failure<T::Error>> {
        if let Some(failure) = result.failure {
            return Err(failure);
        }
        Ok(Self {
            path: result.violations.into_iter().next().map(|found| found.path),
            covered: matches!(result.coverage, Coverage::Bounded { .. }),
            steps: result.counters.transitions + result.counters.reexecuted_steps,
        })
    }
}

/// What a search may do at most so often.
#[derive(Clone, Copy)]
enum Bound {
    Preemptions(u32),
    /// Preemptions, and alternatives other than the first.
    Deviations(u32),
}

/// A search that ends at the first violation that is wanted.
fn bounded<'a, T: System>(
    effort: &Effort<'a>,
    bound: Bound,
    steps: u64,
    depth: usize,
    wanted: &'a (dyn Fn(&T::Violation) -> bool + Sync),
) -> Search<'a, T> {
    let (Bound::Preemptions(most) | Bound::Deviations(most)) = bound;
    let config = Config {
        bound_preemptions: Some(most),
        bound_counts_alternatives: matches!(bound, Bound::Deviations(_)),
        hash: effort.hash,
        max_live_marks: effort.max_live_marks,
        limits: Limits {
            steps: Some(steps),
            depth: Some(u32::try_from(depth).unwrap_or(u32::MAX)),
            ..Limits::default()
        },
        ..Config::default()
    };
    let mut search = Search::new(config).wanted(wanted);
    search.hooks.end_at_violation = true;
    search.hooks.stop = effort.stop;
    search
}

/// All paths that come from one by moving a block of one thread next to its neighbour of the same thread, or by leaving a block out.
fn rearranged(path: &[Choice]) -> impl Iterator<Item = Vec<Choice>> + use<> {
    let blocks: Vec<Vec<Choice>> = path
        .chunk_by(|a, b| a.thread == b.thread)
        .map(<[_]>::to_vec)
        .collect();
    let same_thread = |i: usize, j: &usize| blocks[*j][0].thread == blocks[i][0].thread;
    let pairs: Vec<(usize, usize)> = (0..blocks.len())
        .filter_map(|i| (i + 1..blocks.len()).find(|j| same_thread(i, j)).map(|j| (i, j)))
        .collect();
    let moves = pairs.into_iter().flat_map(|(i, j)| [(j, i + 1), (i, j - 1)]);
    let drops = (0..blocks.len()).map(|i| (i, usize::MAX));
    let changes: Vec<(usize, usize)> = moves.chain(drops).collect();
    changes.into_iter().map(move |(from, to)| {
        let mut changed = blocks.clone();
        let block = changed.remove(from);
        if to != usize::MAX {
            changed.insert(to, block);
        }
        changed.concat()
    })
}
