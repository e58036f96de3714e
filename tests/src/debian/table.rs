//! `docs/debian.md`: what came of every program, for people. Written by a run of all of them; a test compares its rows with the list.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::trial::{SEEDS, Verdict};
use super::{Kind, Program};

/// Where the page is.
pub fn page_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/debian.md")
}

/// How many of which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub programs: usize,
    pub same: usize,
    pub stops: usize,
    pub differ: usize,
}

impl Figures {
    pub fn of<'v>(verdicts: impl Iterator<Item = &'v Verdict>) -> Figures {
        let mut figures = Figures::default();
        for verdict in verdicts {
            figures.programs += 1;
            *match verdict {
                Verdict::Same => &mut figures.same,
                Verdict::Stops(_) => &mut figures.stops,
                Verdict::Differs(_) => &mut figures.differ,
            } += 1;
        }
        figures
    }

    /// For people.
    pub fn sentence(&self) -> String {
        let share = 100.0 * self.same as f64 / self.programs.max(1) as f64;
        format!(
            "{} programs. {} are the same as natively ({share:.1} %), {} are refused (exit code 4), {} differ.",
            self.programs, self.same, self.stops, self.differ
        )
    }
}

/// The whole page.
pub fn page(results: &[(Program, Verdict)]) -> String {
    let figures = Figures::of(results.iter().map(|(_, verdict)| verdict));
    let seeds = SEEDS.map(|seed| seed.to_string()).join(", ");
    let mut page = format!(
        "# Programs of Debian, natively and supervised\n\n\
         Written by `cargo run --release -p tracefork-tests --bin debian -- --write` on Debian 12; the list is `tests/debian/programs.toml`, which also\n\
         has the input files, servers and clients that do not fit here. Each program is run natively, twice, and under `tracefork run` with the seeds {seeds}.\n\
         *Same* means: the same output, exit code and files left behind, and for a server the same that its client printed, under every seed. A program that\n\
         cannot be handled is *refused* with a message and exit code 4. `cargo test -p tracefork-tests --test debian` runs a part of the list, another one\n\
         with every commit; `TRACEFORK_DEBIAN_PART=K/N` chooses one.\n\n\
         {}\n",
        figures.sentence()
    );
    for (kind, title) in [
        (Kind::Tool, "Tools"),
        (Kind::Client, "Clients"),
        (Kind::Server, "Servers"),
    ] {
        let _ = write!(
            page,
            "\n## {title}\n\n| program | package | language | command | result |\n| --- | --- | --- | --- | --- |\n"
        );
        for (program, verdict) in results.iter().filter(|(program, _)| program.kind == kind) {
            page += &row(program, verdict);
        }
    }
    page
}

fn row(program: &Program, verdict: &Verdict) -> String {
    format!(
        "| {} | {} | {} | `{}` | {} |\n",
        program.name,
        program.packages[0],
        program.language,
        cell(&shortened(&program.command_line())),
        cell(&result(program, verdict))
    )
}

fn result(program: &Program, verdict: &Verdict) -> String {
    let why = |reason: &Option<String>| reason.as_deref().unwrap_or("not known yet").to_owned();
    match verdict {
        Verdict::Same if program.options.is_empty() => "same".to_owned(),
        Verdict::Same => format!("same, with `{}`", program.options.join(" ")),
        Verdict::Stops(_) => format!("refused: {}", why(&program.stops)),
        Verdict::Differs(_) => format!("differs: {}", why(&program.differs)),
    }
}

/// What a table can hold.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn shortened(text: &str) -> String {
    const LONGEST: usize = 90;
    match text.char_indices().nth(LONGEST) {
        Some((place, _)) => format!("{}…", &text[..place]),
        None => text.to_owned(),
    }
    .replace('`', "'")
}

/// The result of every program on the page, by name.
pub fn rows(page: &str) -> BTreeMap<String, String> {
    let cells = |line: &str| -> Option<(String, String)> {
        let inner = line.strip_prefix("| ")?.strip_suffix(" |")?;
        let (name, rest) = inner.split_once(" | ")?;
        let (_, result) = rest.rsplit_once(" | ")?;
        Some((name.to_owned(), result.to_owned()))
    };
    let found = page.lines().filter_map(cells);
    found
        .filter(|(name, _)| name != "program" && name != "---")
        .collect()
}

/// How the row of this program begins, if the page is true.
pub fn expected_result(program: &Program) -> &'static str {
    match (&program.stops, &program.differs) {
        (Some(_), _) => "refused",
        (_, Some(_)) => "differs",
        _ => "same",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_they_are_written() {
        let text = "[[program]]\nname = \"a\"\npackages = [\"p\"]\nlanguage = \"C\"\nkind = \"tool\"\nrun = [\"a\", \"x|y\"]\n";
        let program = super::super::parse(text).expect("it is right").remove(0);
        let page = page(&[(program, Verdict::Same)]);
        let rows = rows(&page);
        assert_eq!(
            rows.into_iter().collect::<Vec<_>>(),
            [("a".to_owned(), "same".to_owned())]
        );
    }

    #[test]
    fn each_counts_once() {
        let verdicts = [
            Verdict::Same,
            Verdict::Same,
            Verdict::Stops("no".into()),
            Verdict::Differs("so".into()),
        ];
        let sentence = Figures::of(verdicts.iter()).sentence();
        assert_eq!(
            sentence,
            "4 programs. 2 are the same as natively (50.0 %), 1 are refused (exit code 4), 1 differ."
        );
    }
}
