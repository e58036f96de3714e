//! Addresses of sockets: what a program writes in a `sockaddr`, and what two of them have to do with each other.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use syscalls::Errno;

/// `sizeof(struct sockaddr_un)`.
const UNIX_ADDRESS: usize = 110;

/// Where a socket is, or where it is connected to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Endpoint {
    Tcp(SocketAddr),
    Udp(SocketAddr),
    /// A path, or, after a zero byte, an abstract name. Empty for a socket without a name.
    Unix(Vec<u8>),
}

impl Endpoint {
    /// Bytes of an IPv6 address without its scope.
    pub(crate) const SHORTEST_V6: usize = 24;

    /// Reads a `sockaddr` for a socket of this family.
    pub fn decode(family: i32, datagram: bool, raw: &[u8]) -> Result<Self, Errno> {
        let (Some(&low), Some(&high)) = (raw.first(), raw.get(1)) else {
            return Err(Errno::EINVAL);
        };
        let given = i32::from(u16::from_le_bytes([low, high]));
        // The kernel looks at the length first; an IPv4 address for an IPv6 socket has the length of its own.
        let least = match family {
            libc::AF_INET => 16,
            libc::AF_INET6 if given == libc::AF_INET => 16,
            libc::AF_INET6 => Self::SHORTEST_V6,
            _ => 2,
        };
        if raw.len() < least {
            return Err(Errno::EINVAL);
        }
        if given != family {
            // An IPv6 socket takes no IPv4 address and the reverse.
            return Err(if family == libc::AF_UNIX {
                Errno::EINVAL
            } else {
                Errno::EAFNOSUPPORT
            });
        }
        if family == libc::AF_UNIX {
            return unix_name(&raw[2..], raw.len()).map(Endpoint::Unix);
        }
        let address = match family {
            libc::AF_INET => v4(raw)?,
            _ => v6(raw)?,
        };
        Ok(if datagram {
            Endpoint::Udp(address)
        } else {
            Endpoint::Tcp(address)
        })
    }

    /// As a `sockaddr` of this family.
    pub fn encode(&self, family: i32) -> Vec<u8> {
        let mut out = (family as u16).to_le_bytes().to_vec();
        match self {
            Endpoint::Unix(name) => {
                out.extend(name);
                if name.first().is_some_and(|&first| first != 0) {
                    out.push(0);
                }
            }
            Endpoint::Tcp(address) | Endpoint::Udp(address) => {
                out.extend(address.port().to_be_bytes());
                match (family, address.ip()) {
                    (libc::AF_INET, IpAddr::V4(ip)) => {
                        out.extend(ip.octets());
                        out.extend([0; 8]);
                    }
                    (_, ip) => {
                        let ip = match ip {
                            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                            IpAddr::V6(ip) => ip,
                        };
                        out.extend([0; 4]);
                        out.extend(ip.octets());
                        out.extend([0; 4]);
                    }
                }
            }
        }
        out
    }

    pub fn socket_address(&self) -> Option<SocketAddr> {
        match self {
            Endpoint::Tcp(address) | Endpoint::Udp(address) => Some(*address),
            Endpoint::Unix(_) => None,
        }
    }

    pub fn port(&self) -> Option<u16> {
        self.socket_address().map(|address| address.port())
    }

    /// The same with another port.
    pub fn with_port(mut self, port: u16) -> Self {
        if let Endpoint::Tcp(address) | Endpoint::Udp(address) = &mut self {
            address.set_port(port);
        }
        self
    }

    /// Where a connection to this address really goes: the unspecified address is this machine, and an IPv4 address in
    /// IPv6 clothes is an IPv4 address.
    pub fn destination(mut self) -> Self {
        if let Endpoint::Tcp(address) | Endpoint::Udp(address) = &mut self {
            let ip = match address.ip().to_canonical() {
                IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
                ip => ip,
            };
            *address = SocketAddr::new(ip, address.port());
        }
        self
    }

    /// Where a client sees a socket that is bound here; `by_ipv4`: though it is bound to the address of IPv6 that means any, the client came by IPv4.
    pub fn seen_from(self, by_ipv4: bool) -> Self {
        match self {
            Endpoint::Tcp(at) if by_ipv4 => Endpoint::Tcp((Ipv4Addr::LOCALHOST, at.port()).into()),
            Endpoint::Udp(at) if by_ipv4 => Endpoint::Udp((Ipv4Addr::LOCALHOST, at.port()).into()),
            other => other.destination(),
        }
    }

    /// Does a socket bound here get what is sent to `to` (a [`Endpoint::destination`])? An IPv6 wildcard takes IPv4 too
    /// unless it is said not to.
    pub fn receives(&self, to: &Endpoint, v6_only: bool) -> bool {
        match (self, to) {
            (Endpoint::Unix(mine), Endpoint::Unix(to)) => mine == to,
            (Endpoint::Tcp(mine), Endpoint::Tcp(to)) | (Endpoint::Udp(mine), Endpoint::Udp(to)) => {
                if mine.port() != to.port() {
                    return false;
                }
                match (mine.ip().to_canonical(), to.ip()) {
                    (IpAddr::V4(mine), IpAddr::V4(to)) => mine == to || mine.is_unspecified(),
                    (IpAddr::V6(mine), IpAddr::V6(to)) => mine == to || mine.is_unspecified(),
                    (IpAddr::V6(mine), IpAddr::V4(_)) => mine.is_unspecified() && !v6_only,
                    (IpAddr::V4(_), IpAddr::V6(_)) => false,
                }
            }
            _ => false,
        }
    }

    /// Two sockets cannot both have these names.
    pub fn collides(&self, other: &Endpoint) -> bool {
        self.receives(&other.clone().destination(), true) || other.receives(&self.clone().destination(), true)
    }

    /// This machine's own address on the way to `self`, with this port.
    pub fn nearest_local(&self, port: u16) -> Endpoint {
        match self {
            Endpoint::Unix(_) => Endpoint::Unix(Vec::new()),
            Endpoint::Tcp(to) => Endpoint::Tcp(SocketAddr::new(loopback(to), port)),
            Endpoint::Udp(to) => Endpoint::Udp(SocketAddr::new(loopback(to), port)),
        }
    }
}

fn loopback(like: &SocketAddr) -> IpAddr {
    match like.ip() {
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    }
}

fn v4(raw: &[u8]) -> Result<SocketAddr, Errno> {
    let bytes: &[u8; 8] = raw
        .get(..8)
        .filter(|_| raw.len() >= 16)
        .and_then(|b| b.try_into().ok())
        .ok_or(Errno::EINVAL)?;
    let port = u16::from_be_bytes([bytes[2], bytes[3]]);
    Ok(SocketAddr::new(
        Ipv4Addr::new(bytes[4], bytes[5], bytes[6], bytes[7]).into(),
        port,
    ))
}

fn v6(raw: &[u8]) -> Result<SocketAddr, Errno> {
    let ip: [u8; 16] = raw
        .get(8..24)
        .and_then(|b| b.try_into().ok())
        .ok_or(Errno::EINVAL)?;
    let port = u16::from_be_bytes([raw[2], raw[3]]);
    Ok(SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, 0).into())
}

/// A path ends at its first zero byte; an abstract name is as long as it is.
fn unix_name(path: &[u8], total: usize) -> Result<Vec<u8>, Errno> {
    if total > UNIX_ADDRESS {
        return Err(Errno::EINVAL);
    }
    Ok(match path.first() {
        None | Some(0) => path.to_vec(),
        Some(_) => path.split(|&b| b == 0).next().unwrap_or(path).to_vec(),
    })
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp(address) => write!(f, "{address}"),
            Endpoint::Udp(address) => write!(f, "udp:{address}"),
            Endpoint::Unix(name) => match name.split_first() {
                Some((0, rest)) => write!(f, "unix:@{}", rest.escape_ascii()),
                _ => write!(f, "unix:{}", name.escape_ascii()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(text: &str) -> Endpoint {
        Endpoint::Tcp(text.parse().expect("an address"))
    }

    #[test]
    fn addresses_survive_the_way_through_a_sockaddr() {
        for (family, endpoint) in [
            (libc::AF_INET, tcp("127.0.0.1:80")),
            (libc::AF_INET6, tcp("[::1]:443")),
            (libc::AF_INET6, tcp("[::ffff:127.0.0.1]:443")),
            (libc::AF_UNIX, Endpoint::Unix(b"/tmp/x".to_vec())),
            (libc::AF_UNIX, Endpoint::Unix(b"\0abstract".to_vec())),
        ] {
            let raw = endpoint.encode(family);
            assert_eq!(Endpoint::decode(family, false, &raw), Ok(endpoint));
        }
        assert_eq!(tcp("127.0.0.1:80").encode(libc::AF_INET6).len(), 28);
        assert_eq!(
            Endpoint::decode(libc::AF_INET, false, &[2, 0, 0]),
            Err(Errno::EINVAL)
        );
        assert_eq!(
            Endpoint::decode(libc::AF_INET, false, &tcp("[::1]:1").encode(libc::AF_INET6)),
            Err(Errno::EAFNOSUPPORT)
        );
    }

    #[test]
    fn wildcards_receive_what_is_sent_to_any_address() {
        let to = tcp("0.0.0.0:80").destination();
        assert_eq!(to, tcp("127.0.0.1:80"));
        assert!(tcp("0.0.0.0:80").receives(&to, false));
        assert!(tcp("[::]:80").receives(&to, false));
        assert!(!tcp("[::]:80").receives(&to, true));
        assert!(!tcp("127.0.0.2:80").receives(&to, false));
        assert!(tcp("0.0.0.0:80").collides(&tcp("127.0.0.1:80")));
        assert!(!tcp("[::]:80").collides(&tcp("127.0.0.1:80")));
    }
}
