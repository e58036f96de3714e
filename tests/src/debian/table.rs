//! `docs/debian.md`: what came of every program, for people. Written by a run of all of them; a test compares its rows with the list.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::trial::{SEEDS, Verdict};
use super::{Kind, Program};

/// What every message has that tells of a second process (`docs/errors.md`).
const SECOND_PROCESS: &str = "a second process is not modelled";

/// How the result of such a program begins on the page.
const REFUSED_SECOND: &str = "refused, second process";

/// Where the page is.
pub fn page_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/debian.md")
}

/// How many of which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    pub programs: usize,
    pub with_second_process: usize,
    pub same: usize,
    pub other_stops: usize,
    pub differ: usize,
}

impl Figures {
    pub fn of<'v>(verdicts: impl Iterator<Item = &'v Verdict>) -> Figures {
        let mut figures = Figures::default();
        for verdict in verdicts {
            figures.programs += 1;
            *match verdict {
                Verdict::Same => &mut figures.same,
                Verdict::Stops(message) if message.contains(SECOND_PROCESS) => {
                    &mut figures.with_second_process
                }
                Verdict::Stops(_) => &mut figures.other_stops,
                Verdict::Differs(_) => &mut figures.differ,
            } += 1;
        }
        figures
    }

    /// For people.
    pub fn sentence(&self) -> String {
        let alone = self.programs - self.with_second_process;
        let share = 100.0 * self.same as f64 / alone.max(1) as f64;
        format!(
            "{} programs. {} start a second process, which is refused (exit code 4). Of the other {alone}, {} are the same as natively ({share:.1} %), {} \
             are refused for another reason, {} differ.",
            self.programs, self.with_second_process, self.same, self.other_stops, self.differ
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
        Verdict::Same => "same".to_owned(),
        Verdict::Stops(message) if message.contains(SECOND_PROCESS) => {
            format!("{REFUSED_SECOND}: {}", why(&program.stops))
        }
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

/// Whether this result on the page is that of a program that starts a second process.
pub fn is_second_process(result: &str) -> bool {
    result.starts_with(REFUSED_SECOND)
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
    fn second_processes_do_not_count() {
        let verdicts = [
            Verdict::Same,
            Verdict::Stops(format!("fork: {SECOND_PROCESS}: x")),
            Verdict::Stops("no".into()),
            Verdict::Differs("so".into()),
        ];
        let figures = Figures::of(verdicts.iter());
        assert!(
            figures.sentence().contains("Of the other 3, 1 are the same"),
            "{}",
            figures.sentence()
        );
    }
}
