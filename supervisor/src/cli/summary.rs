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
        let late = match cache.late_answers {
            0 => String::new(),
            n => format!("; {n} late answers, kept (a longer --settle waits for them)"),
        };
        println!(
            "  cache ({}) {} hits, {} misses; connections {} logical, {} physical; {} peers started{late}",
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
    // Outcomes that begin alike are told apart by how they go on.
    let all = &report.outcomes;
    let sent = all.iter().flat_map(|outcome| outcome.sent.values().flatten());
    let same = Same {
        stdout: common_prefix(all.iter().map(|outcome| outcome.stdout.as_str())),
        stderr: common_prefix(all.iter().map(|outcome| outcome.stderr.as_str())),
        sent: common_prefix(sent.map(String::as_str)),
    };
    for outcome in all.iter().take(MAX_OUTCOMES) {
        print_outcome(outcome, &same);
    }
    if report.outcomes.len() > MAX_OUTCOMES {
        println!(
            "  … and {} more (--json shows all)",
            report.outcomes.len() - MAX_OUTCOMES
        );
    }
}

/// How many characters all outcomes begin with in common.
struct Same {
    stdout: usize,
    stderr: usize,
    sent: usize,
}

fn print_outcome(outcome: &Outcome, same: &Same) {
    let end = match (outcome.exit, outcome.signal) {
        (Some(status), _) => format!("exit {status}"),
        (_, Some(signal)) => crate::trace::signal_name(signal),
        _ if outcome.deadlock => "deadlock".to_owned(),
        _ if outcome.idle => "idle".to_owned(),
        _ => "no end".to_owned(),
    };
    println!(
        "  {end:<9} stdout {:?} stderr {:?} ({})",
        cut(&outcome.stdout, same.stdout),
        cut(&outcome.stderr, same.stderr),
        counted(outcome.executions, "execution")
    );
    // Outcomes may differ in nothing else.
    for (to, said) in &outcome.sent {
        let said: Vec<String> = said.iter().map(|connection| cut(connection, same.sent)).collect();
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

/// A text shortened to one line: its beginning, or, if all texts have that in common, where it is its own.
fn cut(text: &str, same: usize) -> String {
    const MAX: usize = 60;
    const KEPT: usize = 20;
    let skipped = if same < MAX { 0 } else { same - KEPT };
    let shown: String = text.chars().skip(skipped).take(MAX).collect();
    let before = if skipped > 0 { "…" } else { "" };
    let goes_on = text.chars().nth(skipped + MAX).is_some();
    format!("{before}{shown}{}", if goes_on { "…" } else { "" })
}

/// How many characters texts begin with in common that are not all the same; none otherwise.
fn common_prefix<'a>(mut texts: impl Iterator<Item = &'a str>) -> usize {
    let Some(first) = texts.next() else { return 0 };
    let others = texts.filter(|text| *text != first);
    let common = |text: &str| {
        first
            .chars()
            .zip(text.chars())
            .take_while(|(a, b)| a == b)
            .count()
    };
    others.map(common).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_same_is_left_out() {
        let (one, two) = (
            format!("{}1", "same ".repeat(20)),
            format!("{}2", "same ".repeat(20)),
        );
        let same = common_prefix([one.as_str(), two.as_str()].into_iter());
        assert_eq!(same, 100);
        assert_eq!(cut(&one, same), "…same same same same 1");
        assert_eq!(cut("short", 3), "short");
        assert_eq!(cut(&one, 0).chars().count(), 61);
        assert_eq!(common_prefix(["alike", "alike"].into_iter()), 0);
    }
}
