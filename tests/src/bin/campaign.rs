//! Property tests with fresh seeds: `cargo run --release -p tracefork-tests --bin campaign -- [--minutes N] [--seed FIRST]`.
//! Exit code 1 if a case was found that fails.

use std::process::ExitCode;

use tracefork_tests::campaign::{Plan, run};

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_fine = run(&Plan::parse(&arguments)?)?;
    Ok(if is_fine {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
