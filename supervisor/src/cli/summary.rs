//! What a person reads at the end of a check.

use crate::check::counterexample::{Counterexample, table};
use crate::report::Report;

/// Outcomes shown; the rest is in the JSON.
const MAX_OUTCOMES: usize = 12;

pub fn print(report: &Report, found: &[Counterexample]) {
    for counterexample in found {
        print_counterexample(counterexample);
    }
    print_outcomes(report);
    let verdict = match report.verdict {
        "ok" => "ok: every schedule was explored, no violation",
        "violation" => "violation found",
        "incomplete" => "incomplete: no violation so far",
        other => other,
    };
    println!("{verdict}");
    for note in &report.notes {
        println!("  note: {note}");
    }
    println!(
        "  states {} new, {} revisited; transitions {}; executions {}; depth {}; {:.2} s",
        report.states.new,
        report.states.revisited,
        report.transitions,
        report.executions,
        report.max_depth,
        report.time_s
    );
    if let Some(checkpoints) = &report.checkpoints {
        println!(
            "  checkpoints ({}) {} taken, {} restored, {} live at most; {} steps re-executed",
            checkpoints.backend,
            checkpoints.taken,
            checkpoints.restored,
            checkpoints.live_max,
            checkpoints.reexecuted_steps
        );
    }
    if let Some(cache) = &report.cache {
        println!(
            "  cache ({}) {} hits, {} misses; connections {} logical, {} physical; {} peers started",
            cache.mode,
            cache.hits,
            cache.misses,
            cache.logical_connections,
            cache.physical_connections,
            cache.peer_starts
        );
    }
    // The last line is a command, ready to be copied.
    if let Some(counterexample) = found.first() {
        println!("tracefork replay {}", counterexample.path.display());
    }
}

fn print_counterexample(found: &Counterexample) {
    println!("{}: {}", found.violation.kind.name(), found.violation.message);
    let minimal = if found.is_minimal {
        ", the fewest possible"
    } else {
        ""
    };
    println!(
        "  {} steps, {} preemption(s){minimal}\n",
        found.trace.steps.len(),
        found.preemptions
    );
    for line in table(&found.trace) {
        println!("  {line}");
    }
    println!();
    for line in &found.stacks {
        println!("  {line}");
    }
    println!();
}

fn print_outcomes(report: &Report) {
    println!("{} outcome(s):", report.outcomes.len());
    for outcome in report.outcomes.iter().take(MAX_OUTCOMES) {
        let end = match (outcome.exit, outcome.signal) {
            (Some(status), _) => format!("exit {status}"),
            (_, Some(signal)) => crate::trace::signal_name(signal),
            _ if outcome.deadlock => "deadlock".to_owned(),
            _ if outcome.idle => "idle".to_owned(),
            _ => "no end".to_owned(),
        };
        println!(
            "  {end:<9} stdout {:?} stderr {:?} ({} executions)",
            cut(&outcome.stdout),
            cut(&outcome.stderr),
            outcome.executions
        );
    }
    if report.outcomes.len() > MAX_OUTCOMES {
        println!(
            "  … and {} more (--json shows all)",
            report.outcomes.len() - MAX_OUTCOMES
        );
    }
}

fn cut(text: &str) -> String {
    const MAX: usize = 60;
    match text.char_indices().nth(MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
