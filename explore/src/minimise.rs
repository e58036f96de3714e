//! Makes a counterexample easier to read: fewest preemptions, then fewest context switches, then fewest steps.
//!
//! First a search for the same violation with no preemption, with one, and so on: if it gets through, the number of preemptions is the least there is.
//! Then blocks of steps of one thread are moved together or left out, as long as the violation stays. Everything that is returned was executed;
//! nothing is returned that is worse than what was given.

use crate::result::Failure;
use crate::{Choice, Config, Coverage, Limits, Search, System};
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
    /// How often another thread went on.
    pub switches: u32,
    /// Proved: there is no path to this violation with fewer preemptions.
    pub fewest_preemptions: bool,
    /// Steps that were executed to find it.
    pub steps_spent: u64,
}

impl Minimised {
    fn cost(&self) -> (u32, u32, usize) {
        (self.preemptions, self.switches, self.path.len())
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
    work.fewer_preemptions(&mut best)?;
    work.merge_blocks(&mut best)?;
    best.steps_spent = work.spent;
    Ok(best)
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

    /// Searches with a growing preemption bound, with at most half of the effort.
    fn fewer_preemptions(&mut self, best: &mut Minimised) -> Result<(), Failure<S::Error>> {
        let half = self.effort.steps / 2;
        let mut all_covered = true;
        for bound in 0..best.preemptions {
            let steps = self.left().saturating_sub(half);
            let depth = u32::try_from(best.path.len())
                .unwrap_or(u32::MAX)
                .saturating_mul(2)
                .saturating_add(64);
            let config = Config {
                bound_preemptions: Some(bound),
                hash: self.effort.hash,
                max_live_marks: self.effort.max_live_marks,
                limits: Limits {
                    steps: Some(steps),
                    depth: Some(depth),
                    ..Limits::default()
                },
                ..Config::default()
            };
            let mut search = Search::new(config).wanted(self.same);
            search.hooks.end_at_violation = true;
            search.hooks.stop = self.effort.stop;
            let result = search.run_one(self.system);
            self.spent += result.counters.transitions + result.counters.reexecuted_steps;
            if let Some(failure) = result.failure {
                return Err(failure);
            }
            if let Some(found) = result.violations.first() {
                if let Some(better) = self.attempt(&found.path)?.filter(|b| b.cost() < best.cost()) {
                    *best = Minimised {
                        fewest_preemptions: all_covered,
                        ..better
                    };
                }
                return Ok(());
            }
            all_covered &= matches!(result.coverage, Coverage::Bounded { .. });
        }
        best.fewest_preemptions = all_covered;
        Ok(())
    }

    /// Tries all single changes to the blocks, and starts again after each that helps.
    fn merge_blocks(&mut self, best: &mut Minimised) -> Result<(), Failure<S::Error>> {
        'again: loop {
            for candidate in rearranged(&best.path) {
                if self.left() < best.path.len() as u64 {
                    return Ok(());
                }
                if let Some(better) = self.attempt(&candidate)?.filter(|b| b.cost() < best.cost()) {
                    *best = Minimised {
                        fewest_preemptions: best.fewest_preemptions,
                        ..better
                    };
                    continue 'again;
                }
            }
            return Ok(());
        }
    }
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
