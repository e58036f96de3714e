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

/// What campaigns have found: seeds, and the steps that it takes.
const FOUND: &[(u64, &[usize])] = &[
    (68, &[585]),
    (7000, &[87]),
    (7002, &[70, 151, 377]),
    (7007, &[114]),
    (7009, &[126, 163, 179, 206, 229, 299, 372]),
    (7013, &[58]),
    (7016, &[61, 155, 293, 505]),
    (7018, &[166]),
    (810_007, &[207, 322, 325, 389, 449, 451, 459]),
    (810_010, &[373, 460, 536, 685]),
    (810_016, &[116, 119]),
    (810_019, &[278, 490, 583]),
    (810_020, &[15, 219]),
    (810_022, &[267, 389]),
    (810_065, &[87, 182, 608]),
    (810_072, &[108, 131, 208, 211, 632, 642]),
    (910_014, &[259]),
    (910_025, &[173, 426]),
    (910_027, &[88, 416]),
    (910_118, &[14, 39, 47]),
    (910_136, &[186, 628]),
    (910_240, &[571]),
    (920_357, &[376, 589, 645]),
    (930_024, &[622, 650, 696]),
];

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
    let found = FOUND.iter().map(|&(seed, steps)| {
        let tracefork = tracefork.clone();
        Trial::test(format!("found with {seed}"), move || {
            Comparison::new(&tracefork, seed, CALLS)
                .and_then(|comparison| comparison.check_steps(steps))
                .map_err(|error| Failed::from(format!("{error:#}")))
        })
    });
    let trials = trials.chain(found).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}
