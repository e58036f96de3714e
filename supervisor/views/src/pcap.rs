//! The traffic of a trace as a packet capture: what a network card would have seen, had there been one.
//!
//! A trace knows what was said, not how it was cut into packets: those are made up here, as plain as can be. Every message is sent in
//! segments and acknowledged at once, nothing is lost or late. Times are those of the virtual clock, so that many packets
//! have the same. Unix sockets have no packets: they are left out, and counted.

use std::net::{IpAddr, SocketAddr};
use trace::{Connection, Trace, Transport, What};

/// Nanosecond resolution, native byte order of the writer.
const MAGIC: u32 = 0xa1b2_3c4d;
const ETHERNET: u32 = 1;
const SNAP_LENGTH: u32 = 262_144;
/// What fits into an Ethernet frame.
const SEGMENT: usize = 1440;
const WINDOW: u16 = 0xffff;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const PSH: u8 = 8;
const ACK: u8 = 16;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// A capture, and how many connections it could not hold.
pub struct Capture {
    pub file: Vec<u8>,
    pub packets: usize,
    pub left_out: usize,
}

/// One end of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Program,
    Peer,
}

impl End {
    fn other(self) -> End {
        match self {
            End::Program => End::Peer,
            End::Peer => End::Program,
        }
    }
}

/// What is known of a connection between two of its events.
struct Flow {
    addresses: [SocketAddr; 2],
    transport: Transport,
    /// The next sequence number of the program, of the peer.
    next: [u32; 2],
    finished: [bool; 2],
    is_open: bool,
}

/// Makes packets of the traffic.
pub fn pcap(trace: &Trace) -> Capture {
    let traffic = &trace.traffic;
    let mut flows: Vec<Option<Flow>> = (0u32..).zip(&traffic.connections).map(flow).collect();
    let mut capture = Capture {
        file: Vec::new(),
        packets: 0,
        left_out: flows.iter().filter(|flow| flow.is_none()).count(),
    };
    for word in [MAGIC, 2 | 4 << 16, 0, 0, SNAP_LENGTH, ETHERNET] {
        capture.file.extend(word.to_le_bytes());
    }
    for event in &traffic.events {
        let index = event.connection as usize;
        let accepted = traffic.connections.get(index).is_some_and(|c| c.accepted);
        if let Some(Some(flow)) = flows.get_mut(index) {
            for packet in flow.packets(&event.what, accepted) {
                capture.add(event.time, &packet);
            }
        }
    }
    capture
}

impl Capture {
    fn add(&mut self, time: u64, packet: &[u8]) {
        const SECOND: u64 = 1_000_000_000;
        let length = packet.len() as u32;
        for word in [(time / SECOND) as u32, (time % SECOND) as u32, length, length] {
            self.file.extend(word.to_le_bytes());
        }
        self.file.extend(packet);
        self.packets += 1;
    }
}

fn flow((number, connection): (u32, &Connection)) -> Option<Flow> {
    let (local, remote) = (connection.local?, connection.remote?);
    Some(Flow {
        addresses: [local, remote],
        transport: connection.transport,
        next: [(number + 1) << 20, (number + 1) << 21],
        finished: [false; 2],
        is_open: false,
    })
}

impl Flow {
    fn packets(&mut self, what: &What, accepted: bool) -> Vec<Vec<u8>> {
        if self.transport == Transport::Udp {
            return match what {
                What::Sent(data) => vec![self.datagram(End::Program, data)],
                What::Arrived(data) => vec![self.datagram(End::Peer, data)],
                _ => Vec::new(),
            };
        }
        let opener = if accepted { End::Peer } else { End::Program };
        match what {
            What::Opened => self.handshake(opener),
            What::Refused => vec![
                self.segment(opener, SYN, b""),
                self.segment(opener.other(), RST | ACK, b""),
            ],
            _ if !self.is_open => Vec::new(),
            What::Sent(data) => self.say(End::Program, data),
            What::Arrived(data) => self.say(End::Peer, data),
            What::Finished | What::Closed => self.finish(End::Program),
            What::Ended => self.finish(End::Peer),
            What::Broken => {
                self.is_open = false;
                vec![self.segment(End::Program, RST | ACK, b"")]
            }
            What::Reset => {
                self.is_open = false;
                vec![self.segment(End::Peer, RST | ACK, b"")]
            }
            What::Read(_) => Vec::new(),
        }
    }

    fn handshake(&mut self, opener: End) -> Vec<Vec<u8>> {
        self.is_open = true;
        vec![
            self.segment(opener, SYN, b""),
            self.segment(opener.other(), SYN | ACK, b""),
            self.segment(opener, ACK, b""),
        ]
    }

    fn say(&mut self, from: End, data: &[u8]) -> Vec<Vec<u8>> {
        if self.finished[from as usize] {
            return Vec::new();
        }
        let last = data.len().div_ceil(SEGMENT);
        let mut packets = Vec::new();
        for (number, part) in (1..).zip(data.chunks(SEGMENT)) {
            let push = if number == last { PSH } else { 0 };
            packets.push(self.segment(from, ACK | push, part));
        }
        packets.push(self.segment(from.other(), ACK, b""));
        packets
    }

    fn finish(&mut self, from: End) -> Vec<Vec<u8>> {
        if std::mem::replace(&mut self.finished[from as usize], true) {
            return Vec::new();
        }
        vec![
            self.segment(from, FIN | ACK, b""),
            self.segment(from.other(), ACK, b""),
        ]
    }

    fn segment(&mut self, from: End, flags: u8, data: &[u8]) -> Vec<u8> {
        let (source, destination) = self.ends(from);
        let own = self.next[from as usize];
        let mut header = ports(source, destination);
        header.extend(own.to_be_bytes());
        let acknowledged = if flags & ACK == 0 {
            0
        } else {
            self.next[from.other() as usize]
        };
        header.extend(acknowledged.to_be_bytes());
        const WORDS: u8 = 5;
        header.extend([WORDS << 4, flags]);
        header.extend(WINDOW.to_be_bytes());
        header.extend([0; 4]);
        // A beginning and an end count like a byte each.
        let counted = data.len() as u32 + u32::from(flags & (SYN | FIN) != 0);
        self.next[from as usize] = own.wrapping_add(counted);
        const CHECKSUM: usize = 16;
        frame(from, source, destination, TCP, (header, CHECKSUM), data)
    }

    fn datagram(&self, from: End, data: &[u8]) -> Vec<u8> {
        let (source, destination) = self.ends(from);
        let mut header = ports(source, destination);
        header.extend((8 + data.len() as u16).to_be_bytes());
        header.extend([0; 2]);
        const CHECKSUM: usize = 6;
        frame(from, source, destination, UDP, (header, CHECKSUM), data)
    }

    fn ends(&self, from: End) -> (SocketAddr, SocketAddr) {
        (
            self.addresses[from as usize],
            self.addresses[from.other() as usize],
        )
    }
}

fn ports(source: SocketAddr, destination: SocketAddr) -> Vec<u8> {
    [source.port().to_be_bytes(), destination.port().to_be_bytes()].concat()
}

/// Puts the transport's header, whose checksum is at this offset, and the data into an IP packet and an Ethernet frame.
fn frame(
    from: End,
    source: SocketAddr,
    destination: SocketAddr,
    protocol: u8,
    (mut header, checksum_at): (Vec<u8>, usize),
    data: &[u8],
) -> Vec<u8> {
    let length = header.len() + data.len();
    let (ip, pseudo, kind) = match (source.ip(), destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let addresses = [source.octets(), destination.octets()].concat();
            let pseudo = [&addresses[..], &[0, protocol], &(length as u16).to_be_bytes()].concat();
            (v4(&addresses, protocol, length), pseudo, [0x08, 0x00])
        }
        (source, destination) => {
            let octets = |ip: IpAddr| match ip {
                IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                IpAddr::V6(ip) => ip.octets(),
            };
            let addresses = [octets(source), octets(destination)].concat();
            let pseudo = [
                &addresses[..],
                &(length as u32).to_be_bytes(),
                &[0, 0, 0, protocol],
            ]
            .concat();
            (v6(&addresses, protocol, length), pseudo, [0x86, 0xdd])
        }
    };
    let sum = match checksum(&[&pseudo[..], &header, data].concat()) {
        // In UDP zero says that there is none.
        0 if protocol == UDP => 0xffff,
        sum => sum,
    };
    header[checksum_at..checksum_at + 2].copy_from_slice(&sum.to_be_bytes());
    // Made-up hardware addresses of the local kind.
    let card = |end: End| [2, 0, 0, 0, 0, 1 + end as u8];
    let cards = [card(from.other()), card(from)].concat();
    [&cards[..], &kind, &ip, &header, data].concat()
}

fn v4(addresses: &[u8], protocol: u8, length: usize) -> Vec<u8> {
    const HEADER: usize = 20;
    const DO_NOT_FRAGMENT: u8 = 0x40;
    let total = ((HEADER + length) as u16).to_be_bytes();
    let mut header = vec![
        0x45,
        0,
        total[0],
        total[1],
        0,
        0,
        DO_NOT_FRAGMENT,
        0,
        64,
        protocol,
        0,
        0,
    ];
    header.extend(addresses);
    let sum = checksum(&header).to_be_bytes();
    header[10..12].copy_from_slice(&sum);
    header
}

fn v6(addresses: &[u8], protocol: u8, length: usize) -> Vec<u8> {
    let length = (length as u16).to_be_bytes();
    let mut header = vec![0x60, 0, 0, 0, length[0], length[1], protocol, 64];
    header.extend(addresses);
    header
}

/// The Internet checksum: the complement of the ones' complement sum of all 16-bit words.
fn checksum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
    let mut sum: u32 = bytes.chunks(2).map(word).fold(0, u32::wrapping_add);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_rfc() {
        // RFC 1071, section 3: the sum is ddf2.
        assert_eq!(
            checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]),
            !0xddf2
        );
        // A block with its own checksum in it sums to zero.
        assert_eq!(checksum(&[0x12, 0x34, 0xed, 0xcb]), 0);
    }
}
