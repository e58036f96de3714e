//! `--reduce auto`: which search suits a program is found by trying.
//!
//! A visited set with sleep sets drops no state, so it suffers where many threads do unrelated things (eight philosophers have millions of states).
//! Dynamic reduction drops them, one schedule for each order of what conflicts (254 for those philosophers), but it remembers no state, so it
//! suffers from loops and from many orders that come to the same. Neither can be told from the program. So: a short try of the first, which is the end of it
//! for small programs; then a longer one of the second; and if neither came to an end, the first without a bound of ours.
//!
//! The bounds are counted in steps, not in time: the same program is explored in the same way everywhere.

use super::CheckSystem;
use explore::{Config, Coverage, Limit, Limits, Reduction, SearchResult, Strategy};
use std::time::Duration;

/// Steps of the first try.
const SHORT: u64 = 4_000;
/// Steps of the second.
const LONG: u64 = 30_000;
/// A path of the second try that is longer is in a loop.
const DEEP: u32 = 5_000;

type Result = SearchResult<CheckSystem>;

/// The searches to make, one after the other until one decides.
pub fn plan(config: &Config) -> Vec<Config> {
    let is_free = config.strategy == Strategy::Dfs
        && config.reduction == Reduction::Auto
        && config.hash
        && config.bound_preemptions.is_none()
        // Who bounds states or depth has one search in mind.
        && (config.limits.states, config.limits.depth, config.limits.steps) == (None, None, None);
    if !is_free {
        return vec![config.clone()];
    }
    let bounded = |steps: u64, depth: Option<u32>| Config {
        limits: Limits {
            steps: Some(steps),
            depth,
            ..config.limits.clone()
        },
        ..config.clone()
    };
    let stateless = Config {
        hash: false,
        jobs: 1,
        ..bounded(LONG, Some(DEEP))
    };
    vec![bounded(SHORT, None), stateless, config.clone()]
}

/// Makes the searches of a plan. What the last one says counts; its outcomes and violations are joined by those of the others, which are as real.
pub fn run(stages: &[Config], search: impl Fn(Config) -> Result) -> Option<Result> {
    let mut so_far: Option<Result> = None;
    for (number, stage) in stages.iter().enumerate() {
        let mut config = stage.clone();
        let spent = so_far.as_ref().map_or(Duration::ZERO, |result| result.elapsed);
        config.limits.time = config.limits.time.map(|limit| limit.saturating_sub(spent));
        let mut result = search(config);
        if let Some(before) = so_far {
            join(&mut result, before);
        }
        let is_decided = number + 1 == stages.len() || !is_cut_by_us(&result);
        so_far = Some(result);
        if is_decided {
            break;
        }
    }
    so_far
}

/// Did it end by a bound that only [`plan`] can have set?
fn is_cut_by_us(result: &Result) -> bool {
    result.failure.is_none()
        && result.violations.is_empty()
        && matches!(result.coverage, Coverage::Incomplete(Limit::Steps | Limit::Depth))
}

fn join(result: &mut Result, before: Result) {
    for outcome in before.outcomes.into_keys() {
        result.outcomes.entry(outcome).or_insert(0);
    }
    result.elapsed += before.elapsed;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_says_nothing_gets_three_tries_the_last_without_a_bound() {
        let stages = plan(&Config::default());
        let bounds: Vec<_> = stages.iter().map(|s| (s.hash, s.limits.steps)).collect();
        assert_eq!(bounds, [(true, Some(SHORT)), (false, Some(LONG)), (true, None)]);
        assert_eq!(stages[2], Config::default());
    }

    #[test]
    fn who_asks_for_something_gets_that() {
        let asked = [
            Config {
                reduction: Reduction::Sleep,
                ..Config::default()
            },
            Config {
                hash: false,
                ..Config::default()
            },
            Config {
                strategy: Strategy::Bfs,
                ..Config::default()
            },
            Config {
                bound_preemptions: Some(1),
                ..Config::default()
            },
            Config {
                limits: Limits {
                    states: Some(10),
                    ..Limits::default()
                },
                ..Config::default()
            },
        ];
        for config in asked {
            assert_eq!(plan(&config), [config]);
        }
    }
}
