//! Traces: all that is needed to execute one schedule again, on this machine or another.
//!
//! [`format`](mod@format) is the file, [`Trace`] what it holds. Everything in it is a function of the program, its
//! inputs and the choices, so that the same schedule gives the same bytes.
//!
//! A trace is a list of [`Step`]s, each an [`Operation`] of one thread with the number of its [`Alternative`], and an [`End`]. Around them
//! stands what a replay needs: the program, the files that it saw ([`InputRecord`]), what its peers said ([`Traffic`]) and the [`Machine`]. A
//! counterexample has a [`Finding`], the [`Violation`] that it shows. Who makes traces and executes them is above (`session`, `checker`), as is who draws them
//! (`views`).
//!
//! - `format.rs`: the file; `sound.rs`: whether what it holds can be a trace
//! - `alternative.rs`: which of several results a step has
//! - `inputs.rs`: the files that the program saw
//! - `machine.rs`: where it was recorded
//! - `residents.rs`: peers that are executed with the program
//! - `traffic.rs`: what was said when
//! - `violation.rs`: what a counterexample shows
#![forbid(unsafe_code)]

mod alternative;
pub mod format;
mod inputs;
mod machine;
mod residents;
mod sound;
mod traffic;
mod violation;

pub use alternative::{Alternative, ENVIRONMENT};
pub use inputs::{Answer, ContentRecord, InputRecord, Listing, digest};
pub use machine::Machine;
pub use residents::{ResidentRecord, ResidentsRecord};
pub use traffic::{Connection, Event, Traffic, Transport, What};
pub use violation::{Violation, ViolationKind};

use hooks::{Preempt, Watched};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use syscall_model::table::{self, Detail};
use syscall_model::{Call, Config, Sysno};

/// In [`Trace::locations`], between the name of a step's object and its place in the source.
pub const COLUMNS: &str = "  ";

/// What names of objects in memory that processes share begin with. The name is the same in all of them.
pub const SHARED: &str = "shared:";

/// A recorded schedule. Flat, because the file has these fields in this order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    pub program: ProgramRecord,
    pub config: Config,
    pub preempt: Preempt,
    /// The seed that chose the schedule; the choices themselves are in `steps`.
    pub seed: u64,
    #[serde(deserialize_with = "peers::bounded::vec")]
    pub steps: Vec<Step>,
    pub end: End,
    /// Where in the source each step was, as far as that is known; for people only. Empty for plain runs.
    #[serde(deserialize_with = "peers::bounded::vec")]
    pub locations: Vec<String>,
    /// What the schedule shows, if it is a counterexample.
    pub finding: Option<Finding>,
    /// What peers said, as a saved cache; empty if there were none.
    pub communication: Vec<u8>,
    /// What was said when. It has a place of its own in the file, see [`format`](mod@format).
    #[serde(skip)]
    pub traffic: Traffic,
    /// The files that the program saw.
    pub inputs: InputRecord,
    /// Where it was recorded.
    pub machine: Machine,
    /// Loads and stores that were parking points, see [`Preempt::Auto`].
    pub watched: Watched,
    /// Faults that calls could meet, as bits: such calls were parking points.
    pub faults: u32,
    /// The command that found the files afterwards, if the process or the machine went off; empty if there was none.
    pub recover: Vec<Vec<u8>>,
    /// Set if a walk found this, which watches more than a search: words on stacks that other threads than their owner had accessed.
    pub lent: Option<BTreeSet<u64>>,
    /// Peers that are executed with the program, if there were such.
    pub residents: Option<ResidentsRecord>,
}

/// What a counterexample shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub violation: Violation,
    pub preemptions: u32,
    /// After this step (counted from 0) every continuation ends in a violation.
    pub critical: Option<u64>,
}

/// What was run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramRecord {
    pub path: Vec<u8>,
    /// BLAKE3 of the file.
    pub digest: [u8; 32],
    #[serde(deserialize_with = "peers::bounded::vec")]
    pub argv: Vec<Vec<u8>>,
    #[serde(deserialize_with = "peers::bounded::vec")]
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
}

/// One transition: which thread, and what it did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub thread: u32,
    pub operation: Operation,
    /// The instruction pointer at which the thread stood.
    pub at: u64,
    /// Everything else that the transition did (invisible calls and their results), folded together.
    pub digest: u64,
    /// 0, or which of several results it had: the number of an [`Alternative`].
    pub alternative: u32,
    /// What had arrived from peers, in words, if the operation could have seen something else.
    pub arrived: Option<String>,
}

/// What a thread does in a transition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    Start,
    /// A system call; `result` is `None` if it began to wait, or never returns.
    Call {
        number: u32,
        args: [u64; 6],
        result: Option<i64>,
    },
    /// A hooked operation on the object at this address.
    Sync {
        name: Cow<'static, str>,
        object: u64,
    },
    /// A woken call returns.
    Wake {
        result: i64,
    },
    /// Out of a spin loop.
    Spin,
    /// A signal is delivered first.
    Signal {
        number: i32,
    },
    /// No thread moves: a timer fires.
    TimePasses,
    /// A call returns whose effect others may have seen before: the creation of a thread.
    Return,
    /// No thread moves: somebody sends the process a signal.
    SignalFromOutside {
        number: i32,
    },
    /// No thread moves: the process is killed.
    KilledFromOutside,
    /// No thread moves: the machine goes off.
    PowerFails,
    /// No thread moves: something happens to a datagram on its way to the program.
    Mishap {
        what: String,
    },
    /// No thread can move, and nothing comes from outside.
    Rests,
    /// Threads move on, and none of their schedules ends.
    GoesOnForEver,
}

/// How the schedule ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum End {
    Exited(i32),
    Killed(i32),
    /// No thread can make progress.
    Deadlock,
    /// The step limit was reached.
    Cut,
    /// All wait for clients, and none has anything more to say.
    Idle,
    /// All who can go on look for something, again and again, and it never comes.
    Livelock,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Start => write!(f, "starts"),
            Operation::Call { number, args, result } => {
                let Some(sysno) = Sysno::new(*number as usize) else {
                    return write!(f, "system call {number}");
                };
                let call = Call::new(sysno, *args);
                f.write_str(&table::describe(&call, Detail::Full))?;
                match result {
                    Some(value) => write!(f, " = {}", table::describe_result(sysno, *value, Detail::Full)),
                    None => Ok(()),
                }
            }
            Operation::Sync { name, object } => write!(f, "{name}({object:#x})"),
            Operation::Wake { result } => write!(f, "wakes with {}", woken_with(*result)),
            Operation::Return => write!(f, "goes on"),
            Operation::Spin => write!(f, "spins"),
            Operation::Signal { number } => write!(f, "takes signal {number}"),
            Operation::TimePasses => write!(f, "time passes"),
            Operation::Rests => write!(f, "nothing more happens"),
            Operation::GoesOnForEver => write!(f, "no schedule ends from here"),
            Operation::SignalFromOutside { number } => {
                write!(f, "{} comes from outside", signal_name(*number))
            }
            Operation::KilledFromOutside => write!(f, "the process is killed from outside"),
            Operation::PowerFails => write!(f, "the power fails"),
            Operation::Mishap { what } => write!(f, "{what}"),
        }
    }
}

/// The result of a call that has waited.
fn woken_with(result: i64) -> String {
    match result {
        -4095..=-1 => table::error_name(-result as i32),
        _ => result.to_string(),
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Exited(status) => write!(f, "exited with status {status}"),
            End::Killed(signal) => write!(f, "killed by signal {signal} ({})", signal_name(*signal)),
            End::Deadlock => write!(f, "deadlock: no thread can make progress"),
            End::Livelock => write!(
                f,
                "livelock: every thread waits or polls for something that never happens"
            ),
            End::Cut => write!(f, "stopped at the step limit"),
            End::Idle => write!(
                f,
                "idle: every thread waits for clients or signals, and nothing more comes from outside"
            ),
        }
    }
}

/// The name of a signal, as people write it.
pub fn signal_name(number: i32) -> String {
    nix::sys::signal::Signal::try_from(number)
        .map_or_else(|_| format!("SIGRT{number}"), |signal| signal.to_string())
}

/// Output as UTF-8, with what is not UTF-8 escaped.
pub fn escape(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn invalid_bytes_are_escaped_and_the_rest_is_kept() {
        assert_eq!(escape("grüße\n".as_bytes()), "grüße\n");
        assert_eq!(escape(b"a\xffb\xc3"), "a\\xffb\\xc3");
    }
}
