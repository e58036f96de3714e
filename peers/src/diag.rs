//! Socket queues, asked from the kernel by `sock_diag`: one message, one answer, a few microseconds, and no ioctl (which would be unsafe code here).
//!
//! What matters is the *peer's* end of a connection: has its kernel received all that we sent, has its program consumed that, and has all that it sent arrived?
//! The unacknowledged count on our own end does not say so: acknowledgements are delayed by up to 40 ms.

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

/// One end of a TCP connection, as its kernel sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpView {
    /// Kernel's state number (1 is established).
    pub state: u8,
    /// Received, not yet read by the program.
    pub unread: u32,
    /// 0 if no descriptor refers to it (not yet accepted, or closed).
    pub inode: u32,
    /// Payload ever received, and payload ever written by the program; absent for what is left of a closed socket.
    pub bytes: Option<(u64, u64)>,
}

impl TcpView {
    /// Can a program still read from it? It can if it has a descriptor, or gets one when it accepts the connection.
    #[must_use]
    pub fn has_reader(&self) -> bool {
        self.inode != 0 || matches!(self.state, TCP_ESTABLISHED | TCP_CLOSE_WAIT)
    }
}

/// A netlink socket for queries.
#[derive(Debug)]
pub struct Diag {
    fd: OwnedFd,
    sequence: u32,
}

pub(crate) const TCP_ESTABLISHED: u8 = 1;
const TCP_CLOSE_WAIT: u8 = 8;
const TCP_LISTEN: u8 = 10;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const HEADER: usize = 16;
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_MSG: usize = 72;
const UDIAG_SHOW_PEER: u32 = 0x4;
const UDIAG_SHOW_RQLEN: u32 = 0x10;
const UNIX_DIAG_PEER: u16 = 2;
const UNIX_DIAG_RQLEN: u16 = 4;
const UNIX_DIAG_MSG: usize = 16;

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}
fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// The payload of the attribute `wanted` in an attribute list.
fn attribute(mut list: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let (len, kind) = (usize::from(u16_at(list, 0)?), u16_at(list, 2)?);
        if kind == wanted {
            return list.get(4..len);
        }
        list = list.get(((len + 3) & !3).max(4)..)?;
    }
}

impl Diag {
    /// Opens the query socket.
    ///
    /// # Errors
    /// The kernel does not offer it (some sandboxes).
    pub fn new() -> io::Result<Diag> {
        let fd = socket(
            AddressFamily::Netlink,
            SockType::Datagram,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkSockDiag,
        )?;
        Ok(Diag { fd, sequence: 0 })
    }

    /// Sends one request and returns the body of its one answer; `None` if there is no such socket.
    fn ask(&mut self, body: &[u8]) -> io::Result<Option<Vec<u8>>> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut message = Vec::with_capacity(HEADER + body.len());
        message.extend(((HEADER + body.len()) as u32).to_ne_bytes());
        message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        message.extend(NLM_F_REQUEST.to_ne_bytes());
        message.extend(self.sequence.to_ne_bytes());
        message.extend(0u32.to_ne_bytes());
        message.extend(body);
        send(self.fd.as_raw_fd(), &message, MsgFlags::empty())?;
        let mut buffer = [0; 4096];
        loop {
            let n = recv(self.fd.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
            let reply = &buffer[..n];
            if u32_at(reply, 8) != Some(self.sequence) {
                continue;
            }
            return match u16_at(reply, 4) {
                Some(SOCK_DIAG_BY_FAMILY) => Ok(Some(reply[HEADER..].to_vec())),
                Some(NLMSG_ERROR) => match u32_at(reply, HEADER).map(|e| -(e as i32)) {
                    Some(libc::ENOENT | libc::ECONNREFUSED) => Ok(None),
                    error => Err(io::Error::from_raw_os_error(error.unwrap_or(libc::EPROTO))),
                },
                _ => Err(io::Error::from_raw_os_error(libc::EPROTO)),
            };
        }
    }

    fn inet(&mut self, protocol: u8, local: SocketAddr, remote: SocketAddr) -> io::Result<Option<Vec<u8>>> {
        let v4 = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => Some(ip),
            IpAddr::V6(ip) => ip.to_ipv4_mapped(),
        };
        let mut body = Vec::with_capacity(56);
        let family = if v4(local.ip()).is_some() {
            libc::AF_INET
        } else {
            libc::AF_INET6
        };
        body.extend([family as u8, protocol, 1 << (INET_DIAG_INFO - 1), 0]);
        body.extend(u32::MAX.to_ne_bytes());
        body.extend(local.port().to_be_bytes());
        body.extend(remote.port().to_be_bytes());
        for ip in [local.ip(), remote.ip()] {
            match (v4(ip), ip) {
                (Some(ip), _) => {
                    body.extend(ip.octets());
                    body.extend([0; 12]);
                }
                (None, IpAddr::V6(ip)) => body.extend(ip.octets()),
                (None, IpAddr::V4(_)) => unreachable!("an IPv4 address is one"),
            }
        }
        body.extend(0u32.to_ne_bytes());
        body.extend([0xff; 8]);
        self.ask(&body)
    }

    /// The end of a TCP connection whose own address is `local`.
    ///
    /// # Errors
    /// The kernel refuses the query.
    pub fn tcp(&mut self, local: SocketAddr, remote: SocketAddr) -> io::Result<Option<TcpView>> {
        let reply = self.inet(libc::IPPROTO_TCP as u8, local, remote)?;
        // Where that end is no more, the kernel answers for whoever listens at its address.
        let Some(reply) = reply.filter(|reply| reply.get(1) != Some(&TCP_LISTEN)) else {
            return Ok(None);
        };
        let info = reply
            .get(INET_DIAG_MSG..)
            .and_then(|list| attribute(list, INET_DIAG_INFO));
        // struct tcp_info: tcpi_bytes_received, tcpi_bytes_sent, tcpi_bytes_retrans, tcpi_notsent_bytes. What the program has written but the kernel not yet sent counts as sent: it is to come.
        let bytes = info.and_then(|info| {
            let sent = u64_at(info, 200)?.saturating_sub(u64_at(info, 208).unwrap_or(0));
            Some((u64_at(info, 128)?, sent + u64::from(u32_at(info, 144)?)))
        });
        Ok(Some(TcpView {
            state: reply.get(1).copied().unwrap_or(0),
            unread: u32_at(&reply, 56).unwrap_or(0),
            inode: u32_at(&reply, 68).unwrap_or(0),
            bytes,
        }))
    }

    /// The inode of the socket that listens at `local`, be it bound to that address or to all of them. Unlike the table under `/proc/net`, which
    /// is read in pieces while others change it, one question has one answer.
    ///
    /// # Errors
    /// The kernel refuses the query.
    pub fn tcp_listener(&mut self, local: SocketAddr) -> io::Result<Option<u64>> {
        let nobody: SocketAddr = match local.ip() {
            IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let reply = self.inet(libc::IPPROTO_TCP as u8, local, nobody)?;
        let listening = reply.filter(|reply| reply.get(1) == Some(&TCP_LISTEN));
        Ok(listening.and_then(|reply| u32_at(&reply, 68)).map(u64::from))
    }

    /// The UDP socket at `local` that gets what is sent from `remote`: bytes that wait in its receive queue, and its inode.
    ///
    /// # Errors
    /// The kernel refuses the query.
    pub fn udp(&mut self, local: SocketAddr, remote: SocketAddr) -> io::Result<Option<(u32, u64)>> {
        // Unlike with TCP the kernel takes the question for a packet: from the first address to the second.
        let reply = self.inet(libc::IPPROTO_UDP as u8, remote, local)?;
        Ok(reply.and_then(|reply| Some((u32_at(&reply, 56)?, u64::from(u32_at(&reply, 68)?)))))
    }

    fn unix(&mut self, inode: u64, show: u32, wanted: u16) -> io::Result<Option<Vec<u8>>> {
        let mut body = Vec::with_capacity(24);
        body.extend([libc::AF_UNIX as u8, 0, 0, 0]);
        body.extend(u32::MAX.to_ne_bytes());
        body.extend((inode as u32).to_ne_bytes());
        body.extend(show.to_ne_bytes());
        body.extend([0xff; 8]);
        let Some(reply) = self.ask(&body)? else {
            return Ok(None);
        };
        let list = reply.get(UNIX_DIAG_MSG..);
        Ok(list.and_then(|list| attribute(list, wanted)).map(<[u8]>::to_vec))
    }

    /// What the Unix stream socket with this inode has sent and its peer has not yet consumed, as the kernel accounts for it: more than the bytes, but 0 if it is none.
    ///
    /// # Errors
    /// The kernel refuses the query.
    pub fn unix_unconsumed(&mut self, inode: u64) -> io::Result<Option<u32>> {
        let queues = self.unix(inode, UDIAG_SHOW_RQLEN, UNIX_DIAG_RQLEN)?;
        Ok(queues.and_then(|queues| u32_at(&queues, 4)))
    }

    /// The inode of the other end of a Unix stream socket; `None` if it is closed, or not accepted yet.
    ///
    /// # Errors
    /// The kernel refuses the query.
    pub fn unix_other_end(&mut self, inode: u64) -> io::Result<Option<u64>> {
        let peer = self.unix(inode, UDIAG_SHOW_PEER, UNIX_DIAG_PEER)?;
        let peer = peer.and_then(|peer| u32_at(&peer, 0)).map(u64::from);
        Ok(peer.filter(|inode| *inode != 0))
    }

    /// The bytes that wait at the other end of the Unix stream socket with this inode; `None` if they cannot be counted, as nobody has accepted the connection.
    ///
    /// # Errors
    /// The kernel refuses the query.
    pub fn unix_unread(&mut self, inode: u64) -> io::Result<Option<u32>> {
        let peer = self.unix(inode, UDIAG_SHOW_PEER, UNIX_DIAG_PEER)?;
        match peer.and_then(|peer| u32_at(&peer, 0)) {
            // It was closed.
            None => Ok(Some(0)),
            Some(0) => Ok(None),
            Some(peer) => {
                let queues = self.unix(u64::from(peer), UDIAG_SHOW_RQLEN, UNIX_DIAG_RQLEN)?;
                Ok(Some(queues.and_then(|queues| u32_at(&queues, 0)).unwrap_or(0)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_listener_does_not_stand_in_for_an_end_that_was_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let ours = TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
        let (theirs, _) = listener.accept().expect("accept");
        let (local, remote) = (ours.peer_addr().expect("peer"), ours.local_addr().expect("local"));
        let mut diag = Diag::new().expect("sock_diag");
        // Closed with something unread, it is reset, and nothing of it stays.
        (&ours).write_all(b"hello").expect("write");
        drop(theirs);
        assert_eq!(diag.tcp(local, remote).expect("query"), None);
        assert!(diag.tcp_listener(local).expect("query").is_some());
    }

    #[test]
    fn tcp_queues_are_seen_from_the_other_end() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let mut ours = TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
        let (mut theirs, _) = listener.accept().expect("accept");
        let mut diag = Diag::new().expect("sock_diag");
        let mut look = || {
            let (local, remote) = (ours.peer_addr().expect("peer"), ours.local_addr().expect("local"));
            diag.tcp(local, remote).expect("query").expect("exists")
        };
        assert_eq!(look().bytes, Some((0, 0)));
        (&ours).write_all(b"hello").expect("write");
        assert_eq!((look().unread, look().bytes), (5, Some((5, 0))));
        theirs.read_exact(&mut [0; 5]).expect("read");
        theirs.write_all(b"abc").expect("write");
        assert_eq!((look().unread, look().bytes), (0, Some((5, 3))));
        assert_ne!(look().inode, 0);
        ours.read_exact(&mut [0; 3]).expect("read");
    }

    #[test]
    fn listeners_are_found_by_address() {
        let inode = |listener: &TcpListener| nix::sys::stat::fstat(listener).expect("fstat").st_ino;
        let mut diag = Diag::new().expect("sock_diag");
        for at in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
            let listener = TcpListener::bind(at).expect("bind");
            let mut address = listener.local_addr().expect("address");
            if address.ip().is_unspecified() {
                address.set_ip(Ipv4Addr::LOCALHOST.into());
            }
            let found = diag.tcp_listener(address).expect("query");
            assert_eq!(found, Some(inode(&listener)), "{at}");
            drop(listener);
            assert_eq!(diag.tcp_listener(address).expect("query"), None, "{at}");
        }
    }

    #[test]
    fn datagram_queues_are_seen_from_the_other_end() {
        let bind = || UdpSocket::bind("127.0.0.1:0").expect("bind");
        let (ours, theirs, stranger) = (bind(), bind(), bind());
        let [us, them] = [&ours, &theirs].map(|socket| socket.local_addr().expect("address"));
        let inode = nix::sys::stat::fstat(&theirs).expect("fstat").st_ino;
        let mut diag = Diag::new().expect("sock_diag");
        let mut look = || diag.udp(them, us).expect("query");
        assert_eq!(look(), Some((0, inode)));
        ours.send_to(b"hello", them).expect("send");
        assert!(look().is_some_and(|(unread, found)| unread > 0 && found == inode));
        theirs.recv(&mut [0; 10]).expect("receive");
        theirs.connect(us).expect("connect");
        assert_eq!(look(), Some((0, inode)), "connected to us");
        theirs
            .connect(stranger.local_addr().expect("address"))
            .expect("connect");
        assert_eq!(look(), None, "connected to somebody else");
    }

    #[test]
    fn unix_queues_are_seen_from_our_end() {
        let (mut ours, mut theirs) = UnixStream::pair().expect("pair");
        let inode = nix::sys::stat::fstat(&ours).expect("fstat").st_ino;
        let mut diag = Diag::new().expect("sock_diag");
        ours.write_all(b"hello").expect("write");
        assert!(diag.unix_unconsumed(inode).expect("query").expect("exists") > 0);
        assert_eq!(diag.unix_unread(inode).expect("query"), Some(5));
        theirs.read_exact(&mut [0; 5]).expect("read");
        assert_eq!(diag.unix_unconsumed(inode).expect("query"), Some(0));
        assert_eq!(diag.unix_unread(inode).expect("query"), Some(0));
    }
}
