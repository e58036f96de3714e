//! `--faults`: the names, and what they ask for.

use checker::left_files::LeftFiles;
use checker::recovery::Recovery;
use failure::Failure;
use globset::{Glob, GlobSetBuilder};
use nix::sys::signal::Signal;
use regex::bytes::Regex;
use session::{FaultPlan, Options};
use std::fmt;
use std::str::FromStr;
use syscall_model::faults::Faults;
use trace::signal_name;

/// One element of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultArg {
    Timeout,
    Call(Faults),
    Signal(i32),
    Kill,
    Power,
}

/// The names with what they ask for; `signal=NAME` stands apart.
const NAMES: [(&str, FaultArg); 15] = [
    ("timeout", FaultArg::Timeout),
    ("refused", FaultArg::Call(Faults::REFUSED)),
    ("reset", FaultArg::Call(Faults::RESET)),
    ("short-read", FaultArg::Call(Faults::SHORT_READ)),
    ("short-write", FaultArg::Call(Faults::SHORT_WRITE)),
    ("eintr", FaultArg::Call(Faults::EINTR)),
    ("loss", FaultArg::Call(Faults::LOSS)),
    ("duplicate", FaultArg::Call(Faults::DUPLICATE)),
    ("reorder", FaultArg::Call(Faults::REORDER)),
    ("nospace", FaultArg::Call(Faults::NO_SPACE)),
    ("ioerror", FaultArg::Call(Faults::IO_ERROR)),
    ("nomemory", FaultArg::Call(Faults::NO_MEMORY)),
    ("nofiles", FaultArg::Call(Faults::NO_FILES)),
    ("kill", FaultArg::Kill),
    ("power", FaultArg::Power),
];

impl FromStr for FaultArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(name) = text.strip_prefix("signal=") {
            return signal(name).map(FaultArg::Signal);
        }
        let known = NAMES.iter().find(|(name, _)| *name == text);
        known.map(|(_, fault)| *fault).ok_or_else(|| {
            let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            format!(
                "there is no such fault; there are {}, signal=NAME",
                names.join(", ")
            )
        })
    }
}

impl fmt::Display for FaultArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(_, fault)| fault == self) {
            Some((name, _)) => write!(f, "{name}"),
            None => match self {
                FaultArg::Signal(number) => write!(f, "signal={}", signal_name(*number)),
                other => write!(f, "{other:?}"),
            },
        }
    }
}

/// `TERM`, `SIGTERM` or `15`. Those that no program can catch are other faults, or none.
fn signal(name: &str) -> Result<i32, String> {
    let upper = name.to_ascii_uppercase();
    let full = if upper.starts_with("SIG") {
        upper
    } else {
        format!("SIG{upper}")
    };
    let number = match name.parse::<i32>() {
        Ok(number) => Signal::try_from(number).ok(),
        Err(_) => Signal::from_str(&full).ok(),
    };
    match number {
        Some(Signal::SIGKILL) => {
            Err("SIGKILL ends the process at any point: that is the fault kill".to_owned())
        }
        Some(Signal::SIGSTOP | Signal::SIGTSTP | Signal::SIGTTIN | Signal::SIGTTOU) => {
            Err("a stopped process does nothing, so there is nothing to explore".to_owned())
        }
        Some(signal) => Ok(signal as i32),
        None => Err(format!("{name} is no signal; for example signal=TERM")),
    }
}

/// The command of `--recover`.
pub fn recovery(command: Option<&str>, options: &Options) -> Result<Option<Recovery>, Failure> {
    let Some(command) = command else { return Ok(None) };
    let spec =
        peers::PeerSpec::parse(command).map_err(|e| Failure::usage(format!("--recover {command}: {e}")))?;
    let argv = spec.argv.into_iter().map(String::into_bytes).collect();
    Recovery::new(argv, &options.config.cwd)
}

/// The files of `--files` and what is said of them.
pub fn left_files(wanted: &[Glob], forbid: &[Regex], require: &[Regex]) -> Result<LeftFiles, Failure> {
    let mut set = GlobSetBuilder::new();
    for glob in wanted {
        set.add(glob.clone());
    }
    let wanted = set.build().map_err(|e| Failure::usage(format!("--files: {e}")))?;
    Ok(LeftFiles {
        wanted,
        forbid: forbid.to_vec(),
        require: require.to_vec(),
    })
}

/// All that was asked for.
pub fn plan(faults: &[FaultArg], budget: u32) -> FaultPlan {
    let mut plan = FaultPlan {
        budget,
        ..FaultPlan::default()
    };
    for fault in faults {
        match *fault {
            FaultArg::Timeout => plan.timeout = true,
            FaultArg::Call(kind) => plan.calls |= kind,
            FaultArg::Signal(number) => {
                plan.calls |= Faults::SIGNAL;
                plan.signals.push(number);
            }
            FaultArg::Kill => {
                plan.calls |= Faults::KILL;
                plan.kill = true;
            }
            FaultArg::Power => {
                plan.calls |= Faults::POWER;
                plan.power = true;
            }
        }
    }
    plan.signals.sort_unstable();
    plan.signals.dedup();
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_is_answered_with_the_right_ones() {
        let answer = "shortread".parse::<FaultArg>().unwrap_err();
        for (name, _) in NAMES {
            assert!(answer.contains(name), "{answer}");
        }
        assert!(answer.contains("signal=NAME"));
    }

    #[test]
    fn signals_have_names_and_numbers() {
        for name in ["signal=TERM", "signal=SIGTERM", "signal=term", "signal=15"] {
            assert_eq!(name.parse(), Ok(FaultArg::Signal(libc::SIGTERM)));
        }
        assert!("signal=KILL".parse::<FaultArg>().unwrap_err().contains("kill"));
        assert!("signal=FOO".parse::<FaultArg>().is_err());
    }
}
