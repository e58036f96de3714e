//! What can go wrong with peers. Every variant ends a run with exit code 5, so every message must say which peer, what it did, and what was expected.

use crate::address::Address;
use crate::answer::{Answer, StreamEnd};
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A failure of a peer or of the cache.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// A `--server` or `--client` text could not be understood.
    #[error("peer command {text:?}: {reason}")]
    BadSpec {
        /// What was given.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The process did not come up, or did not listen.
    #[error("peer {name} failed to start: {reason}{}", tail(.last_output))]
    Start {
        /// The peer's name.
        name: String,
        /// Why.
        reason: String,
        /// The end of its output.
        last_output: String,
    },
    /// A server ended with a failure.
    #[error("server peer {name} died ({}){}", ended(*.status), tail(.last_output))]
    Died {
        /// The peer's name.
        name: String,
        /// Exit status, negative for a signal.
        status: i32,
        /// The end of its output.
        last_output: String,
    },
    /// A server that had taken connections takes no more.
    #[error("server peer {name} has refused another connection to {connection}, which is needed to say again what was said before{}", tail(.last_output))]
    Refuses {
        /// The peer's name, or its address if it is not one of ours.
        name: String,
        /// Which connection.
        connection: String,
        /// The end of its output.
        last_output: String,
    },
    /// The peer neither answers nor waits for input.
    #[error("peer {name} hangs: after {waited_ms} ms it still {doing}{}", tail(.last_output))]
    Hangs {
        /// The peer's name.
        name: String,
        /// How long it was given.
        waited_ms: u128,
        /// What its tasks do.
        doing: String,
        /// The end of its output.
        last_output: String,
    },
    /// Whoever waits for the command wants it to end.
    #[error("peer {name} was waited for when the time was over")]
    BrokenOff {
        /// The peer's name, or its address if it is not one of ours.
        name: String,
    },
    /// The peer does not stop talking.
    #[error("peer {name} floods {connection}: more than {limit} bytes in one answer, the last of them \"{last}\"{}", tail(.last_output))]
    Floods {
        /// The peer's name.
        name: String,
        /// Which connection.
        connection: String,
        /// The bound.
        limit: usize,
        /// The last bytes.
        last: String,
        /// The end of its output.
        last_output: String,
    },
    /// A server of datagrams goes on from another port, as those of TFTP do.
    #[error(
        "peer {name} answers {connection} from another address, {from}: conversations that go on from another port, as those of TFTP do, are not modelled; use a server that answers from its own port"
    )]
    AnswersFromElsewhere {
        /// The peer's name.
        name: String,
        /// Which connection.
        connection: String,
        /// Where the answer came from.
        from: SocketAddr,
    },
    /// The peer answered a replay differently.
    #[error("peer is not deterministic: on {connection}, after \"{after}\", it answers a replay differently\n{}", side_by_side(.expected, .actual))]
    NonDeterministic {
        /// Which connection.
        connection: String,
        /// What it had been told.
        after: String,
        /// What it had said before.
        expected: Box<Answer>,
        /// What it says now.
        actual: Box<Answer>,
    },
    /// In linear mode the SUT wrote something other than before.
    #[error(
        "linear cache cannot serve {connection}: after \"{after}\" the SUT wrote \"{actual}\", but the one recorded trace goes on with {expected} (use --cache branching)"
    )]
    LinearDivergence {
        /// Which connection.
        connection: String,
        /// What was written before.
        after: String,
        /// What the trace holds.
        expected: String,
        /// What the SUT wrote.
        actual: String,
    },
    /// Offline, and the trees do not hold what is needed.
    #[error("offline: the saved cache cannot serve {connection}: after \"{after}\" it needs {wanted}")]
    OfflineMiss {
        /// Which connection.
        connection: String,
        /// What was written before.
        after: String,
        /// What is missing.
        wanted: String,
    },
    /// A connection or listening socket could not be made.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A connection did not come to be, and not for lack of anything here: for the program under test that is an answer like any other.
    #[error("connecting to {address}: {}", std::io::Error::from_raw_os_error(*.errno))]
    NoWay {
        /// Where to.
        address: String,
        /// What the program is told.
        errno: i32,
    },
    /// A cache file is damaged or not ours.
    #[error("cache file {}: {reason}", path.display())]
    CacheFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The caller named a connection that the state does not hold.
    #[error("no such connection in this state: {0}")]
    NoConnection(String),
}

impl PeerError {
    /// An input/output error with its context.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> PeerError {
        let what = what.into();
        move |source| PeerError::Io { what, source }
    }

    /// Why a connection did not come to be: the network's doing, or this machine has no more of something.
    pub(crate) fn connecting(address: &Address, source: std::io::Error) -> PeerError {
        let address = address.to_string();
        let errno = match (source.raw_os_error(), source.kind()) {
            (None, ErrorKind::TimedOut) => libc::ETIMEDOUT,
            // Whether there is such a path is for the program's own view of the files to say; it would not have come here.
            (Some(libc::ENOENT), _) => libc::ECONNREFUSED,
            (errno, _) => errno.unwrap_or(0),
        };
        match errno {
            libc::ECONNREFUSED | libc::ECONNRESET | libc::ETIMEDOUT | libc::EPROTOTYPE => {}
            libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN | libc::EHOSTDOWN => {}
            libc::EACCES | libc::EPERM | libc::EINVAL | libc::EAFNOSUPPORT => {}
            _ => {
                let what = format!("connecting to {address}");
                return PeerError::Io { what, source };
            }
        }
        PeerError::NoWay { address, errno }
    }
}

/// How a process ended, by its status.
pub(crate) fn ended(status: i32) -> String {
    if status < 0 {
        format!("killed by signal {}", -status)
    } else {
        format!("exit status {status}")
    }
}

fn tail(output: &str) -> String {
    if output.is_empty() {
        String::from("; it printed nothing")
    } else {
        format!("; its last output:\n{}", output.trim_end())
    }
}

/// Bytes for people, shortened in the middle if long.
#[must_use]
pub fn show(bytes: &[u8]) -> String {
    const KEEP: usize = 160;
    if bytes.len() <= 2 * KEEP {
        return bytes.escape_ascii().to_string();
    }
    let (head, rest) = bytes.split_at(KEEP);
    format!(
        "{}…({} bytes)…{}",
        head.escape_ascii(),
        rest.len() - KEEP,
        rest[rest.len() - KEEP..].escape_ascii()
    )
}

/// An answer as lines, one per thing said.
#[must_use]
pub fn lines(answer: &Answer) -> Vec<String> {
    let mut all = Vec::new();
    for (channel, speech) in answer.speeches() {
        let prefix = if channel == 0 {
            String::new()
        } else {
            format!("#{channel} ")
        };
        all.extend(
            speech
                .opened
                .iter()
                .map(|at| format!("{prefix}(connects to {at})")),
        );
        all.extend(
            speech
                .bytes
                .split_inclusive(|&b| b == b'\n')
                .map(|line| format!("{prefix}{}", show(line))),
        );
        all.extend(speech.datagrams.iter().map(|d| format!("{prefix}[{}]", show(d))));
        match speech.end {
            StreamEnd::Open => {}
            StreamEnd::Eof => all.push(format!("{prefix}(end of stream)")),
            StreamEnd::Reset => all.push(format!("{prefix}(reset)")),
            StreamEnd::Closed => all.push(format!("{prefix}(end of stream, closed)")),
        }
    }
    all.extend(answer.exit.map(|status| format!("({})", ended(status))));
    if all.is_empty() {
        all.push(String::from("(nothing)"));
    }
    all
}

/// Two answers next to each other, differing lines marked.
#[must_use]
pub fn side_by_side(expected: &Answer, actual: &Answer) -> String {
    let (left, right) = (lines(expected), lines(actual));
    let width = left
        .iter()
        .map(|l| l.chars().count())
        .max()
        .unwrap_or(0)
        .clamp(12, 100);
    let mut out = format!("    {:width$}  | {}\n", "recorded", "now");
    for i in 0..left.len().max(right.len()) {
        let (a, b) = (
            left.get(i).map_or("", String::as_str),
            right.get(i).map_or("", String::as_str),
        );
        let mark = if a == b { ' ' } else { '≠' };
        let _ = writeln!(out, "  {mark} {a:width$}  | {b}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differing_lines_are_marked() {
        let text = side_by_side(&Answer::data(b"one\ntwo\n"), &Answer::data(b"one\nthree\n"));
        assert!(text.contains("    one\\n"), "{text}");
        assert!(text.contains("≠ two\\n"), "{text}");
        assert!(text.contains("three\\n"), "{text}");
    }
}
