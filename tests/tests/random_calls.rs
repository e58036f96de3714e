//! Random system calls have the same results natively and supervised, but for what `docs/differences.md` says.
//!
//! A few seeds by default; `TRACEFORK_RANDOM_CALLS=100` asks for more, `TRACEFORK_SEED=7` for others.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use tracefork_tests::command_under_test;
use tracefork_tests::random_calls::Comparison;
use tracefork_tests::supervised::Tracefork;

/// Seeds, unless the environment says how many.
const SEEDS: u64 = 8;
/// Calls per seed.
const CALLS: usize = 700;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tracefork = Tracefork::new(command_under_test!());
    let asked = std::env::var("TRACEFORK_RANDOM_CALLS");
    let seeds = asked.map_or(SEEDS, |text| text.parse().expect("a number in the environment"));
    let first = test_seeds::seed_or(1);
    let trials = (first..first + seeds).map(|seed| {
        let tracefork = tracefork.clone();
        Trial::test(format!("seed {seed}"), move || {
            let comparison = Comparison::new(&tracefork, seed, CALLS);
            comparison
                .and_then(|comparison| comparison.check())
                .map_err(|error| Failed::from(format!("{error:#}")))
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
