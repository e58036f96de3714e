//! What a person reads at the end of a check.

use super::style::{BAD, GOOD, UNSURE};
use crate::check::counterexample::{Counterexample, table};
use crate::report::{Outcome, Report};
use anstream::println;

/// Outcomes shown; the rest is in the JSON.
const MAX_OUTCOMES: usize = 12;

pub fn print(report: &Report, found: &[Counterexample]) {
    for counterexample in found {
        print_counterexample(counterexample);
    }
    print_outcomes(report);
    let (style, verdict) = match report.verdict {
        "ok" => (GOOD, "ok: every schedule was explored, no violation"),
        "violation" => (BAD, "violation found"),
        "incomplete" => (UNSURE, "incomplete: no violation so far"),
        other => (UNSURE, other),
    };
    println!("{style}{verdict}{style:#}");
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
        let page = counterexample.path.with_extension("html");
        println!(
            "tracefork show {} --html {} --stacks",
            counterexample.path.display(),
            page.display()
        );
        println!("tracefork replay {}", counterexample.path.display());
    }
}

fn print_counterexample(found: &Counterexample) {
    let kind = found.violation.kind.name();
    println!("{BAD}{kind}{BAD:#}: {}", found.violation.message);
    let minimal = if found.is_minimal {
        ", the fewest possible"
    } else {
        ""
    };
    println!(
        "  {}, {}{minimal}\n",
        counted(found.trace.steps.len() as u64, "step"),
        counted(u64::from(found.preemptions), "preemption")
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
    println!("{}:", counted(report.outcomes.len() as u64, "outcome"));
    for outcome in report.outcomes.iter().take(MAX_OUTCOMES) {
        print_outcome(outcome);
    }
    if report.outcomes.len() > MAX_OUTCOMES {
        println!(
            "  … and {} more (--json shows all)",
            report.outcomes.len() - MAX_OUTCOMES
        );
    }
}

fn print_outcome(outcome: &Outcome) {
    let end = match (outcome.exit, outcome.signal) {
        (Some(status), _) => format!("exit {status}"),
        (_, Some(signal)) => crate::trace::signal_name(signal),
        _ if outcome.deadlock => "deadlock".to_owned(),
        _ if outcome.idle => "idle".to_owned(),
        _ => "no end".to_owned(),
    };
    println!(
        "  {end:<9} stdout {:?} stderr {:?} ({})",
        cut(&outcome.stdout),
        cut(&outcome.stderr),
        counted(outcome.executions, "execution")
    );
    // Outcomes may differ in nothing else.
    for (to, said) in &outcome.sent {
        let said: Vec<String> = said.iter().map(|connection| cut(connection)).collect();
        println!(
            "            sent to {to}: {}",
            format!("{said:?}").trim_matches(['[', ']'])
        );
    }
}

/// So many of them.
pub fn counted(number: u64, thing: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{ending}")
}

fn cut(text: &str) -> String {
    const MAX: usize = 60;
    match text.char_indices().nth(MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
