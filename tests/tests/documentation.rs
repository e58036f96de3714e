//! The documentation shows what is really printed: its commands are typed as a reader would, in an empty directory, and what comes is
//! compared, apart from what differs from run to run. `tracefork_tests::documents` says how pages are marked.
//!
//! `TRACEFORK_BLESS=1` puts what is printed now into the pages, whole; shorten it again with lines `[…]` where that reads better.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use regex::Regex;
use tracefork_tests::documents::{self, Document, agrees};
use tracefork_tests::observe::Scratch;
use tracefork_tests::shell::{self, Said};
use tracefork_tests::supervised::TIME_LIMIT;
use tracefork_tests::{command_under_test, packages};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trial = |name: String, body: Box<dyn FnOnce() -> Result<()> + Send>| {
        Trial::test(name, || {
            body().map_err(|error| Failed::from(format!("{error:#}")))
        })
    };
    let mut trials = vec![
        trial("links".to_owned(), Box::new(links)),
        trial("options".to_owned(), Box::new(options)),
        trial("promises".to_owned(), Box::new(promises)),
    ];
    for document in documents::all().expect("the pages can be read") {
        if !document.sessions.is_empty() {
            trials.push(trial(
                document.name(),
                Box::new(|| shows_what_is_printed(document)),
            ));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn shows_what_is_printed(document: Document) -> Result<()> {
    for (program, package) in &document.needs {
        packages::command(program, package)?;
    }
    let scratch = Scratch::new()?;
    let ports = stand_ins(&document)?;
    for (name, content) in &document.files {
        fs::write(scratch.work().join(name), ports.put_in(content))?;
    }
    let exchanges = document.sessions.iter().flat_map(|session| &session.exchanges);
    let commands: Vec<String> = exchanges
        .map(|exchange| ports.put_in(&exchange.command))
        .collect();
    let said = shell::session(command_under_test!(), &scratch, &commands, TIME_LIMIT)?;
    let said: Vec<Said> = said
        .into_iter()
        .map(|said| at_home(said, &scratch, &ports))
        .collect();
    let differences = differences(&document, &said);
    if !differences.is_empty() && std::env::var_os("TRACEFORK_BLESS").is_some() {
        return Ok(fs::write(&document.path, blessed(&document, &said))?);
    }
    ensure!(
        differences.is_empty(),
        "{} shows what is not so (TRACEFORK_BLESS=1 corrects it):\n{}",
        document.name(),
        differences.join("\n")
    );
    Ok(())
}

/// A reader works elsewhere than in the test's directory, and with the ports of the page.
fn at_home(said: Said, scratch: &Scratch, ports: &StandIns) -> Said {
    let home = scratch.work();
    let output = said.output.replace(&*home.to_string_lossy(), "/home/you");
    Said {
        output: ports.take_out(&output),
        ..said
    }
}

/// Ports of a page, each with the free one that stands in for it.
struct StandIns(Vec<(String, String)>);

fn stand_ins(document: &Document) -> Result<StandIns> {
    let mut pairs = Vec::new();
    for port in &document.ports {
        let free = test_ports::free()?.to_string();
        ensure!(
            free.len() == port.len(),
            "{port} and {free} are not of one length"
        );
        pairs.push((port.clone(), free));
    }
    Ok(StandIns(pairs))
}

impl StandIns {
    fn put_in(&self, text: &str) -> String {
        let swap = |text: String, (page, free): &(String, String)| text.replace(page, free);
        self.0.iter().fold(text.to_owned(), swap)
    }

    fn take_out(&self, text: &str) -> String {
        let swap = |text: String, (page, free): &(String, String)| text.replace(free, page);
        self.0.iter().fold(text.to_owned(), swap)
    }
}

fn differences(document: &Document, said: &[Said]) -> Vec<String> {
    let normal = Normal::new();
    let exchanges = document.sessions.iter().flat_map(|session| &session.exchanges);
    let pairs = exchanges.zip(said).filter(|(exchange, said)| {
        let expected: Vec<String> = exchange.printed.iter().map(|line| normal.of(line)).collect();
        let actual: Vec<String> = said.output.lines().map(|line| normal.of(line)).collect();
        !agrees(&expected, &actual)
    });
    pairs
        .map(|(exchange, said)| {
            format!(
                "$ {}\n{}--- instead of ---\n{}\n",
                exchange.command,
                said.output,
                exchange.printed.join("\n")
            )
        })
        .collect()
}

/// The page with what is printed now, where that differs.
fn blessed(document: &Document, said: &[Said]) -> String {
    let normal = Normal::new();
    let (mut text, mut said) = (document.text.clone(), said.to_vec());
    // From the end, so that places before stay where they are.
    for session in document.sessions.iter().rev() {
        let own = said.split_off(said.len() - session.exchanges.len());
        let mut content = String::new();
        for (exchange, said) in session.exchanges.iter().zip(own) {
            let expected: Vec<String> = exchange.printed.iter().map(|line| normal.of(line)).collect();
            let actual: Vec<String> = said.output.lines().map(|line| normal.of(line)).collect();
            content += &format!("$ {}\n", exchange.command);
            let kept: Vec<&str> = if agrees(&expected, &actual) {
                exchange.printed.iter().map(String::as_str).collect()
            } else {
                said.output.lines().map(str::trim_end).collect()
            };
            content.extend(kept.iter().flat_map(|line| [line, "\n"]));
        }
        text.replace_range(session.place.clone(), &content);
    }
    text
}

/// Lines without what differs between runs and machines: times, addresses, digests, counts of what the loader and the search did.
struct Normal(Vec<(Regex, &'static str)>);

impl Normal {
    fn new() -> Normal {
        let rules = [
            (r"-[0-9a-f]{8}\.(trace|html)", "-DIGEST.$1"),
            (r"0x[0-9a-f]+", "0x…"),
            (r"\d+\.\d+ s\b", "N s"),
            (r"^  ([ !]) +\d+  ", "  $1 N  "),
            (r"… \d+ startup steps", "… N startup steps"),
            (r"\bstep \d+", "step N"),
            (r"\b\d+ steps\b", "N steps"),
            (r"\(\d+ executions?\)", "(N executions)"),
            (r"#\d+ +", "#N "),
            (r"\s+$", ""),
        ];
        let compiled = rules.map(|(pattern, by)| (Regex::new(pattern).expect("a pattern"), by));
        Normal(compiled.into())
    }

    fn of(&self, line: &str) -> String {
        let is_account = ["  states ", "  checkpoints ", "  cache "]
            .iter()
            .any(|start| line.starts_with(start));
        let line = if is_account {
            // How much work it was, the search may do better or worse.
            Regex::new(r"\d+")
                .expect("a pattern")
                .replace_all(line, "N")
                .into_owned()
        } else {
            line.to_owned()
        };
        self.0.iter().fold(line, |line, (pattern, by)| {
            pattern.replace_all(&line, *by).into_owned()
        })
    }
}

/// What a page points to within the project is there.
fn links() -> Result<()> {
    let link = Regex::new(r"\]\(([^)#:]+)(#[^)]*)?\)")?;
    for document in documents::all()? {
        let beside = document.path.parent().context("a page lies somewhere")?;
        for found in link.captures_iter(&document.text) {
            ensure!(
                beside.join(&found[1]).exists(),
                "{}: no {}",
                document.name(),
                &found[1]
            );
        }
    }
    Ok(())
}

/// The tests that SECURITY.md names are there.
fn promises() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = fs::read_to_string(root.join("SECURITY.md"))?;
    let name = Regex::new("`([a-z0-9_]+)(?:::([a-z0-9_]+))?`")?;
    // In the table, the last column; elsewhere what stands behind "Test:", or in parentheses behind a sentence.
    let places = Regex::new(r"(?m)^\|.*\|([^|]+)\|$|Test: (.*)$|\((`[a-z_]+`:[^)]*)\)")?;
    let mut named = std::collections::BTreeSet::new();
    for place in places.captures_iter(&text) {
        let list = place.iter().skip(1).flatten().map(|part| part.as_str());
        for found in list.flat_map(|list| name.captures_iter(list)) {
            named.extend(
                found
                    .iter()
                    .skip(1)
                    .flatten()
                    .map(|part| part.as_str().to_owned()),
            );
        }
    }
    ensure!(named.len() > 20, "few tests are named: {named:?}");
    let mut sources = String::new();
    for directory in ["tests", "tracee", "supervisor"] {
        collect(&root.join(directory), &mut sources)?;
    }
    named.retain(|name| {
        !sources.contains(&format!("fn {name}("))
            && !sources.contains(&format!("\"{name}\""))
            && !sources.contains(&format!("\n{name}\n"))
    });
    ensure!(named.is_empty(), "no such tests: {named:?}");
    Ok(())
}

/// All sources below a directory, and the names of all files, each in a line.
fn collect(directory: &Path, into: &mut String) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, into)?;
        } else if path.extension().is_some_and(|kind| kind == "rs" || kind == "c") {
            into.push_str(&fs::read_to_string(&path)?);
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            into.push_str(&format!("\n{stem}\n"));
        }
    }
    Ok(())
}

/// Every option in every tracefork command of every page exists, whether the command is tried or not.
fn options() -> Result<()> {
    let command = Regex::new(r"(?m)(?:^|[`$ ])tracefork ([a-z]+)((?: [^`\n]*)?)")?;
    let option = Regex::new(r"(?:^| |\[)(--[a-z][a-z-]+)")?;
    let mut helps: BTreeMap<String, String> = BTreeMap::new();
    for document in documents::all()? {
        for found in command.captures_iter(&code(&document.text)) {
            let (name, rest) = (&found[1], found[2].split(" -- ").next().unwrap_or_default());
            if !helps.contains_key(name) {
                helps.insert(name.to_owned(), help(name)?);
            }
            for used in option.captures_iter(rest) {
                ensure!(
                    helps[name].contains(&used[1]),
                    "{}: tracefork {name} has no option {}",
                    document.name(),
                    &used[1]
                );
            }
        }
    }
    Ok(())
}

/// What is in code spans and blocks, a line each.
fn code(text: &str) -> String {
    let (mut inside, mut lines) = (false, Vec::new());
    for line in text.lines() {
        if line.starts_with("```") {
            inside = !inside;
        } else if inside {
            lines.push(line);
        } else {
            lines.extend(line.split('`').skip(1).step_by(2));
        }
    }
    lines.join("\n")
}

fn help(command: &str) -> Result<String> {
    let output = Command::new(command_under_test!())
        .args([command, "--help"])
        .output()?;
    if !output.status.success() {
        bail!("there is no command tracefork {command}");
    }
    Ok(String::from_utf8(output.stdout)?)
}
