//! Whether a trace that comes from a file can be one: what executing and showing it takes for granted.
//!
//! A checksum tells damage, not intent, and traces are sent around. What the steps claim needs no check here: executing them compares each
//! with what really happens.

use super::Trace;
use syscall_model::residents::Peer;

/// The highest number of a process on Linux.
const MOST_PIDS: u32 = 4_194_304;
const MOST_PROCESSORS: u32 = 1024;
/// Seconds since 1970 that `--epoch` takes.
const EPOCHS: std::ops::RangeInclusive<u64> = 1_000_000..=4_000_000_000;
/// Groups that a process can be in.
const MOST_GROUPS: usize = 65_536;
/// The longest path.
const PATH_MAX: usize = 4096;

impl Trace {
    /// # Errors
    /// What no trace of ours has.
    pub(super) fn check(&self) -> Result<(), String> {
        self.check_program()?;
        self.check_config()?;
        self.check_residents()?;
        self.check_traffic()?;
        self.inputs.check()
    }

    fn check_program(&self) -> Result<(), String> {
        let program = &self.program;
        is_path("the program", &program.path)?;
        if program.argv.is_empty() {
            return Err("the program has no arguments, not even its name".to_owned());
        }
        if program.argv.iter().any(|argument| argument.contains(&0)) {
            return Err("an argument of the program has a zero byte in it".to_owned());
        }
        let is_variable = |(name, value): &(Vec<u8>, Vec<u8>)| !name.contains(&0) && !value.contains(&0);
        if !program.env.iter().all(is_variable) {
            return Err("an environment variable has a zero byte in it".to_owned());
        }
        Ok(())
    }

    fn check_config(&self) -> Result<(), String> {
        let config = &self.config;
        is_path("the working directory", &config.cwd)?;
        is_path("the program", &config.program)?;
        let wrong = |what: &str, value: u64| Err(format!("{what} is {value}"));
        if !(1..=MOST_PIDS).contains(&config.pid) {
            return wrong("the process number", config.pid.into());
        }
        if !(1..=MOST_PROCESSORS).contains(&config.cpus) {
            return wrong("the number of processors", config.cpus.into());
        }
        if !EPOCHS.contains(&config.epoch_seconds) {
            return wrong("the time at the start", config.epoch_seconds);
        }
        if config.umask > 0o777 {
            return wrong("the umask", config.umask.into());
        }
        if config.groups.len() > MOST_GROUPS {
            return wrong("the number of groups", config.groups.len() as u64);
        }
        Ok(())
    }

    fn check_residents(&self) -> Result<(), String> {
        let Some(residents) = &self.residents else {
            return Ok(());
        };
        let (servers, clients) = (&residents.servers, &residents.clients);
        if servers.len() > Peer::MOST_SERVERS || clients.len() > Peer::MOST_CLIENTS {
            return Err("there are more peers than there can be".to_owned());
        }
        if self.config.pid >= Peer::Server(0).first_pid() {
            return Err("the process number is one of the peers'".to_owned());
        }
        for resident in servers.iter().chain(clients) {
            is_path("a peer", &resident.path)?;
            if resident.argv.is_empty() || resident.argv.iter().any(|argument| argument.contains(&0)) {
                return Err("a peer has no arguments, or one with a zero byte in it".to_owned());
            }
            // A client comes after an earlier one only.
            if resident.after.is_some_and(|kind| kind >= resident.kind) {
                return Err("a client comes after itself".to_owned());
            }
        }
        Ok(())
    }

    fn check_traffic(&self) -> Result<(), String> {
        let traffic = &self.traffic;
        let count = traffic.connections.len();
        let mut before = 0;
        for event in &traffic.events {
            if event.connection as usize >= count {
                return Err(format!(
                    "something was said on connection {}, and there are {count}",
                    event.connection
                ));
            }
            if event.step < before || event.step > self.steps.len() as u64 {
                return Err(format!("something was said in step {} out of turn", event.step));
            }
            before = event.step;
        }
        Ok(())
    }
}

fn is_path(what: &str, path: &[u8]) -> Result<(), String> {
    if !path.starts_with(b"/") || path.contains(&0) || path.len() >= PATH_MAX {
        return Err(format!("the path of {what} is no absolute path"));
    }
    Ok(())
}
