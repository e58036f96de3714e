//! What may be wrong with the program though no property is violated: "ok" must not hide a failure.

use crate::counterexample::Counterexample;
use crate::report::Outcome;
use crate::runtimes;
use crate::scout::Race;

/// How the program fails by itself, as far as nobody has said what is expected of it. What a runtime has ended is a violation already.
pub fn of_outcomes(outcomes: &[Outcome]) -> Vec<String> {
    let mut lines = Vec::new();
    let is_violation = |outcome: &Outcome| {
        let status = outcome.exit.unwrap_or_default();
        runtimes::ended_by_report(status, &outcome.stderr).is_some()
    };
    let others = || outcomes.iter().filter(|outcome| !is_violation(outcome));
    let failed = |outcome: &&Outcome| outcome.exit.is_some_and(|status| status != 0);
    if let Some(first) = others().find(failed) {
        let status = first.exit.unwrap_or_default();
        let how_often = match others().filter(failed).count() {
            count if count == outcomes.len() => "in every outcome".to_owned(),
            count => format!("in {count} of {} outcomes", outcomes.len()),
        };
        lines.push(format!(
            "the program ends with a status other than 0 (such as {status}) {how_often}: --expect-exit 0 makes that a violation, --expect-exit any accepts it"
        ));
    }
    lines.extend(of_output(others()));
    lines
}

/// What runtimes have said of failures, whatever the status was.
pub fn of_output<'a>(outcomes: impl Iterator<Item = &'a Outcome> + Clone) -> Vec<String> {
    let said = outcomes.flat_map(|outcome| [outcome.stderr.as_str(), outcome.stdout.as_str()]);
    let reports = runtimes::reports(said).into_iter();
    reports
        .map(|(what, line)| format!("the output shows {what}: {line}"))
        .collect()
}

/// A violation that takes more preemptions than were asked for.
pub fn of_beyond(made: &Counterexample) -> String {
    let trace = match &made.path {
        Ok(path) => format!(" ({})", path.display()),
        Err(_) => String::new(),
    };
    format!(
        "with {}, more than --bound-preemptions allows, there is a violation: {}: {}{trace}",
        crate::report::counted(u64::from(made.preemptions), "preemption"),
        made.violation.kind.name(),
        made.violation.message
    )
}

/// Shared memory that nothing orders, a line for each pair.
pub fn of_races(races: &[Race]) -> Vec<String> {
    let mut lines: Vec<String> = races
        .iter()
        .map(|race| {
            let [one, other] = &race.accesses;
            if race.is_use_after_free {
                return format!(
                    "use after free: {} at {}, {} at {} ({})",
                    one.kind, one.at, other.kind, other.at, race.object
                );
            }
            format!(
                "data race on {}: {} at {}, {} at {}",
                race.object, one.kind, one.at, other.kind, other.at
            )
        })
        .collect();
    let is_plain = |race: &&Race| !race.is_use_after_free;
    if races.iter().filter(is_plain).any(|race| race.may_be_atomic) {
        lines.push(
            "without debug information (-g) an atomic access cannot be told from a plain one: accesses above that are atomic are no data races".to_owned(),
        );
    }
    if races.iter().any(|race| is_plain(&race)) {
        lines.push("data races are undefined behavior; --races makes them violations, --suppressions FILE hides known ones".to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(exit: i32, stderr: &str) -> Outcome {
        Outcome {
            exit: Some(exit),
            stderr: stderr.to_owned(),
            ..Outcome::default()
        }
    }

    #[test]
    fn a_failure_in_every_outcome_is_told_from_one_in_some() {
        assert!(of_outcomes(&[outcome(0, "")]).is_empty());
        assert!(of_outcomes(&[outcome(2, "")])[0].contains("(such as 2) in every outcome"));
        assert!(of_outcomes(&[outcome(0, ""), outcome(2, "")])[0].contains("in 1 of 2 outcomes"));
        assert!(
            of_outcomes(&[
                outcome(0, ""),
                outcome(101, "thread 'main' panicked at a.rs:1:1:\nno")
            ])
            .is_empty()
        );
    }

    #[test]
    fn what_runtimes_say_is_recognised() {
        let said = "thread '<unnamed>' panicked at src/main.rs:5:9:\nboom";
        let lines = of_outcomes(&[outcome(0, said)]);
        assert_eq!(
            lines,
            ["the output shows a Rust panic: thread '<unnamed>' panicked at src/main.rs:5:9:"]
        );
    }
}
