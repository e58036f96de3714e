//! The searches beside the main ones: walks that are made before them or in between, and one that only shows what is known.

use explore::{Audit, Config, Coverage, Limit, Limits, Reduction, Strategy};

/// Steps of the first try.
pub(super) const SHORT: u64 = 4_000;
/// Steps of the pilot. One that is longer has no end, for all we know.
const PILOT: u64 = 40_000;
/// Walks, and their steps at most, that are made before a search with dynamic reduction, see [`explore::Audit`].
const WALKS: u64 = 16;
const TRIAL: u64 = 1_000;

/// Random walks that find out which operations do more than they announce.
pub(super) fn trial(config: &Config) -> Config {
    Config {
        strategy: Strategy::Random { walks: Some(WALKS) },
        audit: Audit::Only,
        jobs: 1,
        max_violations: None,
        limits: Limits {
            steps: Some(TRIAL),
            ..config.limits.clone()
        },
        ..config.clone()
    }
}

/// A violation is known: the search may show it in its own order, and more simply, if that does not take long.
pub(super) fn quick(config: &Config) -> Config {
    let steps = config.limits.steps.map_or(SHORT, |steps| steps.min(SHORT));
    Config {
        limits: Limits {
            steps: Some(steps),
            hope: None,
            ..config.limits.clone()
        },
        ..config.clone()
    }
}

/// One schedule to its end.
pub(super) fn pilot(config: &Config) -> Config {
    Config {
        strategy: Strategy::Straight { walks: 1 },
        hash: false,
        jobs: 1,
        bound_preemptions: None,
        audit: Audit::Off,
        limits: Limits {
            steps: Some(PILOT),
            repetition: None,
            depth: None,
            ..config.limits.clone()
        },
        ..config.clone()
    }
}

/// Walks that guide themselves. Each sample has random numbers of its own.
pub(super) fn sample(config: &Config, walks: u64, steps: Option<u64>, number: u64) -> Config {
    Config {
        strategy: Strategy::Walk { walks: Some(walks) },
        seed: config.seed.wrapping_mul(3).wrapping_add(number),
        hash: false,
        limits: Limits {
            steps,
            ..config.limits.clone()
        },
        ..config.clone()
    }
}

/// Steps of the look that follows a search which a bound of the user's has cut, at most; and at most this part of what the search has made.
const LATE_LOOK: u64 = 2_000;
const LATE_SHARE: u64 = 4;
/// Of limited time the look has this part.
const LATE_TIME: u32 = 10;

/// Whether something can be said of a search that is cut only after a look in the order of preemptions. With a bound on the depth, that look would cut paths, too.
fn needs_look(config: &Config) -> bool {
    matches!(config.strategy, Strategy::Dfs | Strategy::Bfs)
        && (config.bound_preemptions, config.limits.depth) == (None, None)
}

/// A search that was asked for, with time left for the look that follows it.
pub(super) fn leaving_time(config: &Config) -> Config {
    let mut config = config.clone();
    if needs_look(&config) {
        config.limits.time = config.limits.time.map(|limit| limit - limit / LATE_TIME);
    }
    config
}

/// A search ([`leaving_time`]) ended at a bound of the user's, and not in the order of preemptions, so that nothing can be said of what it covers: a look in that
/// order. It has a fraction of the steps, so the bound keeps its meaning.
pub(super) fn late_look(config: &Config, result: &super::Result) -> Option<Config> {
    let is_cut = matches!(
        result.coverage,
        Coverage::Incomplete(Limit::States | Limit::Steps | Limit::Time)
    );
    let is_silent = result.violations.is_empty() && result.failure.is_none() && result.deepened.is_none();
    if !(is_cut && is_silent && needs_look(config)) {
        return None;
    }
    let made = result.counters.transitions + result.counters.reexecuted_steps;
    Some(Config {
        strategy: Strategy::ByPreemptions,
        reduction: Reduction::Auto,
        hash: true,
        limits: Limits {
            steps: Some((made / LATE_SHARE).clamp(1, LATE_LOOK)),
            states: None,
            time: config.limits.time.map(|limit| limit / (LATE_TIME - 1)),
            ..config.limits.clone()
        },
        ..config.clone()
    })
}
