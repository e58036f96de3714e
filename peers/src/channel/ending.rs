//! How we end a real connection: no more is said, it is closed, or it is broken off.

use super::{Link, Socket};
use crate::answer::StreamEnd;
use nix::sys::socket::{MsgFlags, send, setsockopt, sockopt};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};

impl Link {
    /// Breaks the connection off: the peer is told so at once, whatever was said before. (A Unix socket can only be closed: its peer sees a reset if something was left
    /// unread, see [`Link::say_to_ourselves`], and an end otherwise.)
    pub fn reset(&mut self) {
        self.flush();
        if let Socket::Tcp(stream) = &self.socket {
            let at_once = libc::linger {
                l_onoff: 1,
                l_linger: 0,
            };
            // It can only fail on what is no socket.
            let _ = setsockopt(stream, sockopt::Linger, &at_once);
        }
        self.socket = Socket::Gone;
        self.outbox.clear();
        (self.fin, self.fin_sent) = (true, true);
        if self.is_open() {
            self.end = StreamEnd::Eof;
        }
    }

    /// The inode of our end, if it is a Unix socket on which the peer may still say something.
    #[must_use]
    pub fn unix_inode(&self) -> Option<u64> {
        (matches!(self.socket, Socket::Unix(_)) && self.is_open()).then_some(self.inode)
    }

    /// Says a byte on the peer's behalf, by a copy of its descriptor: closed with that unread, a Unix socket is reset.
    pub fn say_to_ourselves(theirs: OwnedFd) {
        // Without it there is an end instead of a reset.
        if let Err(error) = send(
            theirs.as_raw_fd(),
            b"!",
            MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL,
        ) {
            tracing::debug!("a Unix socket is closed instead of reset: {error}");
        }
    }

    /// Closes the connection once everything is sent, with nothing unread: what the peer says from then on is refused.
    pub fn close(&mut self) {
        (self.fin, self.closing) = (true, true);
        if self.is_open() {
            self.end = StreamEnd::Eof;
        }
        self.flush();
    }

    /// Ends our side of the stream once everything is sent.
    pub fn finish(&mut self) {
        self.fin = true;
        self.flush();
    }

    /// There is nothing more to send on what is to be closed. That is one step: the peer may answer to an end at once.
    pub(super) fn leave(&mut self) {
        (self.closing, self.fin_sent) = (false, true);
        match &self.socket {
            // For the other end the same, and ours can still be asked how much of what was said is consumed.
            Socket::Unix(stream) => {
                let _ = stream.shutdown(Shutdown::Both);
            }
            Socket::Tcp(_) => self.socket = Socket::Left,
            Socket::Udp(..) | Socket::Correspondent(..) | Socket::Left | Socket::Gone => {}
        }
    }
}
