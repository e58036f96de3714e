//! What can be observed of a run: output, end, and the files it left; and a readable account of how two
//! runs differ.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::ENVIRONMENT;
use crate::directives::End;
use crate::process;

/// Much longer than anything takes on the slowest machine under load: no verdict may depend on it, it only ends what hangs.
pub const TIME_LIMIT: Duration = Duration::from_mins(30);

/// A program with all it is given.
#[derive(Clone, Debug)]
pub struct Invocation {
    pub program: PathBuf,
    pub args: Vec<String>,
    pub stdin: Vec<u8>,
}

/// A file the run left in its working directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    File { mode: u32, bytes: Vec<u8> },
    Directory { mode: u32 },
    Link(PathBuf),
    Other,
}

/// Everything a user could see of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub end: End,
    pub files: BTreeMap<PathBuf, Entry>,
}

/// A fresh directory for one run: `work`, where the program runs, and beside it what only the harness needs.
pub struct Scratch {
    directory: TempDir,
}

impl Scratch {
    pub fn new() -> Result<Scratch> {
        let directory = tempfile::Builder::new().prefix("tracefork-test-").tempdir()?;
        fs::create_dir(directory.path().join("work"))?;
        Ok(Scratch { directory })
    }

    /// The program's working directory.
    pub fn work(&self) -> PathBuf {
        self.directory.path().join("work")
    }

    /// A file of the harness, out of the program's sight.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Empties the working directory, for another run at the same place.
    pub fn clear(&self) -> Result<()> {
        fs::remove_dir_all(self.work())?;
        fs::create_dir(self.work())?;
        Ok(())
    }
}

/// Takes features of the processor away from the C library, which then chooses other code. Set for a whole test run
/// (`GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2 cargo test …`) it applies to all programs that the tests start.
pub const TUNABLES: &str = "GLIBC_TUNABLES";

/// The command `program` with the tests' environment and nothing else.
pub fn clean_command(program: &Path, work: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .envs(ENVIRONMENT)
        .envs(std::env::var_os(TUNABLES).map(|value| (TUNABLES, value)))
        .current_dir(work)
        .stdin(Stdio::null());
    command
}

/// Runs it natively in `scratch`.
pub fn native(invocation: &Invocation, scratch: &Scratch) -> Result<Observed> {
    let input = scratch.beside("stdin");
    fs::write(&input, &invocation.stdin)?;
    let mut command = clean_command(&invocation.program, &scratch.work());
    command.args(&invocation.args).stdin(fs::File::open(&input)?);
    let finished = process::run(command, TIME_LIMIT)?;
    let files = files_under(&scratch.work())?;
    Ok(Observed {
        stdout: finished.stdout,
        stderr: finished.stderr,
        end: finished.end,
        files,
    })
}

/// All files below `directory`, by their relative path.
pub fn files_under(directory: &Path) -> Result<BTreeMap<PathBuf, Entry>> {
    let (mut files, mut pending) = (BTreeMap::new(), vec![directory.to_owned()]);
    while let Some(next) = pending.pop() {
        for entry in fs::read_dir(&next).with_context(|| next.display().to_string())? {
            let path = entry?.path();
            let meta = fs::symlink_metadata(&path)?;
            let mode = meta.permissions().mode() & 0o7777;
            let seen = if meta.is_symlink() {
                Entry::Link(fs::read_link(&path)?)
            } else if meta.is_dir() {
                pending.push(path.clone());
                Entry::Directory { mode }
            } else if meta.is_file() {
                Entry::File {
                    mode,
                    bytes: fs::read(&path)?,
                }
            } else {
                Entry::Other
            };
            files.insert(path.strip_prefix(directory)?.to_owned(), seen);
        }
    }
    Ok(files)
}

impl Observed {
    /// With the lines of the output in order, for guests whose schedule decides the order.
    pub fn with_sorted_lines(mut self) -> Observed {
        for output in [&mut self.stdout, &mut self.stderr] {
            let mut lines: Vec<&[u8]> = output.split_inclusive(|b| *b == b'\n').collect();
            lines.sort();
            *output = lines.concat();
        }
        self
    }

    /// How `self` differs from what was expected, for people; `None` if it does not.
    pub fn difference_from(&self, expected: &Observed) -> Option<String> {
        let mut report = String::new();
        if self.end != expected.end {
            let _ = writeln!(report, "end: expected {:?}, got {:?}", expected.end, self.end);
        }
        difference_of_bytes(&mut report, "stdout", &expected.stdout, &self.stdout);
        difference_of_bytes(&mut report, "stderr", &expected.stderr, &self.stderr);
        for (path, entry) in &expected.files {
            difference_of_entries(&mut report, path, Some(entry), self.files.get(path));
        }
        for (path, entry) in self
            .files
            .iter()
            .filter(|(path, _)| !expected.files.contains_key(*path))
        {
            difference_of_entries(&mut report, path, None, Some(entry));
        }
        (!report.is_empty()).then_some(report)
    }
}

fn difference_of_entries(report: &mut String, path: &Path, expected: Option<&Entry>, got: Option<&Entry>) {
    let name = format!("file {}", path.display());
    match (expected, got) {
        (Some(Entry::File { mode: a, bytes: x }), Some(Entry::File { mode: b, bytes: y })) if a == b => {
            difference_of_bytes(report, &name, x, y);
        }
        (a, b) if a == b => {}
        (a, b) => {
            let shown = |entry: Option<&Entry>| entry.map_or("nothing".to_owned(), Entry::kind);
            let _ = writeln!(report, "{name}: expected {}, got {}", shown(a), shown(b));
        }
    }
}

impl Entry {
    fn kind(&self) -> String {
        match self {
            Entry::File { mode, bytes } => format!("a file of {} bytes, mode {mode:o}", bytes.len()),
            Entry::Directory { mode } => format!("a directory, mode {mode:o}"),
            Entry::Link(target) => format!("a link to {}", target.display()),
            Entry::Other => "something else".to_owned(),
        }
    }
}

/// The first place where they differ, with the lines around it.
fn difference_of_bytes(report: &mut String, name: &str, expected: &[u8], got: &[u8]) {
    if expected == got {
        return;
    }
    let lines = |bytes: &[u8]| {
        bytes
            .split_inclusive(|b| *b == b'\n')
            .map(escape)
            .collect::<Vec<String>>()
    };
    let (a, b) = (lines(expected), lines(got));
    let same = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let _ = writeln!(
        report,
        "{name} differs from line {} on ({} bytes expected, {} got):",
        same + 1,
        expected.len(),
        got.len()
    );
    for line in &a[same.saturating_sub(2)..same] {
        let _ = writeln!(report, "    {line}");
    }
    for (mark, side) in [('-', &a), ('+', &b)] {
        for line in side.iter().skip(same).take(6) {
            let _ = writeln!(report, "  {mark} {line}");
        }
        if side.len() > same + 6 {
            let _ = writeln!(report, "  {mark} … {} more lines", side.len() - same - 6);
        }
    }
}

fn escape(line: &[u8]) -> String {
    let mut shown: String = line.escape_ascii().to_string();
    if shown.len() > 160 {
        let kept = shown.len();
        shown.truncate(160);
        let _ = write!(shown, "… ({kept} characters)");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(stdout: &str) -> Observed {
        Observed {
            stdout: stdout.into(),
            stderr: Vec::new(),
            end: End::Exit(0),
            files: BTreeMap::new(),
        }
    }

    #[test]
    fn equal_runs_do_not_differ() {
        assert_eq!(seen("a\nb\n").difference_from(&seen("a\nb\n")), None);
        assert_eq!(
            seen("b\na\n")
                .with_sorted_lines()
                .difference_from(&seen("a\nb\n")),
            None
        );
    }

    #[test]
    fn shows_the_first_difference() {
        let report = seen("a\nb\nX\n")
            .difference_from(&seen("a\nb\nc\nd\n"))
            .expect("they differ");
        assert!(
            report.contains("from line 3") && report.contains("- c\\n") && report.contains("+ X\\n"),
            "{report}"
        );
    }

    #[test]
    fn shows_files_that_are_missing_or_new() {
        let (mut a, mut b) = (seen(""), seen(""));
        a.files.insert("old".into(), Entry::Directory { mode: 0o755 });
        b.files.insert(
            "new".into(),
            Entry::File {
                mode: 0o644,
                bytes: b"x".to_vec(),
            },
        );
        let report = b.difference_from(&a).expect("they differ");
        assert!(
            report.contains("file old: expected a directory, mode 755, got nothing"),
            "{report}"
        );
        assert!(
            report.contains("file new: expected nothing, got a file of 1 bytes, mode 644"),
            "{report}"
        );
    }
}
