//! In a GitHub workflow: an annotation at the sweep file for every scenario that failed, and a table in the step's summary.

use super::junit::description;
use crate::record::{Document, Record, Status};
use failure::Failure;
use std::io::Write;
use std::path::Path;

/// GitHub shows no more than ten annotations of a step.
const MAX_ANNOTATIONS: usize = 10;

/// Tells GitHub, if that is where we are.
///
/// # Errors
/// The summary cannot be written.
pub fn tell(document: &Document, stdout_is_taken: bool) -> Result<(), Failure> {
    if std::env::var("GITHUB_ACTIONS").is_ok_and(|value| value == "true") {
        let file = path_in_repository(&document.file);
        let failed = document
            .scenarios
            .iter()
            .filter(|record| record.status == Status::Failed);
        let lines: String = failed
            .take(MAX_ANNOTATIONS)
            .map(|record| annotation(&file, record))
            .collect();
        // The runner reads both streams.
        let mut out: Box<dyn Write> = match stdout_is_taken {
            true => Box::new(std::io::stderr()),
            false => Box::new(std::io::stdout()),
        };
        // Nobody to tell is no failure of the sweep.
        let _ = out.write_all(lines.as_bytes());
    }
    let Some(summary) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let file = std::fs::File::options().create(true).append(true).open(&summary);
    file.and_then(|mut file| file.write_all(markdown(document).as_bytes()))
        .map_err(|e| {
            let path = Path::new(&summary).display();
            Failure::usage(format!(
                "cannot write the step summary GITHUB_STEP_SUMMARY={path}: {e}"
            ))
        })
}

/// Annotations name files from the root of the repository.
fn path_in_repository(file: &str) -> String {
    let root = std::env::var_os("GITHUB_WORKSPACE").filter(|root| !root.is_empty());
    let inside = std::path::absolute(file).ok().zip(root).and_then(|(path, root)| {
        let inside = path.strip_prefix(root).ok()?;
        Some(inside.display().to_string())
    });
    inside.unwrap_or_else(|| file.to_owned())
}

fn annotation(file: &str, record: &Record) -> String {
    format!(
        "::error file={},line={},col={},title={}::{}\n",
        property(file),
        record.line,
        record.column,
        property(&format!("tracefork: {}", record.id)),
        message(&description(record))
    )
}

fn message(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}

fn markdown(document: &Document) -> String {
    let summary = document.summary;
    let mark = if summary.exit_code == 0 { "✅" } else { "❌" };
    let part = document
        .partition
        .map_or(String::new(), |part| format!(" ({part})"));
    let mut text = format!("### {mark} tracefork sweep {}{part}\n\n", cell(&document.file));
    text += &format!(
        "{} passed, {} failed, {} known, {} not run\n\n",
        summary.passed, summary.failed, summary.known, summary.not_run
    );
    text +=
        "| scenario | found | expected | states | time | result |\n| --- | --- | --- | ---: | ---: | --- |\n";
    for record in &document.scenarios {
        let states = record.result["states"]["new"].as_u64();
        text += &format!(
            "| {} | {} | {} | {} | {:.1} s | {} |\n",
            cell(&record.id),
            cell(record.reason.as_deref().unwrap_or(&record.verdict())),
            cell(&record.expect.join(" or ")),
            states.map_or("-".to_owned(), |n| n.to_string()),
            record.time_s,
            record.status.word()
        );
    }
    text.push('\n');
    text
}

/// A text that stays inside its cell.
fn cell(text: &str) -> String {
    let mut safe = String::new();
    for c in text.chars() {
        match c {
            '\n' | '\r' => safe.push(' '),
            '<' => safe.push_str("&lt;"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' => safe.extend(['\\', c]),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::{cell, message, property};

    #[test]
    fn what_is_told_stays_in_its_place() {
        assert_eq!(message("50%\nnext"), "50%25%0Anext");
        assert_eq!(property("a:b,c"), "a%3Ab%2Cc");
        assert_eq!(cell("a|b\nc<d"), "a\\|b c&lt;d");
    }
}
