//! What a verdict covers, and what it assumes: one line under it, and `coverage` in the JSON.

use crate::hooks::Preempt;
use explore::{Config, Coverage, Plan, Reduction};
use serde::Serialize;
use syscall_model::net::Arrivals;

/// The part of the JSON result, as CLI.md documents it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Covered {
    pub preempt: &'static str,
    pub arrivals: &'static str,
    pub late: u32,
    pub faults: Vec<String>,
    /// All schedules with so many preemptions were explored; `None` if that is not known, or if the number does not matter (`complete`).
    pub complete_up_to_preemptions: Option<u32>,
    pub complete: bool,
    pub assumptions: Vec<String>,
}

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    pub preempt: Preempt,
    pub arrivals: Arrivals,
    /// By name.
    pub faults: Vec<String>,
    pub fault_budget: u32,
    pub has_peers: bool,
}

const fn name(preempt: Preempt) -> &'static str {
    match preempt {
        Preempt::Auto => "auto",
        Preempt::Sync => "sync",
        Preempt::Syscall => "syscall",
        Preempt::Memory => "memory",
    }
}

const fn switches(preempt: Preempt) -> &'static str {
    match preempt {
        Preempt::Auto => {
            "threads switch at locks, calls, atomics and the shared accesses that were found (auto)"
        }
        Preempt::Sync => "threads switch at locks, calls and atomics only (sync)",
        Preempt::Syscall => "threads switch at system calls only (syscall)",
        Preempt::Memory => "threads switch at every load and store that may be shared (memory)",
    }
}

fn times(count: u32) -> String {
    match count {
        1 => "once".to_owned(),
        _ => format!("{count} times"),
    }
}

/// What a search with this result covers.
pub fn covered(asked: Asked, config: &Config, plan: &Plan, coverage: Coverage) -> Covered {
    let mut assumptions = vec![
        "sequential consistency".to_owned(),
        switches(asked.preempt).to_owned(),
    ];
    if asked.has_peers {
        assumptions.push(match asked.arrivals {
            Arrivals::Ordered => {
                "peers as they answered, what they say arriving at once and in order".to_owned()
            }
            Arrivals::Any { late } => format!(
                "peers as they answered, what they say arriving in any order, each thing late at most {} when it is looked for",
                times(late)
            ),
        });
    }
    let faults = asked.faults;
    assumptions.push(match (faults.is_empty(), asked.fault_budget) {
        (true, _) => "no faults".to_owned(),
        (false, budget) => format!("faults: {}, at most {budget}", faults.join(", ")),
    });
    match plan.reduction {
        Reduction::None => {}
        _ => assumptions.push("operations that touch nothing in common commute (audited)".to_owned()),
    }
    if config.hash {
        assumptions.push("128-bit state hashes do not collide".to_owned());
    }
    Covered {
        preempt: name(asked.preempt),
        arrivals: match asked.arrivals {
            Arrivals::Ordered => "ordered",
            Arrivals::Any { .. } => "any",
        },
        late: match asked.arrivals {
            Arrivals::Ordered => 0,
            Arrivals::Any { late } => late,
        },
        faults,
        complete_up_to_preemptions: match coverage {
            Coverage::Bounded { preemptions, .. } => Some(preemptions),
            _ => None,
        },
        complete: coverage.is_complete(),
        assumptions,
    }
}
