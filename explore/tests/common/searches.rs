//! Searches through toy systems, and systems that come in sizes.

use super::{Op, Program};
use explore::{Config, Counters, Reduction, Search, SearchResult};

pub fn keep_going() -> Config {
    Config {
        max_violations: None,
        ..Config::default()
    }
}

pub fn stateless(reduction: Reduction) -> Config {
    Config {
        hash: false,
        reduction,
        ..keep_going()
    }
}

pub fn run(program: &Program, config: Config) -> SearchResult<Program> {
    Search::new(config).run(|_| Ok(program.clone()))
}

pub fn counters(program: &Program, config: Config) -> Counters {
    let result = run(program, config);
    assert!(result.failure.is_none(), "{:?}", result.failure);
    assert!(result.coverage.is_complete(), "{:?}", result.coverage);
    result.counters
}

/// `n` threads with `k` writes each, to one cell or to one each.
pub fn writers(n: u8, k: u8, shared: bool) -> Program {
    Program::new(
        (0..n)
            .map(|t| vec![Op::Set(if shared { 0 } else { t }, t); k.into()])
            .collect(),
    )
}

/// (nk)! / k!^n
pub fn interleavings(n: u64, k: u64) -> u64 {
    let factorial = |m: u64| (1..=m).product::<u64>();
    factorial(n * k) / factorial(k).pow(n as u32)
}
