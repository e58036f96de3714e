//! Ports for tests: which are free, which are bound. A crate of its own, for the tests of crates that know nothing of the others.
//!
//! The kernel's tables are asked, and nothing is bound to try: a socket that one test thread has open is copied into every process that another
//! thread starts at that moment, and stays open there until that process executes its program. The port would be taken when the test wants it.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

/// A port that nobody has now, nor gets by chance: not one of those that the kernel gives to whoever does not mind, and no two calls of one process
/// are given the same.
///
/// # Errors
/// The tables cannot be read, or all ports are taken.
pub fn free() -> io::Result<u16> {
    const FIRST: u32 = 10_000;
    const PORTS: u32 = 20_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let taken: BTreeSet<u16> = sockets()?.iter().map(|socket| socket.port).collect();
    for _ in 0..PORTS {
        // Processes that run at the same time begin far apart.
        let nth = std::process::id()
            .wrapping_mul(7919)
            .wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = (FIRST + nth % PORTS) as u16;
        if !taken.contains(&port) {
            return Ok(port);
        }
    }
    Err(io::Error::other("no port is free"))
}

/// Whether a socket of this machine listens at the port, or is bound to it for datagrams. Nobody connects for that: the server would notice.
///
/// # Errors
/// The tables cannot be read.
pub fn is_bound(port: u16) -> io::Result<bool> {
    let sockets = sockets()?;
    Ok(sockets.iter().any(|socket| socket.port == port && socket.waits))
}

/// A row of the kernel's tables.
struct Socket {
    port: u16,
    /// For connections, or for datagrams from anybody.
    waits: bool,
}

fn sockets() -> io::Result<Vec<Socket>> {
    const LISTEN: &str = "0A";
    const UNCONNECTED: &str = "07";
    let mut found = Vec::new();
    for (table, waiting) in [
        ("tcp", LISTEN),
        ("tcp6", LISTEN),
        ("udp", UNCONNECTED),
        ("udp6", UNCONNECTED),
    ] {
        let text = match fs::read_to_string(format!("/proc/net/{table}")) {
            Ok(text) => text,
            // There is no such table if the kernel does without this family.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        found.extend(text.lines().skip(1).filter_map(|line| {
            let mut fields = line.split_whitespace();
            let local = fields.nth(1)?.rsplit(':').next()?;
            let state = fields.nth(1)?;
            Some(Socket {
                port: u16::from_str_radix(local, 16).ok()?,
                waits: state == waiting,
            })
        }));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    #[test]
    fn bound_ports_are_seen() {
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
        let udp = UdpSocket::bind("[::1]:0").expect("a port");
        let port = tcp.local_addr().expect("an address").port();
        assert!(is_bound(port).expect("the tables"));
        let datagrams = udp.local_addr().expect("an address").port();
        assert!(is_bound(datagrams).expect("the tables"));
    }

    #[test]
    fn a_free_port_is_bound_by_nobody_and_given_once() {
        let ports: Vec<u16> = (0..50).map(|_| free().expect("a port")).collect();
        let different: BTreeSet<&u16> = ports.iter().collect();
        assert_eq!(different.len(), ports.len());
        for port in ports {
            assert!(!is_bound(port).expect("the tables"));
            TcpListener::bind(("127.0.0.1", port)).expect("it is free");
        }
    }
}
