//! Who may be talked to beside the peers of the command line: services of this machine or others, by address.
//!
//! A program under test that reaches whatever happens to run here (a database, a system bus, a production server) changes it, once per schedule. So
//! others than those that were started for it are not there, unless they are named.

use crate::address::Address;
use std::fmt;
use std::net::{IpAddr, ToSocketAddrs, UdpSocket};
use std::path::Path;

/// One address that may be talked to, by TCP and by UDP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// A host, and a port or all of them.
    Inet(Vec<IpAddr>, Option<u16>),
    /// A Unix socket: a path, or, after a zero byte, an abstract name.
    Unix(Vec<u8>),
}

impl Allowed {
    /// Reads `HOST:PORT`, `[V6]:PORT` (a port of `*` is all of them), a path, or `@NAME` for an abstract Unix socket.
    ///
    /// # Errors
    /// It is none of these, or there is no such host.
    pub fn parse(text: &str) -> Result<Allowed, String> {
        if let Some(name) = text.strip_prefix('@') {
            return Ok(Allowed::Unix([b"\0", name.as_bytes()].concat()));
        }
        if text.contains('/') {
            let path = std::path::absolute(text).map_err(|e| e.to_string())?;
            return Ok(Allowed::Unix(path.into_os_string().into_encoded_bytes()));
        }
        const FORM: &str = "neither HOST:PORT, [V6]:PORT, a path with a slash, nor @NAME";
        let (host, port) = text.rsplit_once(':').ok_or(FORM)?;
        let port = match port {
            "*" => None,
            number => Some(number.parse().map_err(|_| FORM)?),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        if let Ok(ip) = bare.unwrap_or(host).parse::<IpAddr>() {
            return Ok(Allowed::Inet(vec![ip], port));
        }
        let found = (host, 0).to_socket_addrs().map_err(|e| format!("{host}: {e}"))?;
        Ok(Allowed::Inet(found.map(|address| address.ip()).collect(), port))
    }

    /// Is it this address?
    #[must_use]
    pub fn covers(&self, address: &Address) -> bool {
        match (self, address) {
            (Allowed::Inet(hosts, port), Address::Tcp(to) | Address::Udp(to)) => {
                port.is_none_or(|port| port == to.port())
                    && hosts
                        .iter()
                        .any(|host| host.to_canonical() == to.ip().to_canonical())
            }
            (Allowed::Unix(name), Address::Unix(to)) => same_name(name, to),
            _ => false,
        }
    }
}

/// Names of Unix sockets that lead to the same one.
pub(crate) fn same_name(one: &[u8], other: &[u8]) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let real = |name: &[u8]| Path::new(std::ffi::OsStr::from_bytes(name)).canonicalize().ok();
    let is_path = |name: &[u8]| name.first().is_some_and(|&byte| byte != 0);
    one == other || (is_path(one) && is_path(other) && real(one).is_some() && real(one) == real(other))
}

/// Is it an address of this machine?
pub(crate) fn is_here(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    ip.is_loopback() || ip.is_unspecified() || UdpSocket::bind((ip, 0)).is_ok()
}

impl Address {
    /// The address as `--allow-connect` takes it.
    #[must_use]
    pub fn as_option(&self) -> impl fmt::Display {
        match self {
            Address::Tcp(address) | Address::Udp(address) => address.to_string(),
            Address::Unix(_) => self.for_clients(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(text: &str, address: Address) -> bool {
        Allowed::parse(text).expect("an address").covers(&address)
    }

    #[test]
    fn hosts_and_ports() {
        let tcp = |text: &str| Address::Tcp(text.parse().expect("an address"));
        let udp = |text: &str| Address::Udp(text.parse().expect("an address"));
        assert!(covers("127.0.0.1:80", tcp("127.0.0.1:80")));
        assert!(covers("127.0.0.1:80", udp("127.0.0.1:80")));
        assert!(covers("127.0.0.1:80", tcp("[::ffff:127.0.0.1]:80")));
        assert!(!covers("127.0.0.1:80", tcp("127.0.0.1:81")));
        assert!(!covers("127.0.0.1:80", tcp("127.0.0.2:80")));
        assert!(covers("127.0.0.1:*", tcp("127.0.0.1:81")));
        assert!(covers("[::1]:80", tcp("[::1]:80")));
        assert!(covers("localhost:80", tcp("127.0.0.1:80")));
        for wrong in ["", "80", "host:port:", "127.0.0.1:99999"] {
            assert!(Allowed::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn paths_and_names() {
        let unix = |name: &[u8]| Address::Unix(name.to_vec());
        assert!(covers("/run/x", unix(b"/run/x")));
        assert!(!covers("/run/x", unix(b"/run/y")));
        assert!(covers("@x", unix(b"\0x")));
        assert!(covers("/tmp/../tmp", unix(b"/tmp")));
        assert_eq!(unix(b"\0x").as_option().to_string(), "@x");
    }
}
