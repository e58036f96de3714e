//! What a verdict covers, and what it assumes: one line under it, and `coverage` in the JSON.

use explore::{Config, Coverage, Deepened, Limit, Plan, Reduction};
use hooks::Preempt;
use serde::Serialize;
use syscall_model::net::Arrivals;

/// The part of the JSON result, as CLI.md documents it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Covered {
    pub preempt: &'static str,
    /// Where peers stand: `none`, `real`, `inside` or `explored`.
    pub peers: &'static str,
    /// What real servers' answers depend on: `connection` or `process`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_state: Option<&'static str>,
    pub arrivals: &'static str,
    pub late: u32,
    pub faults: Vec<String>,
    /// All schedules with so many preemptions were explored; `None` if that is not known, or if the number does not matter (`complete`).
    pub complete_up_to_preemptions: Option<u32>,
    pub complete: bool,
    /// The first number of preemptions with which not all was explored, where it is known what was.
    pub next: Option<Next>,
    /// What is covered, in words; always there if not everything is.
    pub statement: Option<String>,
    pub assumptions: Vec<String>,
}

/// How far a number of preemptions is explored. A share of what is *known*: steps that were not explored may lead to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Next {
    pub preemptions: u32,
    /// Steps that take so many preemptions.
    pub explored: u64,
    pub known: u64,
}

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    pub preempt: Preempt,
    pub arrivals: Arrivals,
    /// By name.
    pub faults: Vec<String>,
    pub fault_budget: u32,
    /// Some thread waited for time to pass while others could go on.
    pub waits_for_time: bool,
    pub peers: Option<Stand>,
}

/// Where peers stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// Outside. `by_process`: what servers answer may depend on what they were told on other connections.
    Real { by_process: bool },
    /// Processes beside the program, in one schedule.
    Inside,
    /// The same, in all schedules.
    Explored,
}

impl Stand {
    const fn name(self) -> &'static str {
        match self {
            Stand::Real { .. } => "real",
            Stand::Inside => "inside",
            Stand::Explored => "explored",
        }
    }

    const fn state(self) -> Option<&'static str> {
        match self {
            Stand::Real { by_process: true } => Some("process"),
            Stand::Real { by_process: false } => Some("connection"),
            Stand::Inside | Stand::Explored => None,
        }
    }

    /// What is assumed about peers that stand there.
    fn assumption(self, arrivals: Arrivals) -> String {
        match (self, arrivals) {
            (Stand::Inside, _) => {
                "peers run inside, in one fixed schedule; their data arrives immediately, clients connect in the order of the command line".to_owned()
            }
            (Stand::Explored, _) => {
                "schedules of the peers are explored, too, from the start of the program on; data arrives immediately".to_owned()
            }
            (Stand::Real { .. }, Arrivals::Ordered) => {
                "peers behave as recorded; their data arrives immediately and in order".to_owned()
            }
            (Stand::Real { .. }, Arrivals::Any { late }) => format!(
                "peers behave as recorded; their data arrives in any order, each item late at most {}",
                times(late)
            ),
        }
    }
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
        Preempt::Auto => "threads switch at locks, system calls, atomics and detected shared accesses (auto)",
        Preempt::Sync => "threads switch only at locks, system calls and atomics (sync)",
        Preempt::Syscall => "threads switch only at system calls (syscall)",
        Preempt::Memory => "threads switch at every possibly shared load and store (memory)",
    }
}

fn times(count: u32) -> String {
    match count {
        1 => "once".to_owned(),
        _ => format!("{count} times"),
    }
}

fn counted(count: u32, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

/// What can be said for sure of a search that left something out.
fn statement(asked: &Asked, coverage: Coverage, deepened: Option<Deepened>) -> Option<String> {
    let late = match asked.arrivals {
        Arrivals::Any { late } if asked.peers.is_some() => {
            format!(" (and {})", counted(late, "late arrival"))
        }
        _ => String::new(),
    };
    let complete = |bound: u32| format!("complete up to {}{late}", counted(bound, "preemption"));
    let share = |d: Deepened| {
        let percent = d.explored * 100 / d.known.max(1);
        format!("{percent} % of the {} steps known by then", d.known)
    };
    Some(match (coverage, deepened) {
        (Coverage::Complete | Coverage::Bounded { exact: true, .. }, _) => return None,
        // It was not to go further.
        (Coverage::Incomplete(Limit::Violations), None) => return None,
        (Coverage::Bounded { preemptions, .. }, _) => complete(preemptions),
        (_, Some(deepened)) => match deepened.complete {
            Some(bound) => format!("{}; {}: {}", complete(bound), deepened.next, share(deepened)),
            None => format!("not complete even without preemptions{late}: {}", share(deepened)),
        },
        (Coverage::Sampled, None) => "single schedules: complete for no number of preemptions".to_owned(),
        (Coverage::Incomplete(_), None) => {
            "complete for no number of preemptions: the search was not in their order".to_owned()
        }
    })
}

/// What a search with this result covers.
pub fn covered(
    asked: Asked,
    config: &Config,
    plan: &Plan,
    coverage: Coverage,
    deepened: Option<Deepened>,
) -> Covered {
    let deepened = deepened.filter(|_| !coverage.is_complete());
    let statement = statement(&asked, coverage, deepened);
    let mut assumptions = vec![
        "sequential consistency".to_owned(),
        switches(asked.preempt).to_owned(),
    ];
    assumptions.extend(asked.peers.map(|stand| stand.assumption(asked.arrivals)));
    let faults = asked.faults;
    assumptions.push(match (faults.is_empty(), asked.fault_budget) {
        (true, _) => "no faults".to_owned(),
        (false, budget) => format!("faults: {}, at most {budget}", faults.join(", ")),
    });
    if asked.waits_for_time {
        assumptions.push(
            "sleeps and timed waits end only when no other thread can run (see --faults timeout)".to_owned(),
        );
    }
    match plan.reduction {
        Reduction::None => {}
        _ => assumptions.push("operations on disjoint objects commute (audited)".to_owned()),
    }
    if config.hash {
        assumptions.push("128-bit state hashes do not collide".to_owned());
    }
    Covered {
        preempt: name(asked.preempt),
        peers: asked.peers.map_or("none", Stand::name),
        peer_state: asked.peers.and_then(Stand::state),
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
            _ => deepened.and_then(|deepened| deepened.complete),
        },
        complete: coverage.is_complete(),
        next: deepened.map(|deepened| Next {
            preemptions: deepened.next,
            explored: deepened.explored,
            known: deepened.known,
        }),
        statement,
        assumptions,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(has_peers: bool, coverage: Coverage, deepened: Option<Deepened>) -> Option<String> {
        let asked = Asked {
            preempt: Preempt::Auto,
            arrivals: Arrivals::Any { late: 1 },
            faults: Vec::new(),
            waits_for_time: false,
            fault_budget: 1,
            peers: has_peers.then_some(Stand::Real { by_process: false }),
        };
        statement(&asked, coverage, deepened)
    }

    #[test]
    fn the_statement_says_what_is_complete_and_of_what_the_share_is() {
        let cut = Coverage::Incomplete(Limit::Time);
        let reached = |next: u32| {
            Some(Deepened {
                complete: next.checked_sub(1),
                next,
                explored: 375,
                known: 1000,
            })
        };
        let told = |has_peers, next| said(has_peers, cut, reached(next)).unwrap_or_default();
        assert_eq!(
            told(false, 2),
            "complete up to 1 preemption; 2: 37 % of the 1000 steps known by then"
        );
        assert_eq!(
            told(true, 1),
            "complete up to 0 preemptions (and 1 late arrival); 1: 37 % of the 1000 steps known by then"
        );
        assert_eq!(
            told(false, 0),
            "not complete even without preemptions: 37 % of the 1000 steps known by then"
        );
        assert_eq!(said(false, Coverage::Complete, reached(2)), None);
        let bounded = |exact| {
            let coverage = Coverage::Bounded {
                preemptions: 2,
                exact,
            };
            said(false, coverage, None)
        };
        assert_eq!(bounded(true), None);
        assert_eq!(bounded(false).as_deref(), Some("complete up to 2 preemptions"));
        assert_eq!(said(false, Coverage::Incomplete(Limit::Violations), None), None);
        assert!(said(false, cut, None).is_some() && said(false, Coverage::Sampled, None).is_some());
    }
}
