//! `--reduce auto`: which search suits a program is found by trying.
//!
//! A visited set with sleep sets drops no state, so it suffers where many threads do unrelated things (eight philosophers have millions of states).
//! Dynamic reduction drops them, one schedule for each order of what conflicts (254 for those philosophers), but it remembers no state, so it
//! suffers from loops and from many orders that come to the same. Neither can be told from the program. So: a short try of the first, which is the end of it
//! for small programs, and goes on if by its own estimate it is near its end; then a try of the second, and a longer one if by its own estimate that is the end of it; then the first again. But the second goes on as long as
//! most of its paths have an outcome of their own: the first would have to come to all of those ends too, and by more states (a chat server of four clients
//! has 331 776 outcomes, one for each path of the second, and the first was not done after five million states).
//!
//! Before and after the second come a few walks that guide themselves ([`Strategy::Walk`]): a bug that they can find is found before the searches lose themselves, and of
//! a limited time a third of what is left goes to them before the last search.
//!
//! If neither came to an end, the first has a long try, then the second if it looked as if it would end; and if they have no end either the program is large, and what counts is that something can be said of it: the last search goes through all states in the order
//! of preemptions ([`Strategy::ByPreemptions`]), so that it is known at any time up to how many all schedules are explored. A short look of that kind comes before
//! the dynamic one, for those who do not want to wait.
//!
//! Whatever is tried, a search that finds operations to be dependent which it took for independent (see [`explore::Audit`]) has left out too much. It is made
//! again with what it has learned, and after some rounds of that without reduction.
//!
//! No search goes down an endless path for ever. One in which no path has ended after a while is interrupted for a *pilot*: one schedule, straight ahead to its end,
//! so that at least one is known before the search widens. How long it was tells how deep the search may go at first; what lies deeper comes when all else
//! is explored, in rounds of twice the depth ([`Config::deepening`]).
//!
//! The bounds are counted in steps, not in time: the same program is explored in the same way everywhere.

mod aside;

use super::CheckSystem;
use aside::{SHORT, late_look, pilot, quick, sample, trial};
use explore::{
    Config, Counters, Coverage, Deepened, Dependent, Found, Hope, Limit, Limits, PairCoverage, Reduction,
    SearchResult, Strategy,
};
use std::time::Duration;
use trace::Violation;

/// Steps of the first look in the order of preemptions.
const LOOK: u64 = 800;
/// The first try goes on if it seems to be near its end. Its estimate is too high, but of the right size only near the end.
const HOPE: Hope = Hope {
    estimate: 40_000,
    steps: 12_000,
};
/// Steps of the dynamic one, if many of its paths come to the same: a try, after which there is an estimate of how many it takes in all, ...
const TRY: u64 = 6_000;
/// ... and as many as it has if it comes to its end within them, by that estimate.
const LONG: u64 = 30_000;
/// The same, once, for a program with peers. What they are told is part of an outcome, so it shows early whether paths differ. (The alphabet client, connections times
/// messages: 4 x 2 takes 883 steps and 421 265 with states, 2 x 5 takes 26 051 and 6 152.)
const LONG_WITH_PEERS: u64 = 2_000;
/// Steps of the second try of the first kind. So what the search that suits the program takes is at most a few times exceeded, whichever that is.
const MORE: u64 = 20_000;
/// Steps of the dynamic one at its second try, which it has if by its own estimate it comes to its end within them.
const WITHIN_REACH: u64 = 240_000;
/// Steps of the third try of the first kind.
const LONGER_STILL: u64 = 120_000;
/// Walks that guide themselves, and their steps at most: a few early, and more where dynamic reduction did not come to its end.
const SAMPLE: (u64, u64) = (32, 12_000);
const SAMPLE_WITH_PEERS: (u64, u64) = (8, 1_000);
const LARGER_SAMPLE: (u64, u64) = (2_000, 60_000);
const LARGER_SAMPLE_WITH_PEERS: (u64, u64) = (100, 10_000);
/// How long such a walk may be where schedules are not known to end, or known to have none.
const LONG_WALK: u32 = 40_000;
const ENDLESS_WALK: u32 = 2_000;
/// A path of dynamic reduction that is longer is in a loop, as a rule, see [`Past::bound_depth`].
const DEEP: u32 = 5_000;
/// The same if the pilot had no end either: then most paths have none.
const DEEP_ENDLESS: u32 = 500;

/// A search in which no path has ended after so many steps is interrupted by a pilot.
const ENDLESS: u64 = 1_000;
/// The first depth of a search: if paths have an end, and if not, as far as is known.
const FIRST_DEPTH: u32 = 1_000;
const FIRST_DEPTH_ENDLESS: u32 = 128;
/// Paths may be so many times longer than the pilot's before they are put off.
const LONGER: u32 = 4;

/// A stage that others follow has this part of the time that is left.
const SHARE: u32 = 3;

/// Searches that may end by having learned something, before one is made without reduction.
const ROUNDS: u32 = 8;

type Result = SearchResult<CheckSystem>;

/// How often the peers are asked the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// There are none.
    Nobody,
    /// What they said is remembered, also by the next search.
    Once,
    /// They are told everything again and again, so that one search is enough.
    EachTime,
}

/// The searches to make, one after the other until one decides.
pub fn plan(config: &Config, asking: Asking) -> Vec<Config> {
    let is_free = asking != Asking::EachTime
        && config.strategy == Strategy::Dfs
        && config.reduction == Reduction::Auto
        && config.hash
        // Who bounds states or depth has one search in mind.
        && (config.limits.states, config.limits.depth, config.limits.steps) == (None, None, None);
    let is_bounded = config.bound_preemptions.is_some() && config.strategy == Strategy::Dfs && config.hash;
    if is_bounded {
        // The same in the better order.
        return vec![Config {
            strategy: Strategy::ByPreemptions,
            reduction: Reduction::None,
            ..config.clone()
        }];
    }
    if !is_free {
        return vec![match asking {
            Asking::EachTime => config.clone(),
            _ => aside::leaving_time(config),
        }];
    }
    alternately(config, asking)
}

/// Searches that remember states and searches that do not, in turns and each longer than the one before, with samples in between; at last the one in the order of preemptions.
fn alternately(config: &Config, asking: Asking) -> Vec<Config> {
    let stateless = |repetition: u64| Config {
        hash: false,
        jobs: 1,
        limits: Limits {
            repetition: Some(repetition),
            ..config.limits.clone()
        },
        ..config.clone()
    };
    let in_order = Config {
        strategy: Strategy::ByPreemptions,
        ..config.clone()
    };
    let stateful = |steps: u64| Config {
        limits: Limits {
            steps: Some(steps),
            ..config.limits.clone()
        },
        ..config.clone()
    };
    let mut first = stateful(SHORT);
    first.limits.hope = Some(HOPE);
    let look = Config {
        limits: Limits {
            steps: Some(LOOK),
            ..config.limits.clone()
        },
        ..in_order.clone()
    };
    let again = Config {
        limits: Limits {
            steps: Some(WITHIN_REACH),
            repetition: None,
            ..config.limits.clone()
        },
        ..stateless(LONG)
    };
    let (few, more) = match asking {
        Asking::Nobody => (SAMPLE, LARGER_SAMPLE),
        Asking::Once | Asking::EachTime => (SAMPLE_WITH_PEERS, LARGER_SAMPLE_WITH_PEERS),
    };
    let few = sample(config, few.0, Some(few.1), 0);
    let more = sample(config, more.0, Some(more.1), 1);
    let mut stages = vec![first, look, few];
    stages.extend(match asking {
        Asking::Nobody => vec![stateless(TRY), stateless(LONG), stateful(MORE)],
        Asking::Once | Asking::EachTime => vec![stateless(LONG_WITH_PEERS)],
    });
    stages.extend([more, stateful(LONGER_STILL), again]);
    // Of limited time a share, before a search that will hardly end.
    stages.extend(config.limits.time.map(|_| sample(config, u64::MAX, None, 2)));
    stages.push(in_order);
    stages
}

/// Makes the searches of a plan. What the last one says counts; its outcomes and violations are joined by those of the others, which are as real.
/// `between` is asked after the first of several; if it says so, that was all. If as many violations are `known` as are wanted, there is one short search only.
pub fn run(
    stages: &[Config],
    known: usize,
    search: impl Fn(Config) -> Result,
    mut between: impl FnMut(&Result) -> bool,
) -> Option<Result> {
    let mut so_far = Past::default();
    for (number, stage) in stages.iter().enumerate() {
        let is_last = number + 1 == stages.len();
        if !is_last && (so_far.is_beyond(stage) || so_far.is_hopeless(stage)) {
            continue;
        }
        // Once is enough: they would be the same walks.
        if stage.plan().reduction == Reduction::Dpor && so_far.estimate.is_none() {
            let mut result = search(so_far.ready(&trial(stage), is_last));
            // Found by chance; the search itself is to find it in its own order, if it can.
            so_far.by_chance.append(&mut result.violations);
            so_far.learn(result);
        }
        let is_known = stage
            .max_violations
            .is_some_and(|wanted| known.max(so_far.by_chance.len()) >= wanted);
        let stage = &if is_known { quick(stage) } else { stage.clone() };
        let result = in_rounds(stage, is_last, &mut so_far, &search);
        let is_decided = is_last
            || is_known
            || !is_cut_by_us(&result, so_far.has_time_left(stage, &result))
            || (number == 0 && between(&result));
        so_far.learn(result);
        if is_decided {
            break;
        }
    }
    so_far.into_result()
}

/// A search that was asked for, and is not in the order of preemptions, may have been cut: has a look in that order, so that something can be said of what is covered. What
/// the look finds is as real.
pub fn explore_levels_after(stages: &[Config], result: &mut Result, search: impl Fn(Config) -> Result) {
    let [asked] = stages else {
        return;
    };
    let Some(mut look) = late_look(asked, result) else {
        return;
    };
    look.dependent
        .extend(result.learned.iter().flat_map(|pair| pair.sites));
    let look = search(look);
    result.deepened = look.deepened;
    for (outcome, times) in look.outcomes {
        result.outcomes.entry(outcome).or_insert_with(|| {
            result.counters.executions += times;
            times
        });
    }
    add_violations(result, look.violations);
    // With as many violations as were asked for that is what has ended it; else it is still the limit.
    if look.coverage == Coverage::Incomplete(Limit::Violations) {
        result.coverage = look.coverage;
    }
    result.elapsed += look.elapsed;
}

/// One stage, made again for what it has learned, for a pilot, or deeper.
fn in_rounds(stage: &Config, is_last: bool, so_far: &mut Past, search: &impl Fn(Config) -> Result) -> Result {
    let is_dynamic = stage.plan().reduction == Reduction::Dpor;
    let mut rounds = 0;
    let mut deeper = 1;
    loop {
        let mut config = so_far.ready(stage, is_last);
        if rounds == ROUNDS {
            config.reduction = Reduction::None;
        }
        so_far.bound_depth(&mut config, deeper);
        let result = search(config);
        let is_violated = !result.violations.is_empty() || result.failure.is_some();
        match result.coverage {
            Coverage::Incomplete(Limit::Dependent) => {
                rounds += 1;
                so_far.learn(result);
            }
            Coverage::Incomplete(Limit::Endless) => {
                so_far.learn(result);
                let pilot = search(so_far.ready(&pilot(stage), is_last));
                let has_ended = pilot.coverage == Coverage::Sampled;
                so_far.pilot = Some(has_ended.then_some(pilot.counters.max_depth as u32));
                let decides = pilot.failure.is_some()
                    || !(has_ended || matches!(pilot.coverage, Coverage::Incomplete(Limit::Steps)));
                if decides || !is_last && so_far.is_beyond(stage) {
                    return pilot;
                }
                so_far.learn(pilot);
            }
            // Dynamic reduction cannot put off a path, so it begins anew.
            Coverage::Incomplete(Limit::Depth)
                if is_dynamic && is_last && stage.limits.depth.is_none() && !is_violated =>
            {
                deeper *= 2;
                so_far.learn(result);
            }
            _ => return result,
        }
    }
}

/// What the searches so far have found.
#[derive(Default)]
struct Past {
    last: Option<Result>,
    learned: Vec<Dependent>,
    /// How many steps dynamic reduction would have taken in all, by its own estimate.
    estimate: Option<u64>,
    /// Whether there was a pilot, and how long it was if it had an end.
    pilot: Option<Option<u32>>,
    /// Violations that walks have met. They are as real as any.
    by_chance: Vec<Found<Violation>>,
}

impl Past {
    fn spent(&self) -> Duration {
        self.last.as_ref().map_or(Duration::ZERO, |result| result.elapsed)
    }

    /// Whether there is time left for further stages, after one with this result.
    fn has_time_left(&self, stage: &Config, result: &Result) -> bool {
        let spent = self.spent() + result.elapsed;
        stage.limits.time.is_none_or(|limit| spent < limit)
    }

    /// A search that knows what was learned, and has the time that is left, or if others are to come, part of it.
    fn ready(&self, stage: &Config, is_last: bool) -> Config {
        let mut config = stage.clone();
        let left = config.limits.time.map(|limit| limit.saturating_sub(self.spent()));
        config.limits.time = left.map(|left| if is_last { left } else { left / SHARE });
        config
            .dependent
            .extend(self.learned.iter().flat_map(|pair| pair.sites));
        config
    }

    /// Sets how deep a search goes at first, and whether it is to be interrupted for a pilot.
    fn bound_depth(&self, config: &mut Config, deeper: u32) {
        if matches!(config.strategy, Strategy::Walk { .. }) && config.limits.depth.is_none() {
            config.limits.depth = Some(match self.pilot {
                Some(Some(length)) => LONG_WALK.max(length.saturating_mul(LONGER)),
                Some(None) => ENDLESS_WALK,
                None => LONG_WALK,
            });
            return;
        }
        if !matches!(config.strategy, Strategy::Dfs | Strategy::ByPreemptions)
            || config.limits.depth.is_some()
        {
            return;
        }
        if config.plan().reduction == Reduction::Dpor {
            let first = match self.pilot {
                Some(Some(length)) => DEEP.max(length.saturating_mul(2)),
                Some(None) => DEEP_ENDLESS,
                None => DEEP,
            };
            config.limits.depth = Some(first.saturating_mul(deeper));
        } else {
            config.deepening = Some(match self.pilot {
                Some(Some(length)) => FIRST_DEPTH.max(length.saturating_mul(LONGER)),
                Some(None) => FIRST_DEPTH_ENDLESS,
                None => FIRST_DEPTH,
            });
        }
        if self.pilot.is_none() {
            config.limits.endless = Some(ENDLESS);
        }
    }

    /// Did dynamic reduction not come to its end, and would not with more steps either?
    fn is_hopeless(&self, stage: &Config) -> bool {
        let is_again = stage.plan().reduction == Reduction::Dpor && self.estimate.is_some();
        is_again && self.estimate > stage.limits.steps.or(stage.limits.repetition)
    }

    /// Is one path too long for what a stage is meant for?
    fn is_beyond(&self, stage: &Config) -> bool {
        let room = stage.limits.steps.or(stage.limits.repetition);
        let length = match self.pilot {
            None => return false,
            Some(None) => return stage.limits.steps.is_some(),
            Some(Some(length)) => u64::from(length),
        };
        room.is_some_and(|steps| length * 4 > steps)
    }

    fn learn(&mut self, mut result: Result) {
        if result.plan.reduction == Reduction::Dpor {
            // Who knows nothing has no hope.
            let estimate = result.counters.estimated_steps;
            self.estimate = Some(if estimate == 0 { u64::MAX } else { estimate });
        }
        self.learned.append(&mut result.learned);
        if let Some(before) = self.last.take() {
            join(&mut result, before);
        }
        self.last = Some(result);
    }

    fn into_result(self) -> Option<Result> {
        let mut result = self.last?;
        result.learned = self.learned;
        if result.violations.is_empty() && !self.by_chance.is_empty() {
            add_violations(&mut result, self.by_chance);
            if result.failure.is_none() {
                result.coverage = Coverage::Incomplete(Limit::Violations);
            }
        }
        Some(result)
    }
}

/// What was learned, in words.
pub fn note(result: &Result) -> Option<String> {
    let [one, other] = &result.learned.first()?.places;
    let more = match result.learned.len() - 1 {
        0 => String::new(),
        n => format!(" (and {n} more)"),
    };
    let consequence = match result.plan.reduction {
        Reduction::None => "nothing is reduced",
        _ => "all their orders are explored",
    };
    Some(format!(
        "steps at {one} and {other}{more} access shared memory without synchronization: {consequence}"
    ))
}

/// Did it end by a bound that only [`plan`] can have set?
fn is_cut_by_us(result: &Result, has_time_left: bool) -> bool {
    result.failure.is_none()
        && result.violations.is_empty()
        && match result.coverage {
            Coverage::Sampled | Coverage::Incomplete(Limit::Steps | Limit::Depth | Limit::Repetition) => true,
            Coverage::Incomplete(Limit::Time) => has_time_left,
            _ => false,
        }
}

fn join(result: &mut Result, before: Result) {
    let is_complete = result.coverage.is_complete();
    for (outcome, times) in before.outcomes {
        result.outcomes.entry(outcome).or_insert_with(|| {
            // Executions that a search had no time to come to again.
            let times = if is_complete { 0 } else { times };
            result.counters.executions += times;
            times
        });
    }
    add_violations(result, before.violations);
    result.elapsed += before.elapsed;
    count_after(result, &before.counters);
    let walks = |pairs: &Option<PairCoverage>| pairs.map_or(0, |pairs| pairs.walks);
    if walks(&before.pairs) > walks(&result.pairs) {
        result.pairs = before.pairs;
    }
    if !is_complete {
        result.deepened = further(before.deepened, result.deepened);
    }
}

/// Adds the schedules of a search that came before.
pub fn count_after(result: &mut Result, before: &Counters) {
    let counters = &mut result.counters;
    counters.schedules_to_violation = match (before.schedules_to_violation, counters.schedules_to_violation) {
        (0, 0) => 0,
        (0, later) => before.schedules + later,
        (earlier, _) => earlier,
    };
    counters.schedules += before.schedules;
}

/// Which of two searches of the same program has come further in the order of preemptions.
fn further(one: Option<Deepened>, other: Option<Deepened>) -> Option<Deepened> {
    let share = |d: &Deepened| (u128::from(d.explored) << 32) / u128::from(d.known.max(1));
    [one, other]
        .into_iter()
        .flatten()
        .max_by_key(|deepened| (deepened.next, share(deepened)))
}

/// Those that are not known yet.
fn add_violations(result: &mut Result, more: Vec<Found<Violation>>) {
    for found in more {
        if !result
            .violations
            .iter()
            .any(|known| known.violation == found.violation)
        {
            result.violations.push(found);
        }
    }
    result.violations.sort_by(|a, b| a.violation.cmp(&b.violation));
}

#[cfg(test)]
mod tests;
