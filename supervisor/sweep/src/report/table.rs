//! The table at the end of a sweep, on standard output.

use crate::record::{Document, Record, Status};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use std::io::Write;

pub fn print(document: &Document) {
    // Whoever reads it may have read enough, as with `| head`.
    let _ = write!(std::io::stdout().lock(), "{}", text(document));
}

fn text(document: &Document) -> String {
    let mut text = String::new();
    if !document.scenarios.is_empty() {
        text += &table(document);
        text.push('\n');
    }
    for record in &document.scenarios {
        if let (Status::Failed, Some(reason)) = (record.status, &record.reason) {
            text += &format!("\n{}: {reason}\n", record.id);
            text += &details(record);
        }
    }
    if let Some(error) = &document.error {
        text += &format!("\n{error}\n");
    }
    text + &last_line(document)
}

fn table(document: &Document) -> String {
    let mut table = Table::new();
    // On a terminal lines are wrapped to fit; in a file nobody should have to put them together again.
    let width = terminal_width();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(match width {
            Some(_) => ContentArrangement::Dynamic,
            None => ContentArrangement::Disabled,
        })
        .set_header([
            "scenario",
            "found",
            "expected",
            "states",
            "executions",
            "time",
            "result",
        ]);
    if let Some(width) = width {
        table.set_width(width);
    }
    for record in &document.scenarios {
        let number = |value: &serde_json::Value| value.as_u64().map_or("-".to_owned(), |n| n.to_string());
        table.add_row([
            record.id.clone(),
            record.verdict(),
            record.expect.join(" or "),
            number(&record.result["states"]["new"]),
            number(&record.result["executions"]),
            format!("{:.1} s", record.time_s),
            record.status.word().to_owned(),
        ]);
    }
    if let Some(first) = table.column_mut(0) {
        first.set_padding((0, 1));
    }
    for column in 3..=5 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

fn terminal_width() -> Option<u16> {
    let terminal = console::Term::stdout();
    let size = terminal.size_checked().filter(|_| terminal.is_term());
    size.map(|(_, columns)| columns)
}

fn details(record: &Record) -> String {
    let mut text = String::new();
    for change in record.changes.iter().skip(1) {
        text += &format!("  {change}\n");
    }
    for violation in record.violations() {
        let field = |name: &str| violation[name].as_str().unwrap_or_default();
        text += &format!("  {}: {}\n", field("kind"), field("message"));
        if !field("trace").is_empty() {
            text += &format!("  tracefork replay {}\n", field("trace"));
        }
    }
    if let Some(log) = &record.log {
        text += &format!("  log: {log}\n");
    }
    text
}

fn last_line(document: &Document) -> String {
    let summary = document.summary;
    let mut parts = vec![
        format!("{} passed", summary.passed),
        format!("{} failed", summary.failed),
    ];
    if summary.known > 0 {
        parts.push(format!("{} known", summary.known));
    }
    if summary.not_run > 0 {
        parts.push(format!("{} not run", summary.not_run));
    }
    let part = document
        .partition
        .map_or(String::new(), |part| format!(" (part {part})"));
    let mut line = format!("\n{} scenario(s){part}: {}\n", summary.total, parts.join(", "));
    if document.interrupted {
        line += "interrupted; continue with --resume\n";
    }
    line
}
