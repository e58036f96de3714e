//! The benches: what supervision and exploration cost, as ratios of what the machine charges for the same thing without us,
//! measured in one run on one machine, each with its aim. Times depend on the machine; ratios hardly do.
//!
//! `cargo run --release -p tracefork-tests --bin bench -- [--json] [--quick] [GROUP…]`
//!
//! `bench costs` prints where the time of a transition goes instead, for philosophers and for real programs.
//!
//! `--quick` measures next to nothing: it shows that the benches work.

mod bare;
mod caching;
mod checking;
mod costs;
mod family;
mod report;
mod running;
mod sample;
mod scouting;
mod subject;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::report::Row;

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

/// A group of rows that are measured together.
type Group = (&'static str, fn(&Effort) -> Result<Vec<Row>>);

const GROUPS: [Group; 12] = [
    // Before anything pins this thread to a core.
    ("jobs", checking::jobs),
    ("scouting", scouting::scouting),
    ("spared", caching::spared),
    ("branching", caching::branching),
    ("arrivals", caching::arrivals),
    ("computing", running::computing),
    ("stops", running::stops),
    ("transition", checking::transition),
    ("restores", checking::restores),
    ("growth", checking::growth),
    ("hits", caching::hits),
    ("processes", family::family),
];

fn run() -> Result<()> {
    let (mut json, mut effort, mut wanted, mut costs) = (false, Effort { quick: false }, Vec::new(), false);
    for arg in std::env::args().skip(1) {
        match arg.as_str() {
            "--json" => json = true,
            "--quick" => effort.quick = true,
            "costs" => costs = true,
            name if GROUPS.iter().any(|(group, _)| *group == name) => wanted.push(arg),
            other => bail!(
                "{other}: not --json, --quick, costs or one of {}",
                GROUPS.map(|g| g.0).join(", ")
            ),
        }
    }
    if costs {
        return costs::costs(&effort);
    }
    let mut rows = Vec::new();
    for (name, measure) in GROUPS {
        if wanted.is_empty() || wanted.iter().any(|group| group == name) {
            rows.extend(measure(&effort)?);
        }
    }
    if json {
        report::print_json(&rows);
    } else {
        report::print(&rows);
    }
    Ok(())
}
