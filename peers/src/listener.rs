//! The SUT's listening addresses, for real.
//!
//! The SUT's sockets are modelled, so it is the world that listens where the SUT does, once, and keeps listening however often the SUT is backtracked. A
//! port that the kernel chose (port 0) is chosen once and remembered, so that the SUT sees the same one in every execution.

use crate::address::Address;
use crate::channel::Link;
use crate::process::Launcher;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn6, bind, listen, setsockopt, socket, sockopt,
};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, SocketAddrV6, TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Udp(UdpSocket),
    /// One with a path comes with the process that removes it.
    Unix(
        UnixListener,
        #[expect(dead_code, reason = "it acts when it is dropped")] Option<Tidy>,
    ),
}

/// Removes a socket's path when it is dropped, and if we do not live to see that, all the same.
#[derive(Debug)]
struct Tidy(Child);

impl Tidy {
    /// Gets ready: the path may not exist for a moment without somebody who removes it.
    fn start(launcher: &Launcher, path: &Path) -> io::Result<Tidy> {
        let mut tidy = Command::new(&launcher.program)
            .args(&launcher.args)
            .args(["tidy", "--"])
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let mut ready = [0; 6];
        tidy.stdout
            .take()
            .map_or(Ok(()), |mut out| out.read_exact(&mut ready))?;
        Ok(Tidy(tidy))
    }

    /// From now on it is the file at this path that is to be removed.
    fn owns(&mut self, path: &Path) -> io::Result<()> {
        let meta = std::fs::symlink_metadata(path)?;
        match &mut self.0.stdin {
            Some(pipe) => write!(pipe, "{} {}", meta.dev(), meta.ino()),
            None => Ok(()),
        }
    }
}

impl Drop for Tidy {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        if let Err(error) = self.0.wait() {
            tracing::warn!("waiting for the removal of a socket: {error}");
        }
    }
}

/// A socket that leaves IPv4 to another one at the same port. The standard library does not offer it.
fn bind_v6_only(address: SocketAddrV6, kind: SockType) -> io::Result<OwnedFd> {
    let fd = socket(AddressFamily::Inet6, kind, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&fd, sockopt::Ipv6V6Only, &true)?;
    if kind == SockType::Stream {
        setsockopt(&fd, sockopt::ReuseAddr, &true)?;
    }
    bind(fd.as_raw_fd(), &SockaddrIn6::from(address))?;
    Ok(fd)
}

/// One real listening socket.
#[derive(Debug)]
pub struct Listener {
    /// How the trees call it: what the SUT asked for, so that it is the same in the next run too.
    pub name: String,
    /// Where it really is.
    pub address: Address,
    socket: Socket,
}

impl Listener {
    /// Listens at `address` on the SUT's behalf.
    ///
    /// # Errors
    /// The address is taken or not ours.
    pub fn bind(address: &Address, v6_only: bool, name: String, launcher: &Launcher) -> io::Result<Listener> {
        match address {
            Address::Tcp(addr) => {
                let listener = match addr {
                    SocketAddr::V6(addr) if v6_only => {
                        let socket = bind_v6_only(*addr, SockType::Stream)?;
                        listen(&socket, Backlog::MAXCONN)?;
                        TcpListener::from(socket)
                    }
                    _ => TcpListener::bind(addr)?,
                };
                listener.set_nonblocking(true)?;
                let address = Address::Tcp(listener.local_addr()?);
                Ok(Listener {
                    name,
                    address,
                    socket: Socket::Tcp(listener),
                })
            }
            Address::Unix(bytes) => {
                let wanted = Address::unix(bytes)?;
                let path = wanted.as_pathname();
                let mut tidy = path.map(|path| Tidy::start(launcher, path)).transpose()?;
                let listener = UnixListener::bind_addr(&wanted)?;
                if let (Some(tidy), Some(path)) = (&mut tidy, path) {
                    tidy.owns(path)?;
                }
                listener.set_nonblocking(true)?;
                Ok(Listener {
                    name,
                    address: address.clone(),
                    socket: Socket::Unix(listener, tidy),
                })
            }
            Address::Udp(addr) => {
                let socket = match addr {
                    SocketAddr::V6(addr) if v6_only => {
                        UdpSocket::from(bind_v6_only(*addr, SockType::Datagram)?)
                    }
                    _ => UdpSocket::bind(addr)?,
                };
                socket.set_nonblocking(true)?;
                let address = Address::Udp(socket.local_addr()?);
                Ok(Listener {
                    name,
                    address,
                    socket: Socket::Udp(socket),
                })
            }
        }
    }

    /// The descriptor, to wait on.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Tcp(s) => s.as_fd(),
            Socket::Udp(s) => s.as_fd(),
            Socket::Unix(s, _) => s.as_fd(),
        }
    }

    /// The next connection that a client has made, if there is one. An error concerns that connection only: it was gone again before we saw it.
    pub fn accept(&self) -> Option<Link> {
        loop {
            let link = match &self.socket {
                Socket::Tcp(s) => s.accept().and_then(|(stream, them)| Link::tcp(stream, them)),
                Socket::Unix(s, _) => s.accept().and_then(|(stream, _)| Link::unix(stream)),
                Socket::Udp(_) => return None,
            };
            match link {
                Ok(link) => return Some(link),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) => tracing::warn!("accepting on {}: {error}", self.name),
            }
        }
    }

    /// What this datagram socket says to `them` and hears from them.
    ///
    /// # Errors
    /// It is no such socket.
    pub fn correspondent(&self, them: SocketAddr) -> io::Result<Link> {
        match &self.socket {
            Socket::Udp(socket) => Link::correspondent(socket.try_clone()?, them),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// The next datagram that a client has sent here, if there is one, with a link to who sent it.
    pub fn receive(&self, buffer: &mut [u8]) -> Option<(Link, Vec<u8>)> {
        let Socket::Udp(socket) = &self.socket else {
            return None;
        };
        loop {
            let received = socket.recv_from(buffer).and_then(|(length, from)| {
                let link = Link::correspondent(socket.try_clone()?, from)?;
                Ok((link, buffer[..length].to_vec()))
            });
            match received {
                Ok(datagram) => return Some(datagram),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                // An earlier answer reached nobody: that is no datagram.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => {
                    tracing::warn!("receiving on {}: {error}", self.name);
                    return None;
                }
            }
        }
    }
}
