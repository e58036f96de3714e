//! Where property tests begin.
//!
//! `cargo test` tries the same cases everywhere and every time: a change that breaks something is told apart from a case that nobody had tried. Fresh
//! cases are the business of a campaign (`cargo run --release -p tracefork-tests --bin campaign`), which runs the same tests with [`VARIABLE`] set
//! to one seed after the other. Setting it by hand repeats what a campaign has found.
#![forbid(unsafe_code)]

use proptest::test_runner::{Config, RngAlgorithm, RngSeed};

/// The environment variable that asks for other cases than the usual ones.
pub const VARIABLE: &str = "TRACEFORK_SEED";

/// The seed of `cargo test`.
const USUAL: u64 = 1;

/// The settings of all property tests: so many cases, from the seed. What proptest would take from the environment (`PROPTEST_*`) or from files
/// of earlier failures does not count: a case that has failed once becomes a test of its own.
///
/// # Panics
/// The variable is set to something that is no number.
pub fn property(cases: u32) -> Config {
    Config {
        cases,
        rng_seed: RngSeed::Fixed(seed_or(USUAL)),
        rng_algorithm: RngAlgorithm::ChaCha,
        failure_persistence: None,
        max_local_rejects: 65_536,
        max_global_rejects: 1024,
        max_flat_map_regens: 1_000_000,
        max_shrink_time: 0,
        max_shrink_iters: 4096,
        max_default_size_range: 100,
        verbose: 0,
        fork: false,
        timeout: 0,
        ..Config::default()
    }
}

/// The seed, or `usual` if the environment asks for no other.
///
/// # Panics
/// The variable is set to something that is no number.
pub fn seed_or(usual: u64) -> u64 {
    let Some(text) = std::env::var_os(VARIABLE) else {
        return usual;
    };
    let number = text.to_str().and_then(|text| text.parse().ok());
    number.unwrap_or_else(|| panic!("{VARIABLE} is {text:?}, not a number"))
}
