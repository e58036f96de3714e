//! The searches beside the main ones: walks that are made before them or in between, and one that only shows what is known.

use explore::{Audit, Config, Limits, Strategy};

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
