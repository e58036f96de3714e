//! One scenario, start to finish: set-up, `tracefork check` as a process of its own, tear-down. Nothing is ever tried twice: a verdict that
//! needs a second try is a finding.

use super::command::{Ended, Place};
use super::expect::Found;
use super::plan::{Plan, Planned};
use super::record::Observation;
use super::stop::Stop;
use failure::ExitCode;
use peers::process::Process;
use serde_json::Value;
use session::program::Program;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What a tear-down may take if the scenario sets no time: it must not keep an interrupted sweep from ending.
const TEARDOWN_LIMIT: Duration = Duration::from_secs(60);

/// Where scenarios run.
pub struct Stage<'a> {
    pub plan: &'a Plan,
    /// The results directory as the user calls it, and in full.
    pub results: &'a Path,
    pub absolute: &'a Path,
    pub stop: &'a Stop,
}

/// The files of one scenario.
struct Files {
    directory: PathBuf,
    scratch: PathBuf,
    log: PathBuf,
    json: PathBuf,
}

impl Files {
    /// Fresh: nothing of an earlier sweep is left.
    fn make(results: &Path, id: &str) -> std::io::Result<Files> {
        let directory = results.join(file_name(id));
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        let scratch = directory.join("scratch");
        fs::create_dir_all(&scratch)?;
        Ok(Files {
            log: directory.join("log.txt"),
            json: directory.join("result.json"),
            scratch,
            directory,
        })
    }
}

/// An identity as the name of a directory that needs no quotes in a shell.
pub fn file_name(id: &str) -> String {
    const LONGEST: usize = 100;
    let (name, parameters) = match id.strip_suffix(']').and_then(|id| id.split_once('[')) {
        Some((name, parameters)) => (name, Some(parameters)),
        None => (id, None),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    let is_plain = name.chars().all(plain)
        && parameters.is_none_or(|text| text.chars().all(|c| plain(c) || "=,".contains(c)));
    let joined = parameters.map_or_else(|| name.to_owned(), |parameters| format!("{name},{parameters}"));
    let whole = joined.trim_end_matches(',').trim_start_matches('.');
    if is_plain && whole == joined && !whole.is_empty() && whole.len() < LONGEST {
        return whole.to_owned();
    }
    let safe = |c: char| if plain(c) || "=,".contains(c) { c } else { '_' };
    let safe: String = whole.chars().map(safe).take(LONGEST).collect();
    // Two that differ only in what was replaced must not meet.
    format!("{safe}-{}", &blake3::hash(id.as_bytes()).to_hex()[..8])
}

/// The hash of the file that a scenario runs, if it is there.
pub fn program_hash(scenario: &Planned, directory: &Path) -> Option<String> {
    let name = scenario.run.command.first()?;
    let name = name.replace("{dir}", &directory.display().to_string());
    let program = Program::find(&OsString::from(name), directory).ok()?;
    let mut hash = blake3::Hasher::new();
    std::io::copy(&mut fs::File::open(program.path).ok()?, &mut hash).ok()?;
    Some(hash.finalize().to_hex().to_string())
}

impl Stage<'_> {
    /// Runs a scenario. `None` if it was interrupted: then it has not happened.
    pub fn run(&self, scenario: &Planned) -> Option<Observation> {
        let started = Instant::now();
        let mut seen = Observation {
            id: scenario.id.clone(),
            hash: scenario.hash.clone(),
            exit_code: ExitCode::Unsupported as u8,
            ..Observation::default()
        };
        let files = match Files::make(self.absolute, &scenario.id) {
            Ok(files) => files,
            Err(error) => {
                seen.error = Some(format!("cannot make a directory for its results: {error}"));
                return Some(seen);
            }
        };
        seen.log = self.as_user_calls_it(&files.log);
        let mut running = Running {
            stage: self,
            scenario,
            files: &files,
            deadline: scenario.run.timeout.map(|limit| started + limit),
            background: Vec::new(),
        };
        let is_complete = running.set_up_and_check(&mut seen);
        running.tear_down(&mut seen);
        // What set-up commands left running ends here, after the tear-down.
        running.background.clear();
        if let Err(error) = fs::remove_dir_all(&files.scratch) {
            tracing::warn!("{}: {error}", files.scratch.display());
        }
        seen.time_s = started.elapsed().as_secs_f64();
        is_complete.then_some(seen)
    }

    fn as_user_calls_it(&self, path: &Path) -> String {
        let below = path.strip_prefix(self.absolute).unwrap_or(path);
        self.results.join(below).display().to_string()
    }
}

struct Running<'a> {
    stage: &'a Stage<'a>,
    scenario: &'a Planned,
    files: &'a Files,
    deadline: Option<Instant>,
    /// Hosts of the set-up commands.
    background: Vec<Process>,
}

impl Running<'_> {
    fn place(&self) -> Place<'_> {
        Place {
            directory: &self.stage.plan.directory,
            log: &self.files.log,
            stop: Some(self.stage.stop),
            deadline: self.deadline,
        }
    }

    /// The text with what is known only now.
    fn complete(&self, text: &str) -> String {
        text.replace("{scratch}", &self.files.scratch.display().to_string())
            .replace("{dir}", &self.stage.plan.directory.display().to_string())
    }

    fn note(&self, line: &str) {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(&self.files.log);
        // A log that cannot be written is no reason not to check.
        let _ = log.and_then(|mut log| writeln!(log, "{line}"));
    }

    fn environment(&self) -> Vec<(String, String)> {
        vec![
            ("TRACEFORK_SCENARIO".to_owned(), self.scenario.id.clone()),
            (
                "TRACEFORK_SCRATCH".to_owned(),
                self.files.scratch.display().to_string(),
            ),
        ]
    }

    /// False if it was interrupted.
    fn set_up_and_check(&mut self, seen: &mut Observation) -> bool {
        for line in &self.scenario.run.setup {
            let line = self.complete(line);
            self.note(&format!("$ {line}"));
            let ended = self.place().shell(&line, &self.environment());
            let what = match ended {
                Ok((Ended::Stopped, _)) => return false,
                Ok((ended, process)) => {
                    self.background.push(process);
                    if ended == Ended::Exited(0) {
                        continue;
                    }
                    ended.to_string()
                }
                Err(error) => error,
            };
            seen.error = Some(format!("set-up `{line}`: {what}"));
            return true;
        }
        seen.program = program_hash(self.scenario, &self.stage.plan.directory);
        self.check(seen)
    }

    fn check(&self, seen: &mut Observation) -> bool {
        let mut argv = vec!["/proc/self/exe".to_owned(), "check".to_owned()];
        argv.extend(
            self.scenario
                .run
                .options
                .iter()
                .map(|option| self.complete(option)),
        );
        argv.push("--progress=never".to_owned());
        argv.push(format!("--json={}", self.files.json.display()));
        argv.push(format!("--trace-dir={}", self.files.directory.display()));
        argv.push("--".to_owned());
        argv.extend(self.scenario.run.command.iter().map(|text| self.complete(text)));
        self.note(&format!("$ tracefork {}", argv[1..].join(" ")));
        match self.place().run(&argv, &[], true) {
            Ok((Ended::Stopped, _)) => return false,
            Ok((Ended::Exited(code), _)) => self.read(code, seen),
            Ok((Ended::TimedOut, _)) => {
                seen.exit_code = ExitCode::Limit as u8;
                seen.found.words = vec!["incomplete".to_owned()];
                let limit = self.scenario.run.timeout.unwrap_or_default();
                seen.result = serde_json::json!({
                    "verdict": "incomplete",
                    "notes": [format!("killed after its timeout of {}", humantime::format_duration(limit))],
                });
            }
            Ok((ended, _)) => seen.error = Some(format!("tracefork check: {ended}")),
            Err(error) => seen.error = Some(format!("tracefork check: {error}")),
        }
        true
    }

    /// Takes what `check` has found from its exit code and result.
    fn read(&self, code: i32, seen: &mut Observation) {
        let text = fs::read_to_string(&self.files.json).unwrap_or_default();
        seen.result = serde_json::from_str(&text).unwrap_or(Value::Null);
        let code = u8::try_from(code).unwrap_or(ExitCode::Unsupported as u8);
        for violation in seen.result["violations"].as_array_mut().into_iter().flatten() {
            let trace = violation["trace"]
                .as_str()
                .map(|path| self.stage.as_user_calls_it(Path::new(path)));
            violation["trace"] = trace.map_or(Value::Null, Value::String);
        }
        // A machine out of hand must not look like a finding, nor like none.
        let no_verdict = format!("tracefork check exited with status {code} without a valid result");
        seen.exit_code = code;
        let error = seen.result["error"].as_str().map(str::to_owned);
        match Found::from_check(code, &seen.result) {
            Some(found) => {
                seen.found = found;
                if let Some(error) = error {
                    seen.result["notes"] = serde_json::json!([error.lines().next().unwrap_or_default()]);
                }
            }
            None => {
                seen.exit_code = match code {
                    code if code == ExitCode::Usage as u8 => code,
                    _ => ExitCode::Unsupported as u8,
                };
                seen.error = Some(error.unwrap_or(no_verdict));
            }
        }
    }

    /// Always, and all of it.
    fn tear_down(&self, seen: &mut Observation) {
        let limit = self.scenario.run.timeout.unwrap_or(TEARDOWN_LIMIT);
        for line in &self.scenario.run.teardown {
            let line = self.complete(line);
            self.note(&format!("$ {line}"));
            let place = Place {
                stop: None,
                deadline: Some(Instant::now() + limit),
                ..self.place()
            };
            let what = match place.shell(&line, &self.environment()) {
                Ok((Ended::Exited(0), _)) => continue,
                Ok((ended, _)) => ended.to_string(),
                Err(error) => error,
            };
            seen.error.get_or_insert(format!("tear-down `{line}`: {what}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn names_of_directories_are_safe_and_do_not_meet() {
        assert_eq!(file_name("a[n=1,m=x]"), "a,n=1,m=x");
        assert_eq!(file_name("a"), "a");
        assert_ne!(file_name("a/b"), file_name("a b"));
        assert_ne!(file_name("a[n=1]"), file_name("a,n=1"));
        assert_ne!(file_name("a"), file_name("a[]"));
        for id in ["../x", "..", ".", "a/b", &"x".repeat(300)] {
            let name = file_name(id);
            assert!(
                !name.contains('/') && !name.starts_with('.') && name.len() < 200,
                "{name}"
            );
        }
    }
}
