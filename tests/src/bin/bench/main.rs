//! The benches: what supervision and exploration cost, as ratios of what the machine charges for the same thing without us,
//! measured in one run on one machine, each with its aim. Times depend on the machine; ratios hardly do.
//!
//! `cargo run --release -p tracefork-tests --bin bench -- [--json] [--quick]`
//!
//! `--quick` measures next to nothing: it shows that the benches work.

mod bare;
mod checking;
mod report;
mod running;
mod sample;
mod subject;

use std::process::ExitCode;

use anyhow::{Result, bail};

/// How much to measure.
pub struct Effort {
    quick: bool,
}

impl Effort {
    /// This much, or hardly anything.
    fn of<T>(&self, thorough: T, quick: T) -> T {
        if self.quick { quick } else { thorough }
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let (mut json, mut effort) = (false, Effort { quick: false });
    for arg in std::env::args().skip(1) {
        match arg.as_str() {
            "--json" => json = true,
            "--quick" => effort.quick = true,
            other => bail!("{other}: options are --json and --quick"),
        }
    }
    // Before anything is pinned to a core.
    let jobs = checking::jobs(&effort)?;
    let mut rows = vec![running::computing(&effort)?];
    rows.extend(running::stops(&effort)?);
    rows.push(checking::transition(&effort)?);
    rows.extend(checking::restores(&effort)?);
    rows.push(jobs);
    rows.extend(checking::growth(&effort)?);
    if json {
        report::print_json(&rows);
    } else {
        report::print(&rows);
    }
    Ok(())
}
