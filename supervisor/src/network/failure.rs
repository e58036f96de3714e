//! A peer's failure in words, and what to do about it.

use crate::error::{ExitCode, Failure};
use peers::PeerError;

/// A peer's failure ends the command.
pub fn failure(error: PeerError) -> Failure {
    let text = error.to_string();
    let mut lines = text.lines();
    let code = match error {
        PeerError::BrokenOff { .. } => ExitCode::Limit,
        _ => ExitCode::Peer,
    };
    let mut failure = Failure::new(code, lines.next().unwrap_or_default());
    failure.details = lines.map(str::to_owned).collect();
    failure.hint = advice(&error).map(str::to_owned);
    failure
}

/// What to do about a peer's failure.
fn advice(error: &PeerError) -> Option<&'static str> {
    Some(match error {
        PeerError::Start { .. } => {
            "try the command by hand, in this directory; a server must listen, a client must connect"
        }
        PeerError::Died { .. } => "try it by hand; the program may have sent it what it cannot take",
        PeerError::Hangs { .. } => {
            "a peer must answer or wait for input; --peer-timeout gives it more time, --settle bounds the wait for one that cannot be inspected"
        }
        PeerError::Floods { .. } => "a peer must stop talking and wait for the program at some point",
        PeerError::NonDeterministic { .. } => {
            "make it answer alike (dates, random numbers, process ids); --allow-nondeterministic-peers keeps the first answer"
        }
        PeerError::OfflineMiss { .. } => "once without --offline completes the cache file",
        PeerError::CacheFile { .. } => {
            "name another file, in a directory that can be written to; without --offline it is made"
        }
        _ => return None,
    })
}
