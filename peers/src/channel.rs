//! One real connection: a non-blocking socket, what still has to go out on it, and what has come in.

use crate::address::Address;
use crate::answer::{Answer, Channel, StreamEnd};
use crate::diag::{Diag, TCP_ESTABLISHED};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::TcpStreamExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

mod ending;

#[derive(Debug)]
enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// And where the server is.
    Udp(UdpSocket, SocketAddr),
    /// One of those who write to a datagram socket of the SUT, which is shared by all of them.
    Correspondent(UdpSocket, SocketAddr),
    /// We have closed it. What was said before is still on its way.
    Left,
    /// We have broken it off.
    Gone,
}

/// Is neither direction of this connection open any more?
fn has_hung_up(stream: &UnixStream) -> bool {
    let mut fds = [PollFd::new(stream.as_fd(), PollFlags::empty())];
    let count = poll(&mut fds, PollTimeout::ZERO);
    let events = fds[0].revents().unwrap_or(PollFlags::empty());
    count.is_ok() && events.contains(PollFlags::POLLHUP)
}

/// Where what was said is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flight {
    /// All consumed, nothing on its way.
    Clear,
    /// The peer's kernel has it, its program has not read it (or not even accepted the connection).
    Unconsumed,
    /// Still on its way, in one direction or the other.
    Travelling,
    /// The other end is not on this machine.
    Unseen,
}

/// A real connection to a peer.
#[derive(Debug)]
pub struct Link {
    socket: Socket,
    addresses: Option<(SocketAddr, SocketAddr)>,
    inode: u64,
    /// As long as the longest datagram, and made once.
    buffer: Box<[u8]>,
    outbox: Vec<u8>,
    fin: bool,
    fin_sent: bool,
    /// It is to be closed when everything is sent.
    closing: bool,
    sent: u64,
    received: u64,
    end: StreamEnd,
    /// From where a datagram came that is not the server's address.
    elsewhere: Option<SocketAddr>,
}

const READ_CHUNK: usize = 64 * 1024;
const TCP_SYN_RECV: [u8; 2] = [3, 12];
/// Its program has ended its side: `FIN_WAIT1`, `FIN_WAIT2`, `LAST_ACK`, `CLOSING`.
const TCP_HAS_ENDED: [u8; 4] = [4, 5, 9, 11];

impl Link {
    /// Connects to a server.
    ///
    /// # Errors
    /// Nobody listens, or the address cannot be reached within `bound`.
    pub fn connect(to: &Address, bound: Duration) -> io::Result<Link> {
        match to {
            Address::Tcp(addr) => {
                let stream = TcpStream::connect_timeout(addr, bound)?;
                let them = stream.peer_addr()?;
                Link::tcp(stream, them)
            }
            Address::Unix(name) => Link::unix(UnixStream::connect_addr(&Address::unix(name)?)?),
            Address::Udp(addr) => {
                let any: SocketAddr = if addr.is_ipv4() {
                    ([0, 0, 0, 0], 0).into()
                } else {
                    ([0u16; 8], 0).into()
                };
                let way = UdpSocket::bind(any)?;
                way.connect(addr)?;
                // Not connected, to hear of a server that answers from another port.
                let socket = UdpSocket::bind((way.local_addr()?.ip(), 0))?;
                socket.set_nonblocking(true)?;
                let addresses = Some((socket.local_addr()?, *addr));
                Ok(Link::new(Socket::Udp(socket, *addr), addresses, 0))
            }
        }
    }

    /// Takes over an established TCP connection. It may have been reset since: then it no longer knows itself who `them` are, and what is read from it tells that.
    ///
    /// # Errors
    /// It cannot be made non-blocking.
    pub fn tcp(stream: TcpStream, them: SocketAddr) -> io::Result<Link> {
        stream.set_nonblocking(true)?;
        // Every write must be on its way at once: its effect is looked for right after it.
        stream.set_nodelay(true)?;
        let addresses = Some((stream.local_addr()?, them));
        Ok(Link::new(Socket::Tcp(stream), addresses, 0))
    }

    /// Takes over an established Unix connection.
    ///
    /// # Errors
    /// It cannot be made non-blocking.
    pub fn unix(stream: UnixStream) -> io::Result<Link> {
        stream.set_nonblocking(true)?;
        let inode = nix::sys::stat::fstat(&stream)?.st_ino;
        Ok(Link::new(Socket::Unix(stream), None, inode))
    }

    /// What `them` and the SUT's datagram socket say to each other. What comes in is handed over by whoever reads from that socket.
    ///
    /// # Errors
    /// The socket has no address.
    pub fn correspondent(socket: UdpSocket, them: SocketAddr) -> io::Result<Link> {
        let mut us = socket.local_addr()?;
        if us.ip().is_unspecified() {
            us.set_ip(them.ip());
        }
        Ok(Link::new(
            Socket::Correspondent(socket, them),
            Some((us, them)),
            0,
        ))
    }

    fn new(socket: Socket, addresses: Option<(SocketAddr, SocketAddr)>, inode: u64) -> Link {
        Link {
            socket,
            addresses,
            inode,
            buffer: vec![0; READ_CHUNK].into_boxed_slice(),
            outbox: Vec::new(),
            fin: false,
            fin_sent: false,
            closing: false,
            sent: 0,
            received: 0,
            end: StreamEnd::Open,
            elsewhere: None,
        }
    }

    /// Our address and the peer's, where there are such.
    #[must_use]
    pub fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        self.addresses
    }

    /// Has the peer come by IPv4 to an address of IPv6?
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        let is_mapped =
            |them: SocketAddr| matches!(them.ip(), IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some());
        self.addresses.is_some_and(|(_, them)| is_mapped(them))
    }

    /// The inode of the socket at the other end; 0 if it is closed already, or out of sight.
    pub fn other_end(&self, diag: &mut Diag) -> u64 {
        let Some((us, them)) = self.addresses else {
            return 0;
        };
        if self.is_stream() {
            let view = diag.tcp(them, us).ok().flatten();
            view.map_or(0, |view| u64::from(view.inode))
        } else {
            let view = diag.udp(them, us).ok().flatten();
            view.map_or(0, |(_, inode)| inode)
        }
    }

    /// The descriptor, to wait on, as long as the peer may still say something.
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.socket {
            _ if !self.is_open() => None,
            Socket::Tcp(s) => Some(s.as_fd()),
            Socket::Unix(s) => Some(s.as_fd()),
            Socket::Udp(s, _) | Socket::Correspondent(s, _) => Some(s.as_fd()),
            Socket::Left | Socket::Gone => None,
        }
    }

    /// Where the server of a datagram has answered from, if not from where it was asked.
    #[must_use]
    pub fn answered_from_elsewhere(&self) -> Option<SocketAddr> {
        self.elsewhere
    }

    /// A stream has an end, datagrams just cease.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        matches!(
            self.socket,
            Socket::Tcp(_) | Socket::Unix(_) | Socket::Left | Socket::Gone
        )
    }

    /// The peer may still say something here.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.end == StreamEnd::Open
    }

    /// There is something that could not be sent yet.
    #[must_use]
    pub fn has_backlog(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Hands bytes over to be sent; [`Link::pump`] sends what the peer does not take at once.
    pub fn send(&mut self, bytes: &[u8]) {
        self.outbox.extend_from_slice(bytes);
        self.flush();
    }

    /// Sends a datagram.
    ///
    /// # Errors
    /// The kernel does not take it. A refusal of an earlier one is not an error here: it is the peer's silence.
    pub fn send_datagram(&mut self, bytes: &[u8]) -> io::Result<()> {
        let sent = match &self.socket {
            Socket::Udp(socket, them) | Socket::Correspondent(socket, them) => socket.send_to(bytes, them),
            Socket::Tcp(_) | Socket::Unix(_) | Socket::Left | Socket::Gone => {
                return Err(ErrorKind::InvalidInput.into());
            }
        };
        match sent {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(()),
            result => result.map(|_| ()),
        }
    }

    fn flush(&mut self) {
        while !self.outbox.is_empty() {
            let result = match &mut self.socket {
                Socket::Tcp(s) => s.write(&self.outbox),
                Socket::Unix(s) => s.write(&self.outbox),
                Socket::Udp(..) | Socket::Correspondent(..) | Socket::Left | Socket::Gone => return,
            };
            match result {
                Ok(n) => {
                    self.outbox.drain(..n);
                    self.sent += n as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // The peer is gone. What it still said, and how it ended, is found by reading.
                Err(_) => self.outbox.clear(),
            }
        }
        if self.closing {
            self.leave();
        } else if self.fin && !self.fin_sent {
            self.fin_sent = true;
            // If the peer is gone already there is nobody to tell.
            let _ = match &self.socket {
                Socket::Tcp(s) => s.shutdown(Shutdown::Write),
                Socket::Unix(s) => s.shutdown(Shutdown::Write),
                Socket::Udp(..) | Socket::Correspondent(..) | Socket::Left | Socket::Gone => Ok(()),
            };
        }
    }

    /// Sends what can be sent and takes in what has arrived, at most `limit` bytes of it; true if anything came.
    pub fn pump(&mut self, channel: Channel, into: &mut Answer, limit: usize) -> bool {
        self.flush();
        let mut taken = 0;
        while self.is_open() && taken <= limit {
            let result = match &mut self.socket {
                Socket::Tcp(s) => s.read(&mut self.buffer),
                Socket::Unix(s) => s.read(&mut self.buffer),
                Socket::Udp(s, them) => match s.recv_from(&mut self.buffer) {
                    Ok((_, from)) if (from.ip(), from.port()) != (them.ip(), them.port()) => {
                        self.elsewhere = Some(from);
                        break;
                    }
                    result => result.map(|(n, _)| n),
                },
                Socket::Correspondent(..) | Socket::Left | Socket::Gone => return false,
            };
            match result {
                Ok(n) if matches!(self.socket, Socket::Udp(..)) => {
                    into.push_datagram(channel, self.buffer[..n].to_vec());
                    taken += n.max(1);
                }
                Ok(0) => self.end = StreamEnd::Eof,
                Ok(n) => {
                    into.push_bytes(channel, &self.buffer[..n]);
                    self.received += n as u64;
                    taken += n;
                    self.acknowledge();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // A datagram that nobody received: the peer says nothing.
                Err(_) if matches!(self.socket, Socket::Udp(..)) => break,
                Err(_) => self.end = StreamEnd::Reset,
            }
            into.push_end(channel, self.end);
            if !self.is_open() {
                self.look_beyond_the_end(channel, into);
                return true;
            }
        }
        self.look_beyond_the_end(channel, into) || taken > 0
    }

    /// A peer that says no more may still listen, or not: then it shows, at once on a Unix socket, on others by the reset that answers what it is told. True if
    /// that is news.
    fn look_beyond_the_end(&mut self, channel: Channel, into: &mut Answer) -> bool {
        if self.end != StreamEnd::Eof {
            return false;
        }
        match &self.socket {
            Socket::Tcp(stream) if !matches!(stream.take_error(), Ok(None)) => self.end = StreamEnd::Reset,
            // Where we have said that we say no more, nobody can tell.
            Socket::Unix(stream) if !self.fin_sent && has_hung_up(stream) => self.end = StreamEnd::Closed,
            _ => return false,
        }
        into.push_end(channel, self.end);
        true
    }

    /// Tells the other end at once that its bytes have come. Otherwise a peer that answers by several small writes is held up for 40 ms at the second one:
    /// its kernel waits for our acknowledgement, and ours for something to send it with.
    fn acknowledge(&self) {
        if let Socket::Tcp(stream) = &self.socket {
            // A kernel that does not do it is only slower.
            let _ = stream.set_quickack(true);
        }
    }

    /// Where the bytes are that were sent in either direction.
    pub fn flight(&self, diag: &mut Diag) -> Flight {
        let flight = self.kernel_flight(diag);
        // What the kernel would not take yet goes out as soon as the peer reads on.
        if self.has_backlog() && flight == Flight::Clear {
            Flight::Travelling
        } else {
            flight
        }
    }

    /// Bytes that the peer was told on this stream and its program has not read, wherever they are; as far as can be seen.
    pub fn unread(&self, diag: Option<&mut Diag>) -> u64 {
        let waiting = self.outbox.len() as u64;
        let told = self.sent + waiting;
        let Some(diag) = diag else { return waiting };
        match &self.socket {
            Socket::Udp(..) | Socket::Correspondent(..) | Socket::Gone => 0,
            Socket::Unix(_) => match diag.unix_unread(self.inode) {
                Ok(Some(unread)) => u64::from(unread) + waiting,
                Ok(None) => told,
                Err(_) => waiting,
            },
            Socket::Tcp(_) | Socket::Left => match self.addresses.map(|(us, them)| diag.tcp(them, us)) {
                Some(Ok(Some(view))) => match view.bytes {
                    Some((received, _)) if view.has_reader() => {
                        told.saturating_sub(received.saturating_sub(u64::from(view.unread)))
                    }
                    // Closed: nobody will read it, and whoever writes hears of that.
                    _ => 0,
                },
                Some(Ok(None)) => 0,
                Some(Err(_)) | None => waiting,
            },
        }
    }

    fn kernel_flight(&self, diag: &mut Diag) -> Flight {
        match &self.socket {
            Socket::Unix(_) => match diag.unix_unconsumed(self.inode) {
                Ok(Some(0) | None) => Flight::Clear,
                Ok(Some(_)) => Flight::Unconsumed,
                Err(_) => Flight::Unseen,
            },
            Socket::Udp(..) | Socket::Correspondent(..) => {
                match self.addresses.map(|(us, them)| diag.udp(them, us)) {
                    Some(Ok(Some((0, _)) | None)) => Flight::Clear,
                    Some(Ok(Some(_))) => Flight::Unconsumed,
                    _ => Flight::Unseen,
                }
            }
            Socket::Tcp(_) | Socket::Left => self.tcp_flight(diag),
            // What was on its way is no more.
            Socket::Gone => Flight::Clear,
        }
    }

    fn tcp_flight(&self, diag: &mut Diag) -> Flight {
        let Some((us, them)) = self.addresses else {
            return Flight::Unseen;
        };
        let view = match diag.tcp(them, us) {
            Ok(Some(view)) => view,
            // Its end is no more; then ours has ended, or is about to.
            Ok(None) if !self.is_open() => return Flight::Clear,
            Ok(None) => return Flight::Travelling,
            Err(_) => return Flight::Unseen,
        };
        let Some((has_received, has_sent)) = view.bytes else {
            return if self.is_open() {
                Flight::Travelling
            } else {
                Flight::Clear
            };
        };
        let orphaned = view.inode == 0;
        // No count of bytes tells of an end on its way.
        let ends = matches!(self.socket, Socket::Tcp(_)) && TCP_HAS_ENDED.contains(&view.state);
        let comes = self.is_open() && (ends || has_sent > self.received);
        if TCP_SYN_RECV.contains(&view.state) || comes {
            return Flight::Travelling;
        }
        if !view.has_reader() {
            return if self.is_open() {
                Flight::Travelling
            } else {
                Flight::Clear
            };
        }
        // What is still on its way behind that waits for room: it comes when the peer reads on, and not by itself.
        if view.unread > 0 || orphaned {
            return Flight::Unconsumed;
        }
        if has_received < self.sent || (self.fin_sent && view.state == TCP_ESTABLISHED) {
            return Flight::Travelling;
        }
        Flight::Clear
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn what_a_peer_has_no_room_for_is_not_on_its_way() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = listener.local_addr().expect("address");
        let stream = TcpStream::connect(address).expect("connect");
        let mut link = Link::tcp(stream, address).expect("stands");
        let mut diag = Diag::new().expect("sock_diag");
        let (mut theirs, _) = listener.accept().expect("accept");
        while !link.has_backlog() {
            link.send(&[0; 1 << 20]);
        }
        assert_eq!(link.flight(&mut diag), Flight::Unconsumed);
        let told = link.sent + link.outbox.len() as u64;
        assert_eq!(link.unread(Some(&mut diag)), told);
        let mut buffer = vec![0; 1 << 20];
        theirs.read_exact(&mut buffer[..1000]).expect("read");
        assert_eq!(link.unread(Some(&mut diag)), told - 1000);
        while link.has_backlog() || link.flight(&mut diag) != Flight::Clear {
            let count = theirs.read(&mut buffer).expect("more to read");
            assert_ne!(count, 0, "the link is open");
            link.flush();
        }
        assert_eq!(link.unread(Some(&mut diag)), 0);
    }

    #[test]
    fn an_end_that_was_not_heard_is_on_its_way() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = listener.local_addr().expect("address");
        let stream = TcpStream::connect(address).expect("connect");
        let mut link = Link::tcp(stream, address).expect("stands");
        let mut diag = Diag::new().expect("sock_diag");
        let (theirs, _) = listener.accept().expect("accept");
        assert_eq!(link.flight(&mut diag), Flight::Clear);
        theirs.shutdown(std::net::Shutdown::Write).expect("shutdown");
        assert_eq!(link.flight(&mut diag), Flight::Travelling);
        while link.is_open() {
            link.pump(0, &mut Answer::default(), 1 << 10);
        }
        assert_eq!(link.flight(&mut diag), Flight::Clear);
    }

    #[test]
    fn what_nobody_reads_from_a_unix_stream_is_counted() {
        let (ours, mut theirs) = UnixStream::pair().expect("pair");
        let mut link = Link::unix(ours).expect("stands");
        let mut diag = Diag::new().expect("sock_diag");
        link.send(&[0; 1 << 20]);
        assert_eq!(link.unread(Some(&mut diag)), 1 << 20);
        theirs.read_exact(&mut [0; 1000]).expect("read");
        assert_eq!(link.unread(Some(&mut diag)), (1 << 20) - 1000);
    }
}
