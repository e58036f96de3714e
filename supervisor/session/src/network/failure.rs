//! A peer's failure in words, and what to do about it.

use failure::{ExitCode, Failure};
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
            "run the command manually in this directory; a server must listen, a client must connect"
        }
        PeerError::Died { .. } => "run it manually; the program may have sent something it cannot handle",
        PeerError::Hangs { .. } => {
            "a peer must answer or wait for input; --peer-timeout gives it more time, --settle bounds the wait for one that cannot be inspected"
        }
        PeerError::Floods { .. } => "a peer must stop talking and wait for the program at some point",
        PeerError::NonDeterministic { .. } => {
            "remove what varies (dates, random numbers, process ids); --allow-nondeterministic-peers keeps the first answer"
        }
        PeerError::OfflineMiss { .. } => "run once without --offline to complete the cache file",
        PeerError::CacheFile { .. } => "use a file in a writable directory; without --offline it is created",
        _ => return None,
    })
}
