//! Every guest searched by two workers, again and again: `cargo run -p tracefork-tests --bin desyncs -- [--runs N] [--minutes N] [--load THREADS]`.
//! Exit code 1 if a search ended in a desync, or found something else than one worker does.

use std::process::ExitCode;

use tracefork_tests::desyncs::{Plan, run};

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let plan = Plan::parse(&arguments)?;
    // Built beside this program.
    let tracefork = std::env::current_exe()?.with_file_name("tracefork-under-test");
    Ok(match run(&tracefork, &plan)? {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
