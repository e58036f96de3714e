//! The coverage page: the table in Markdown.

use super::Fate::*;
use super::{Fate, TABLE};

/// The coverage page, in Markdown.
pub fn coverage_page() -> String {
    use std::fmt::Write as _;
    let mut page = String::from(
        "# System calls\n\nGenerated from `syscall-model/src/table.rs`; a test keeps it true.\n\n\
         | fate | meaning | calls |\n| --- | --- | --- |\n",
    );
    for (name, meaning) in FATES {
        let count = TABLE.iter().filter(|row| row.fate.name() == *name).count();
        let _ = writeln!(page, "| {name} | {meaning} | {count} |");
    }
    page.push_str("\n| number | call | fate | why |\n| --- | --- | --- | --- |\n");
    for row in &TABLE {
        let fate = match row.fate {
            Refuse(errno) => format!("refuse ({})", errno.name().unwrap_or("?")),
            fate => fate.name().to_owned(),
        };
        let _ = writeln!(
            page,
            "| {} | `{}` | {} | {} |",
            row.sysno.id(),
            row.signature(),
            fate,
            row.why
        );
    }
    page
}

const FATES: &[(&str, &str)] = &[
    ("model", "performed by the model; rewound with it"),
    (
        "allow",
        "pure work on private memory or constant data; runs without a stop",
    ),
    ("pass", "seen by the supervisor, then run by the kernel"),
    ("refuse", "answered with an error that programs handle"),
    ("fatal", "the run stops with exit code 4 and says why"),
];

impl Fate {
    fn name(&self) -> &'static str {
        match self {
            Allow => "allow",
            Pass => "pass",
            Model(..) => "model",
            Refuse(_) => "refuse",
            Fatal => "fatal",
        }
    }
}
