//! What can stop tracefork, as a person and a script see it: one line of reason, a hint, an exit code.
//!
//! [`Failure`] is what every crate of the supervisor returns when a command cannot go on, and [`ExitCode`] has the documented codes. What goes wrong in
//! the layers below (`tracee`, `checkpoint`) is turned into one here; a peer's failure is, where its peer is known, in `session::network`.
#![forbid(unsafe_code)]

use std::fmt;

/// The documented exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    Ok = 0,
    Violation = 1,
    Usage = 2,
    Limit = 3,
    Unsupported = 4,
    Peer = 5,
    Desync = 6,
    /// A bug of ours.
    Internal = 7,
}

const PLEASE_REPORT: &str = "this is a bug in tracefork: please report it with these lines";

/// A failure that ends the command.
#[derive(Debug)]
pub struct Failure {
    pub code: ExitCode,
    /// One line: what and where.
    pub reason: String,
    /// One line: what to do about it.
    pub hint: Option<String>,
    /// Further lines: arguments, backtrace, both sides of a difference.
    pub details: Vec<String>,
    /// What the program had printed by then, where nobody has shown it yet.
    pub printed: Option<Box<Printed>>,
}

/// What a program has printed.
#[derive(Debug, Default)]
pub struct Printed {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl Failure {
    pub fn new(code: ExitCode, reason: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.into(),
            hint: None,
            details: Vec::new(),
            printed: None,
        }
    }

    pub fn usage(reason: impl Into<String>) -> Self {
        Self::new(ExitCode::Usage, reason)
    }

    /// This program or this machine cannot be handled.
    pub fn unsupported(reason: impl Into<String>) -> Self {
        Self::new(ExitCode::Unsupported, reason)
    }

    pub fn desync(reason: impl Into<String>) -> Self {
        Self::new(ExitCode::Desync, reason)
            .hint("something outside tracefork's control changed between two runs; -v shows every operation")
    }

    /// The kernel gives us no further thread.
    pub fn no_thread(error: &std::io::Error) -> Self {
        Failure::unsupported(format!("no thread can be started: {error}"))
            .hint("the limit on processes (ulimit -u) or on memory (ulimit -v) is reached")
    }

    /// What must not happen happened: a broken invariant, a panic.
    pub fn internal(reason: impl Into<String>) -> Self {
        Self::new(ExitCode::Internal, reason).hint(PLEASE_REPORT)
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub fn after(mut self, printed: Printed) -> Self {
        self.printed = Some(Box::new(printed));
        self
    }

    pub fn detail(mut self, line: impl Into<String>) -> Self {
        self.details.push(line.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.reason)?;
        for line in &self.details {
            write!(f, "\n  {line}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n  hint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

/// The task misbehaved below us: nothing a user did.
impl From<tracee::Error> for Failure {
    fn from(error: tracee::Error) -> Self {
        Failure::unsupported(format!("control of the program was lost: {error}"))
            .hint("if something killed it from outside, run again; else please report this")
    }
}

impl From<tracee::MemoryFault> for Failure {
    fn from(fault: tracee::MemoryFault) -> Self {
        tracee::Error::from(fault).into()
    }
}

impl From<checkpoint::Error> for Failure {
    fn from(error: checkpoint::Error) -> Self {
        Failure::unsupported(format!("a checkpoint failed: {error}"))
            .hint("--checkpoint none works without checkpoints, if slowly")
    }
}
