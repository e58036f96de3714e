//! JUnit XML: a suite for every scenario, a case for every combination of its parameters.

use crate::record::{Document, Record, Status};
use failure::Failure;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use std::time::Duration;

pub fn xml(document: &Document) -> Result<String, Failure> {
    let mut report = Report::new(format!("tracefork sweep {}", document.file));
    // By their names as they are: XML cannot carry all that a name may hold.
    let mut suites: Vec<(&str, TestSuite)> = Vec::new();
    let mut total = Duration::ZERO;
    for record in &document.scenarios {
        let time = Duration::try_from_secs_f64(record.time_s).unwrap_or_default();
        total += time;
        let known = suites.iter().position(|(name, _)| *name == record.name);
        let index = known.unwrap_or_else(|| {
            suites.push((&record.name, TestSuite::new(record.name.as_str())));
            suites.len() - 1
        });
        let suite = &mut suites[index].1;
        suite.set_time(suite.time.unwrap_or_default() + time);
        suite.add_test_case(case(document, record, time));
    }
    report
        .set_time(total)
        .add_test_suites(suites.into_iter().map(|(_, suite)| suite));
    report
        .to_string()
        .map_err(|e| Failure::internal(format!("cannot encode JUnit XML: {e}")))
}

fn case(document: &Document, record: &Record, time: Duration) -> TestCase {
    let mut status = match record.status {
        Status::Passed | Status::Known => TestCaseStatus::success(),
        Status::NotRun => TestCaseStatus::skipped(),
        // Something was found, or something stood in the way of finding it.
        Status::Failed if record.found.is_empty() => TestCaseStatus::non_success(NonSuccessKind::Error),
        Status::Failed => TestCaseStatus::non_success(NonSuccessKind::Failure),
    };
    if record.status == Status::Failed {
        status
            .set_message(record.reason.as_deref().unwrap_or_default())
            .set_type(record.verdict())
            .set_description(description(record));
    }
    let mut case = TestCase::new(record.id.as_str(), status);
    case.set_classname(record.name.as_str())
        .set_time(time)
        .set_system_out(record.command.join(" "));
    case.extra.insert("file".into(), document.file.as_str().into());
    case.extra.insert("line".into(), record.line.to_string().into());
    case
}

/// What a person needs to go on.
pub fn description(record: &Record) -> String {
    let mut lines: Vec<String> = record.reason.iter().cloned().collect();
    lines.extend(record.changes.iter().skip(1).cloned());
    for violation in record.violations() {
        let field = |name: &str| violation[name].as_str().unwrap_or_default();
        lines.push(format!("{}: {}", field("kind"), field("message")));
        let stacks = violation["stacks"].as_array().into_iter().flatten();
        lines.extend(stacks.filter_map(|line| line.as_str()).map(str::to_owned));
        if !field("trace").is_empty() {
            lines.push(format!("tracefork replay {}", field("trace")));
        }
    }
    lines.join("\n")
}
