//! One program of the list: natively twice, for the native run must be the same each time to be the judge, then supervised under each seed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::background::Background;
use super::{Aspect, Kind, Program};
use crate::directives::End;
use crate::networked::free_port;
use crate::observe::{self, Entry, Observed, Scratch};
use crate::packages;
use crate::process::{self, Finished};
use crate::supervised::Tracefork;

/// The schedules that are tried.
pub const SEEDS: [u64; 3] = [1, 2, 3];

/// A run that takes longer hangs. The slowest programs of the list take a hundredth of it on a quiet machine.
const LIMIT: Duration = Duration::from_mins(30);

/// For what is known to differ, which may mean that it does not end.
const SHORT_LIMIT: Duration = Duration::from_secs(20);

/// How long a native server may take to end when it is told to; it is killed then, and nothing depends on it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Exit code of tracefork for a program that it cannot handle, as documented.
const STOPPED: i32 = 4;

/// Under what name the client's output is compared.
const CLIENT: &str = "(what the client printed)";

/// What came of the supervised runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As natively, under every seed.
    Same,
    /// Refused with this message, under every seed alike.
    Stops(String),
    /// Anything else: how.
    Differs(String),
}

/// One place to run in, used by all runs of a program, so that paths are the same in all.
struct Place<'a> {
    program: &'a Program,
    scratch: Scratch,
    template: PathBuf,
}

/// What one run was given in place of the placeholders.
struct Ports {
    port: u16,
    second: u16,
}

/// One supervised run.
enum Supervised {
    Ran(Observed),
    Stopped(String),
    Failed(String),
}

/// Runs the program natively and supervised. An error is a fault of the list or of the machine.
pub fn judge(program: &Program, tracefork: &Tracefork) -> Result<Verdict> {
    judge_under(program, tracefork, &SEEDS)
}

/// The same with these schedules.
pub fn judge_under(program: &Program, tracefork: &Tracefork, seeds: &[u64]) -> Result<Verdict> {
    let place = Place::new(program)?;
    let expected = place.natively().context("natively")?;
    let again = place.natively().context("natively, once more")?;
    if let Some(difference) = again.difference_from(&expected) {
        bail!("two native runs differ, so there is nothing to compare with:\n{difference}");
    }
    let mut stopped = None;
    for &seed in seeds {
        let got = place.supervised(tracefork, seed)?;
        match got {
            Supervised::Ran(seen) => match seen.difference_from(&expected) {
                None if stopped.is_none() => {}
                None => {
                    return Ok(Verdict::Differs(format!(
                        "with seed {seed} it runs, else it stops"
                    )));
                }
                Some(difference) => return Ok(Verdict::Differs(format!("with seed {seed}:\n{difference}"))),
            },
            Supervised::Failed(message) => {
                return Ok(Verdict::Differs(format!("with seed {seed}: {message}")));
            }
            Supervised::Stopped(message) if seed == seeds[0] || stopped.is_some() => stopped = Some(message),
            Supervised::Stopped(message) => {
                return Ok(Verdict::Differs(format!("with seed {seed} it stops: {message}")));
            }
        }
    }
    Ok(stopped.map_or(Verdict::Same, Verdict::Stops))
}

/// Explores the program with these options; how the command ended, and its result.
pub fn explore(program: &Program, tracefork: &Tracefork, options: &[&str]) -> Result<(Finished, Value)> {
    let place = Place::new(program)?;
    let ports = Ports::new()?;
    place.reset(&ports)?;
    let options = [&["check", "--quiet"], options].concat();
    let finished = process::run(place.command(tracefork, &options, &ports)?, LIMIT)?;
    let text = fs::read_to_string(place.scratch.beside("result.json")).unwrap_or_default();
    Ok((finished, serde_json::from_str(&text).unwrap_or_default()))
}

impl<'a> Place<'a> {
    fn new(program: &'a Program) -> Result<Place<'a>> {
        let scratch = Scratch::new()?;
        let place = Place {
            template: scratch.beside("template"),
            program,
            scratch,
        };
        place.write_files(&Ports::new()?)?;
        if let Some(setup) = &program.setup {
            let finished = process::run(place.shell(setup), LIMIT)?;
            ensure!(finished.end == End::Exit(0), "the setup: {}", said(&finished));
        }
        fs::rename(place.scratch.work(), &place.template)?;
        fs::create_dir(place.scratch.work())?;
        Ok(place)
    }

    /// Puts the working directory back to how it is before every run.
    fn reset(&self, ports: &Ports) -> Result<()> {
        self.scratch.clear()?;
        let mut copy = Command::new("cp");
        copy.arg("-a")
            .arg(self.template.join("."))
            .arg(self.scratch.work());
        let finished = process::run(copy, LIMIT)?;
        ensure!(finished.end == End::Exit(0), "cp: {}", said(&finished));
        self.write_files(ports)
    }

    fn write_files(&self, ports: &Ports) -> Result<()> {
        for (name, text) in &self.program.files {
            let path = self.scratch.work().join(name);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            let text = self.fill(text, ports);
            // What has no port in it may have been changed by the setup.
            if !path.exists() || self.program.files[name] != text {
                fs::write(path, text)?;
            }
        }
        Ok(())
    }

    fn fill(&self, text: &str, ports: &Ports) -> String {
        text.replace("{port}", &ports.port.to_string())
            .replace("{second}", &ports.second.to_string())
            .replace("{work}", &self.scratch.work().display().to_string())
    }

    fn environment<'c>(&self, command: &'c mut Command, ports: &Ports) -> &'c mut Command {
        for (name, value) in &self.program.env {
            command.env(name, self.fill(value, ports));
        }
        command
    }

    fn shell(&self, text: &str) -> Command {
        let mut command = observe::clean_command(Path::new("/bin/sh"), &self.scratch.work());
        command.args(["-c", text]);
        command
    }

    /// The program's file and arguments.
    fn command_line(&self, ports: &Ports) -> Result<(PathBuf, Vec<String>)> {
        let (name, arguments) = self.program.run.split_first().context("there is a command")?;
        let file = match name.contains('/') {
            true => PathBuf::from(name),
            false => packages::find(name)
                .with_context(|| format!("{:?} have no command {name}", self.program.packages))?,
        };
        Ok((
            file,
            arguments
                .iter()
                .map(|argument| self.fill(argument, ports))
                .collect(),
        ))
    }

    /// The client's command with its exit code shown.
    fn client(&self, ports: &Ports) -> Option<String> {
        let command = self.fill(self.program.client.as_ref()?, ports);
        Some(format!("{{ {command}\n}} 2>&1; echo \"[exit $?]\""))
    }

    fn natively(&self) -> Result<Observed> {
        let ports = Ports::new()?;
        self.reset(&ports)?;
        let (file, arguments) = self.command_line(&ports)?;
        let mut command = observe::clean_command(&file, &self.scratch.work());
        let stdin = self.stdin()?;
        command.args(arguments).stdin(fs::File::open(stdin)?);
        self.environment(&mut command, &ports);
        let server = self.start_server(&ports)?;
        let (finished, client) = match self.client(&ports) {
            Some(client) => self.serve(command, &client, &ports)?,
            None => (process::run(command, LIMIT)?, None),
        };
        if let Some(server) = server {
            server.stop(PATIENCE)?;
        }
        let code = format!("[exit {}]", self.program.exit);
        match &client {
            Some(printed) => ensure!(
                String::from_utf8_lossy(printed).trim_end().ends_with(&code),
                "the client was to end with exit code {}, and printed:\n{}",
                self.program.exit,
                String::from_utf8_lossy(printed)
            ),
            None => ensure!(
                finished.end == End::Exit(self.program.exit),
                "{}",
                said(&finished)
            ),
        }
        let mut end = finished.end;
        if client.is_some() && !self.program.ends {
            end = End::Exit(0);
        }
        let observed = Observed {
            stdout: finished.stdout,
            stderr: finished.stderr,
            end,
            files: observe::files_under(&self.scratch.work())?,
        };
        self.reduce(observed, client, &ports)
    }

    /// The real server that the program talks to, if there is one, listening.
    fn start_server(&self, ports: &Ports) -> Result<Option<Background>> {
        let Some(server) = &self.program.server else {
            return Ok(None);
        };
        let server = self.shell(&format!("exec {}", self.fill(server, ports)));
        let mut server = Background::start(server, &self.scratch.beside("server"))?;
        let port = match self.program.kind {
            Kind::Server => ports.second,
            Kind::Tool | Kind::Client => ports.port,
        };
        server.wait_for_port(port, LIMIT).context("the server")?;
        Ok(Some(server))
    }

    /// A server under test, and what its client printed.
    fn serve(&self, command: Command, client: &str, ports: &Ports) -> Result<(Finished, Option<Vec<u8>>)> {
        let mut server = Background::start(command, &self.scratch.beside("program"))?;
        server.wait_for_port(ports.port, LIMIT)?;
        let printed = process::run(self.shell(client), LIMIT).context("the client")?;
        let finished = match self.program.ends {
            true => server.wait(LIMIT)?,
            false => server.stop(PATIENCE)?,
        };
        Ok((finished, Some(printed.stdout)))
    }

    fn stdin(&self) -> Result<PathBuf> {
        let path = self.scratch.beside("stdin");
        fs::write(&path, &self.program.stdin)?;
        Ok(path)
    }

    fn supervised(&self, tracefork: &Tracefork, seed: u64) -> Result<Supervised> {
        let ports = Ports::new()?;
        self.reset(&ports)?;
        let (json, peers) = (self.scratch.beside("result.json"), self.scratch.beside("peers"));
        let seed = seed.to_string();
        let mut options = vec!["run", "--quiet", "--seed", &seed];
        if self.program.compared().contains(&Aspect::Files) {
            options.push("--apply-writes");
        }
        let command = self.command(tracefork, &options, &ports)?;
        let client = self.client(&ports);
        let limit = match self.program.differs {
            Some(_) => SHORT_LIMIT,
            None => LIMIT,
        };
        let finished = match process::run(command, limit) {
            Ok(finished) => finished,
            Err(error) => return Ok(Supervised::Failed(format!("{error:#}"))),
        };
        let text = fs::read_to_string(&json).unwrap_or_default();
        let result: Value = serde_json::from_str(&text).unwrap_or_default();
        let printed = client.map(|_| printed_by_client(&peers)).transpose()?;
        self.understand(finished, &result, printed, &ports)
    }

    /// The command with these options, the peers of the program and places for what comes of it.
    fn command(&self, tracefork: &Tracefork, options: &[&str], ports: &Ports) -> Result<Command> {
        let (file, arguments) = self.command_line(ports)?;
        let (json, peers) = (self.scratch.beside("result.json"), self.scratch.beside("peers"));
        for left in [fs::remove_file(&json), fs::remove_dir_all(&peers)] {
            // The first run has left nothing.
            let _ = left;
        }
        let mut command = tracefork.command(&self.scratch.work());
        command.args(options).arg("--stdin").arg(self.stdin()?);
        command.arg("--json").arg(&json).args(&self.program.options);
        if self.program.client.is_some() {
            command.arg("--peer-output").arg(&peers);
        }
        if let Some(server) = &self.program.server {
            command.arg("--server").arg(self.fill(server, ports));
        }
        if let Some(client) = self.client(ports) {
            command.arg("--client").arg(client);
        }
        self.environment(&mut command, ports);
        command.arg("--").arg(file).args(arguments);
        Ok(command)
    }

    /// What a supervised run amounts to.
    fn understand(
        &self,
        finished: Finished,
        result: &Value,
        client: Option<Vec<u8>>,
        ports: &Ports,
    ) -> Result<Supervised> {
        let message = first_line(&finished.stderr);
        if finished.end == End::Exit(STOPPED) && !message.is_empty() {
            return Ok(Supervised::Stopped(message));
        }
        let outcome = &result["outcomes"][0];
        let end = match (outcome["exit"].as_i64(), outcome["signal"].as_i64()) {
            (Some(code), _) => End::Exit(i32::try_from(code)?),
            (_, Some(signal)) => End::Signal(i32::try_from(signal)?),
            // A server that has nobody left to serve is told to end, natively.
            _ if outcome["idle"] == true && client.is_some() && !self.program.ends => End::Exit(0),
            _ => {
                return Ok(Supervised::Failed(format!(
                    "tracefork ended with {:?}: {message} {outcome}",
                    finished.end
                )));
            }
        };
        let observed = Observed {
            stdout: finished.stdout,
            // From the result, as the supervisor has things of its own to say on standard error.
            stderr: outcome["stderr"].as_str().unwrap_or_default().into(),
            end,
            files: observe::files_under(&self.scratch.work())?,
        };
        Ok(Supervised::Ran(self.reduce(observed, client, ports)?))
    }

    /// What is compared of a run, with the rest left out and what legitimately differs made the same.
    fn reduce(&self, seen: Observed, client: Option<Vec<u8>>, ports: &Ports) -> Result<Observed> {
        let compared = self.program.compared();
        let filters = self.program.filters()?;
        // A tool is given no port; a number like it is something else.
        let ports = match self.program.kind {
            Kind::Tool => Vec::new(),
            Kind::Client | Kind::Server => vec![(ports.port, "PORT"), (ports.second, "SECOND")],
        };
        let general = |mut bytes: Vec<u8>| -> Vec<u8> {
            for (port, name) in &ports {
                bytes = replace(&bytes, port.to_string().as_bytes(), name.as_bytes());
            }
            for (pattern, replacement) in &filters {
                bytes = pattern.replace_all(&bytes, replacement.as_bytes()).into_owned();
            }
            bytes
        };
        let mut files = BTreeMap::new();
        if compared.contains(&Aspect::Files) {
            for (path, entry) in seen.files {
                let entry = match entry {
                    Entry::File { mode, bytes } => Entry::File {
                        mode,
                        bytes: general(bytes),
                    },
                    other => other,
                };
                files.insert(path, entry);
            }
        }
        if let Some(bytes) = client.filter(|_| compared.contains(&Aspect::Client)) {
            let bytes = general(bytes);
            files.insert(CLIENT.into(), Entry::File { mode: 0, bytes });
        }
        let keep = |aspect, bytes| match compared.contains(&aspect) {
            true => general(bytes),
            false => Vec::new(),
        };
        let reduced = Observed {
            stdout: keep(Aspect::Stdout, seen.stdout),
            stderr: keep(Aspect::Stderr, seen.stderr),
            end: match compared.contains(&Aspect::End) {
                true => seen.end,
                false => End::Exit(0),
            },
            files,
        };
        Ok(match self.program.unordered {
            true => reduced.with_sorted_lines(),
            false => reduced,
        })
    }
}

impl Ports {
    fn new() -> Result<Ports> {
        Ok(Ports {
            port: free_port()?,
            second: free_port()?,
        })
    }
}

/// What the client printed, which is in the only file of a client.
fn printed_by_client(peers: &Path) -> Result<Vec<u8>> {
    let mut printed = Vec::new();
    let Ok(entries) = fs::read_dir(peers) else {
        return Ok(printed);
    };
    for entry in entries {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if name.starts_with("client") {
            printed.extend(fs::read(&path)?);
        }
    }
    Ok(printed)
}

fn replace(bytes: &[u8], what: &[u8], by: &[u8]) -> Vec<u8> {
    let mut replaced = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while !rest.is_empty() {
        match rest.strip_prefix(what) {
            Some(after) => {
                replaced.extend_from_slice(by);
                rest = after;
            }
            None => {
                replaced.push(rest[0]);
                rest = &rest[1..];
            }
        }
    }
    replaced
}

fn first_line(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let line = text.lines().find(|line| line.starts_with("tracefork: "));
    line.unwrap_or_default()
        .trim_start_matches("tracefork: ")
        .to_owned()
}

fn said(finished: &Finished) -> String {
    format!(
        "{:?}; it said: {} {}",
        finished.end,
        String::from_utf8_lossy(&finished.stdout).trim(),
        String::from_utf8_lossy(&finished.stderr).trim()
    )
}

impl Program {
    /// Whether the verdict is the one that the list says; else what to do about it.
    pub fn check(&self, verdict: &Verdict) -> Result<()> {
        match (verdict, &self.stops, &self.differs) {
            (Verdict::Same, None, None) | (Verdict::Stops(_), Some(_), None) => Ok(()),
            (Verdict::Differs(_), None, Some(_)) => Ok(()),
            (Verdict::Same, ..) => {
                bail!("it is the same as natively now: take `stops` or `differs` out of its entry")
            }
            (Verdict::Stops(message), ..) => bail!("it stops: {message}"),
            (Verdict::Differs(how), ..) => bail!("the supervised run differs from the native one {how}"),
        }
    }

    /// As it would be typed.
    pub fn command_line(&self) -> String {
        let words = self.run.iter().map(|word| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%{}".contains(c);
            match !word.is_empty() && word.chars().all(plain) {
                true => word.clone(),
                false => format!("'{}'", word.replace('\'', "'\\''")),
            }
        });
        words.collect::<Vec<String>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_replaced() {
        assert_eq!(replace(b"at 10001, 10001!", b"10001", b"PORT"), b"at PORT, PORT!");
    }

    #[test]
    fn the_message_is_found() {
        assert_eq!(first_line(b"noise\ntracefork: no\n  hint: x\n"), "no");
    }
}
