//! The SUT's listening addresses, for real.
//!
//! The SUT's sockets are modelled, so it is the world that listens where the SUT does, once, and keeps listening however often the SUT is backtracked. A
//! port that the kernel chose (port 0) is chosen once and remembered, so that the SUT sees the same one in every execution.

use crate::address::Address;
use crate::channel::Link;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener, Option<PathBuf>),
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
    pub fn bind(address: &Address, name: String) -> io::Result<Listener> {
        match address {
            Address::Tcp(addr) => {
                let listener = TcpListener::bind(addr)?;
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
                let path = wanted.as_pathname().map(Path::to_path_buf);
                let listener = UnixListener::bind_addr(&wanted)?;
                listener.set_nonblocking(true)?;
                Ok(Listener {
                    name,
                    address: address.clone(),
                    socket: Socket::Unix(listener, path),
                })
            }
            Address::Udp(_) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the SUT as a datagram server is not supported",
            )),
        }
    }

    /// The descriptor, to wait on.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Tcp(s) => s.as_fd(),
            Socket::Unix(s, _) => s.as_fd(),
        }
    }

    /// The next connection that a client has made, if there is one. An error concerns that connection only: it was gone again before we saw it.
    pub fn accept(&self) -> Option<Link> {
        loop {
            let link = match &self.socket {
                Socket::Tcp(s) => s.accept().and_then(|(stream, _)| Link::tcp(stream)),
                Socket::Unix(s, _) => s.accept().and_then(|(stream, _)| Link::unix(stream)),
            };
            match link {
                Ok(link) => return Some(link),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) => tracing::warn!("accepting on {}: {error}", self.name),
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Socket::Unix(_, Some(path)) = &self.socket
            && let Err(error) = std::fs::remove_file(path)
        {
            tracing::warn!("removing {}: {error}", path.display());
        }
    }
}
