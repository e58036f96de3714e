//! What a person reads at the end of a check.

use super::style::{BAD, GOOD, UNSURE};
use checker::counterexample::{Counterexample, Needs};
use checker::profile::Profiled;
use checker::report::{self, Outcome, Report, Verdict, counted};
use failure::Failure;
use std::fmt::Write as _;
use trace::Step;
use views::table;

/// Outcomes shown; the rest is in the JSON.
const MAX_OUTCOMES: usize = 12;

/// Prints the summary.
pub fn print(report: &Report, found: &[Counterexample]) -> Result<(), Failure> {
    super::style::print(&text(report, found))
}

/// A line more. To write to a string does not fail.
macro_rules! line {
    ($out:ident, $($text:tt)*) => {{
        let _ = writeln!($out, $($text)*);
    }};
}

fn text(report: &Report, found: &[Counterexample]) -> String {
    let mut out = String::new();
    for counterexample in found {
        print_counterexample(counterexample, &mut out);
    }
    print_outcomes(report, &mut out);
    print_verdict(report, &mut out);
    print_figures(report, &mut out);
    // The last line is a command, ready to be copied.
    let first = found.first();
    if let Some(path) = first.and_then(|counterexample| counterexample.path.as_deref().ok()) {
        let page = path.with_extension("html");
        let (path, page) = (path.display(), page.display());
        line!(out, "tracefork show {path} --html {page} --stacks");
        line!(out, "tracefork replay {path}");
    }
    out
}

/// The verdict, what it covers, and what is to be said about it.
fn print_verdict(report: &Report, out: &mut String) {
    let (style, verdict) = match report.verdict {
        Verdict::Ok => (GOOD, "ok: every schedule was explored, no violation"),
        Verdict::Violation => (BAD, "violation found"),
        Verdict::Incomplete => (UNSURE, "incomplete: no violation so far"),
        Verdict::Error => (UNSURE, "error"),
    };
    line!(out, "{style}{verdict}{style:#}");
    if let Some(statement) = &report.coverage.statement {
        line!(out, "  {statement}");
    }
    if !report.coverage.assumptions.is_empty() {
        line!(out, "  assumes {}", report.coverage.assumptions.join("; "));
    }
    for line in report.profile.iter().flat_map(Profiled::lines) {
        line!(out, "  {line}");
    }
    for warning in &report.warnings {
        line!(out, "  {UNSURE}warning{UNSURE:#}: {warning}");
    }
    for note in &report.notes {
        line!(out, "  note: {note}");
    }
}

fn print_figures(report: &Report, out: &mut String) {
    line!(
        out,
        "  states {} new, {} revisited; transitions {}; executions {}; depth {}; {:.2} s",
        report.states.new,
        report.states.revisited,
        report.transitions,
        report.executions,
        report.max_depth,
        report.time_s
    );
    if let Some(sampling) = &report.sampling {
        line!(
            out,
            "  sampled {}: {} of conflicting operations seen, in the later half {} new per thousand",
            counted(sampling.walks, "schedule"),
            counted(sampling.pairs, "order"),
            sampling.new_pairs_per_thousand_walks
        );
    }
    if let Some(checkpoints) = &report.checkpoints {
        line!(
            out,
            "  checkpoints ({}) {} taken, {} restored, {} live at most; {} steps re-executed",
            checkpoints.backend,
            checkpoints.taken,
            checkpoints.restored,
            checkpoints.live_max,
            checkpoints.reexecuted_steps
        );
    }
    if let Some(cache) = report.cache.as_ref().filter(|cache| cache.in_use) {
        let late = match cache.late_answers {
            0 => String::new(),
            n => format!("; {} came late", counted(n, "answer")),
        };
        line!(
            out,
            "  cache ({}) {} hits, {} misses; connections {} logical, {} physical; {} started{late}",
            cache.mode,
            cache.hits,
            cache.misses,
            cache.logical_connections,
            cache.physical_connections,
            counted(cache.peer_starts, "peer")
        );
    }
}

/// What it takes for a counterexample to happen, if that is more than a schedule.
pub fn needs(preemptions: u32, steps: &[Step]) -> Option<String> {
    let Needs { late_answers, faults } = Needs::of(steps);
    if late_answers + faults == 0 {
        return None;
    }
    let parts = [
        (u64::from(preemptions), "preemption"),
        (late_answers, "late answer"),
        (faults, "fault"),
    ];
    let parts = parts.into_iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts.map(|(count, what)| counted(count, what)).collect();
    Some(format!("needs: {}", parts.join(", ")))
}

fn print_counterexample(found: &Counterexample, out: &mut String) {
    let kind = found.violation.kind.name();
    line!(out, "{BAD}{kind}{BAD:#}: {}", found.violation.message);
    let minimal = if found.is_minimal {
        ", the fewest possible"
    } else {
        ""
    };
    line!(
        out,
        "  {}, {}{minimal}",
        counted(found.trace.steps.len() as u64, "step"),
        counted(u64::from(found.preemptions), "preemption")
    );
    if let Some(needs) = needs(found.preemptions, &found.trace.steps) {
        line!(out, "  {needs}");
    }
    out.push('\n');
    for line in table(&found.trace) {
        line!(out, "  {line}");
    }
    out.push('\n');
    for line in &found.stacks {
        line!(out, "  {line}");
    }
    out.push('\n');
}

fn print_outcomes(report: &Report, out: &mut String) {
    line!(out, "{}:", counted(report.outcomes.len() as u64, "outcome"));
    // Outcomes that begin alike are told apart by how they go on.
    let all = &report.outcomes;
    let sent = all.iter().flat_map(|outcome| outcome.sent.values().flatten());
    let same = Same {
        stdout: common_prefix(all.iter().map(|outcome| outcome.stdout.as_str())),
        stderr: common_prefix(all.iter().map(|outcome| outcome.stderr.as_str())),
        sent: common_prefix(sent.map(String::as_str)),
    };
    for (index, outcome) in all.iter().enumerate().take(MAX_OUTCOMES) {
        print_outcome(outcome, &same, out);
        if let Some(only) = report.by_preemption.iter().find(|only| only.outcome == index) {
            line!(out, "            only with a preemption: {}", only.difference);
        }
    }
    if report.outcomes.len() > MAX_OUTCOMES {
        line!(
            out,
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

fn print_outcome(outcome: &Outcome, same: &Same, out: &mut String) {
    let end = match (outcome.exit, outcome.signal) {
        (Some(status), _) => format!("exit {status}"),
        (_, Some(signal)) => trace::signal_name(signal),
        _ if outcome.deadlock => "deadlock".to_owned(),
        _ if outcome.livelock => "livelock".to_owned(),
        _ if outcome.idle => "idle".to_owned(),
        _ => "no end".to_owned(),
    };
    line!(
        out,
        "  {end:<9} stdout {:?} stderr {:?} ({})",
        cut(&outcome.stdout, same.stdout),
        cut(&outcome.stderr, same.stderr),
        counted(outcome.executions, "execution")
    );
    if let Some(recovery) = &outcome.recovery {
        line!(out, "            {}", recovered(recovery));
    }
    for (path, bytes) in &outcome.files {
        let bytes = bytes
            .as_ref()
            .map_or("removed".to_owned(), |bytes| format!("{:?}", cut(bytes, 0)));
        line!(out, "            file {path}: {bytes}");
    }
    for process in outcome.processes.iter().filter(|process| process.exit != Some(0)) {
        let end = match (process.exit, process.signal) {
            (Some(status), _) => format!("exit {status}"),
            (None, signal) => trace::signal_name(signal.unwrap_or(0)).to_owned(),
        };
        line!(out, "            process {}: {end}", process.command);
    }
    // Outcomes may differ in nothing else.
    for (to, said) in &outcome.sent {
        let said: Vec<String> = said.iter().map(|connection| cut(connection, same.sent)).collect();
        line!(
            out,
            "            sent to {to}: {}",
            format!("{said:?}").trim_matches(['[', ']'])
        );
    }
}

fn recovered(recovery: &report::Recovery) -> String {
    let end = match (recovery.exit, recovery.signal) {
        (Some(status), _) => format!("exit {status}"),
        (_, Some(signal)) => trace::signal_name(signal),
        _ => "no end".to_owned(),
    };
    format!(
        "recovery: {end} stdout {:?} stderr {:?}",
        cut(&recovery.stdout, 0),
        cut(&recovery.stderr, 0)
    )
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
