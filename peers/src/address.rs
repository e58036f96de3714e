//! Addresses as the SUT names them: the identity of a destination or of a listening socket.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::SocketAddr as UnixAddr;
use std::path::Path;

/// An address of one of the transports that peers are reached by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Address {
    /// Stream over IPv4 or IPv6.
    Tcp(SocketAddr),
    /// Datagrams over IPv4 or IPv6.
    Udp(SocketAddr),
    /// Stream over a Unix socket: a path, or, after a zero byte, an abstract name.
    Unix(Vec<u8>),
}

impl Address {
    /// The Unix address in the form that the standard library connects to.
    ///
    /// # Errors
    /// The name is too long or contains zero bytes where it must not.
    pub(crate) fn unix(name: &[u8]) -> std::io::Result<UnixAddr> {
        match name.split_first() {
            Some((0, abstract_name)) => UnixAddr::from_abstract_name(abstract_name),
            _ => UnixAddr::from_pathname(Path::new(std::ffi::OsStr::from_bytes(name))),
        }
    }

    /// Is `chosen` this address with a port that the kernel chose?
    pub(crate) fn may_become(&self, chosen: &Address) -> bool {
        match (self, chosen) {
            (Address::Tcp(a), Address::Tcp(b)) | (Address::Udp(a), Address::Udp(b)) => {
                a.ip() == b.ip() && b.port() != 0
            }
            _ => false,
        }
    }

    /// The port, where there is one.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        match self {
            Address::Tcp(addr) | Address::Udp(addr) => Some(addr.port()),
            Address::Unix(_) => None,
        }
    }

    /// The address as a client's command line has it: `HOST:PORT`, or a path.
    #[must_use]
    pub fn for_clients(&self) -> String {
        match self {
            Address::Tcp(addr) | Address::Udp(addr) => {
                let mut addr = *addr;
                match addr.ip() {
                    IpAddr::V4(ip) if ip.is_unspecified() => addr.set_ip(Ipv4Addr::LOCALHOST.into()),
                    IpAddr::V6(ip) if ip.is_unspecified() => addr.set_ip(Ipv6Addr::LOCALHOST.into()),
                    _ => {}
                }
                addr.to_string()
            }
            Address::Unix(name) => match name.split_first() {
                Some((0, rest)) => format!("@{}", String::from_utf8_lossy(rest)),
                _ => String::from_utf8_lossy(name).into_owned(),
            },
        }
    }

    /// The peer behind this address runs on this machine, as far as the address tells.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Address::Tcp(addr) | Address::Udp(addr) => match addr.ip() {
                IpAddr::V6(ip) => ip
                    .to_ipv4_mapped()
                    .map_or(ip.is_loopback(), |ip| ip.is_loopback()),
                IpAddr::V4(ip) => ip.is_loopback(),
            },
            Address::Unix(_) => true,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(addr) => write!(f, "{addr}"),
            Address::Udp(addr) => write!(f, "udp:{addr}"),
            Address::Unix(name) => match name.split_first() {
                Some((0, rest)) => write!(f, "unix:@{}", rest.escape_ascii()),
                _ => write!(f, "unix:{}", name.escape_ascii()),
            },
        }
    }
}
