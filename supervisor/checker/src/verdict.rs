//! From the result of a search to its report: the verdict, and an honest account of what it rests on.

use crate::counterexample::{Counterexample, Needs};
use crate::report::{self, Report, States, Verdict};
use crate::{CheckSystem, stages};
use explore::{Coverage, Limit, SearchResult};

/// What a search has found, and what it says about the program.
pub fn report(
    seed: u64,
    result: &SearchResult<CheckSystem>,
    found: &[Counterexample],
    backend: String,
) -> Report {
    let counters = &result.counters;
    let violations: Vec<report::Violation> = found.iter().map(violation).collect();
    let verdict = match (violations.is_empty(), result.coverage) {
        (false, _) => Verdict::Violation,
        (true, coverage) if coverage.is_complete() => Verdict::Ok,
        (true, _) => Verdict::Incomplete,
    };
    let mut notes: Vec<String> = result.plan.notes.iter().map(|note| (*note).to_owned()).collect();
    notes.extend(stages::note(result));
    notes.extend(coverage_note(result.coverage));
    if counters.executions == 0 && verdict == Verdict::Incomplete {
        notes.push(format!(
            "no schedule ended within {} steps: raise the limits, cut paths with --max-depth, or sample whole schedules with --search walk",
            counters.max_depth
        ));
    }
    Report {
        verdict,
        violations,
        states: States {
            new: counters.states_new,
            revisited: counters.states_revisited,
        },
        transitions: counters.transitions,
        executions: counters.executions,
        sampling: result.pairs.map(report::Sampling::from),
        max_depth: counters.max_depth,
        checkpoints: Some(report::Checkpoints {
            backend,
            taken: counters.marks_taken,
            restored: counters.marks_restored,
            live_max: counters.marks_live_max,
            reexecuted_steps: counters.reexecuted_steps,
        }),
        audit: Some(report::Audit {
            pairs: counters.audited_pairs,
            steps: counters.audit_steps,
            dependent: result.learned.len() as u64,
        }),
        outcomes: result
            .outcomes
            .iter()
            .map(|(ending, &times)| ending.outcome(times))
            .collect(),
        notes,
        time_s: result.elapsed.as_secs_f64(),
        peak_rss_bytes: report::peak_rss_bytes(),
        seed,
        version: env!("CARGO_PKG_VERSION"),
        ..Report::default()
    }
}

fn violation(found: &Counterexample) -> report::Violation {
    let needs = Needs::of(&found.trace.steps);
    report::Violation {
        kind: found.violation.kind.name(),
        message: found.violation.message.clone(),
        thread: found.violation.thread,
        trace: found.path.as_ref().ok().map(|path| path.display().to_string()),
        steps: found.trace.steps.len() as u64,
        preemptions: u64::from(found.preemptions),
        late_answers: needs.late_answers,
        faults: needs.faults,
        stacks: found.stacks.clone(),
    }
}

/// An honest account of what was not covered.
fn coverage_note(coverage: Coverage) -> Option<String> {
    let text = match coverage {
        Coverage::Complete => return None,
        Coverage::Bounded {
            preemptions,
            exact: true,
        } => {
            format!("no schedule needs more than {preemptions} preemptions: the bound excluded nothing")
        }
        Coverage::Bounded {
            preemptions,
            exact: false,
        } => {
            format!("only schedules with at most {preemptions} preemptions were explored")
        }
        Coverage::Sampled => "schedules were sampled: the verdict does not cover the others".to_owned(),
        Coverage::Incomplete(limit) => match limit {
            Limit::States => "the limit on states was reached".to_owned(),
            Limit::Depth => "paths were cut at the depth limit; everything else was explored".to_owned(),
            Limit::Steps | Limit::Endless | Limit::Repetition | Limit::Goal | Limit::Dependent => {
                "the limit on steps was reached".to_owned()
            }
            Limit::Time => "the time limit was reached".to_owned(),
            Limit::Memory => "the memory limit was reached".to_owned(),
            Limit::Stopped => "interrupted".to_owned(),
            Limit::Violations => "stopped at the first violation; use --keep-going to continue".to_owned(),
            Limit::Failure => "the search failed".to_owned(),
        },
    };
    Some(text)
}
