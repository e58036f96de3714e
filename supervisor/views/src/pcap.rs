//! The traffic of a trace as a packet capture: what a network card would have seen, had there been one.
//!
//! A trace knows what was said, not how it was cut into packets: those are made up here, as plain as can be. Every message is sent in
//! segments and acknowledged at once, nothing is lost or late. Times are those of the virtual clock, so that many packets
//! have the same. Unix sockets have no packets: they are left out, and counted.

use etherparse::err::packet::BuildVecWriteError;
use etherparse::{Ethernet2Header, IpHeaders, PacketBuilder, PacketBuilderStep, TcpHeader};
use std::net::{IpAddr, SocketAddr};
use trace::{Connection, Trace, Transport, What};

/// Nanosecond resolution, native byte order of the writer.
const MAGIC: u32 = 0xa1b2_3c4d;
const ETHERNET: u32 = 1;
const SNAP_LENGTH: u32 = 262_144;
/// What fits into an Ethernet frame.
const SEGMENT: usize = 1440;
const WINDOW: u16 = 0xffff;

const HOPS: u8 = 64;

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

/// What a segment is there for.
#[derive(Clone, Copy)]
struct Flags {
    syn: bool,
    fin: bool,
    rst: bool,
    psh: bool,
    ack: bool,
}

impl Flags {
    const ACK: Flags = Flags {
        ack: true,
        syn: false,
        fin: false,
        rst: false,
        psh: false,
    };
    const SYN: Flags = Flags {
        syn: true,
        ack: false,
        ..Flags::ACK
    };
    const SYN_ACK: Flags = Flags {
        syn: true,
        ..Flags::ACK
    };
    const FIN_ACK: Flags = Flags {
        fin: true,
        ..Flags::ACK
    };
    const RST_ACK: Flags = Flags {
        rst: true,
        ..Flags::ACK
    };
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
            for packet in flow.packets(&event.what, accepted).into_iter().flatten() {
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
    fn packets(&mut self, what: &What, accepted: bool) -> Vec<Option<Vec<u8>>> {
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
                self.segment(opener, Flags::SYN, b""),
                self.segment(opener.other(), Flags::RST_ACK, b""),
            ],
            _ if !self.is_open => Vec::new(),
            What::Sent(data) => self.say(End::Program, data),
            What::Arrived(data) => self.say(End::Peer, data),
            What::Finished | What::Closed => self.finish(End::Program),
            What::Ended => self.finish(End::Peer),
            What::Broken => {
                self.is_open = false;
                vec![self.segment(End::Program, Flags::RST_ACK, b"")]
            }
            What::Reset => {
                self.is_open = false;
                vec![self.segment(End::Peer, Flags::RST_ACK, b"")]
            }
            What::Read(_) => Vec::new(),
        }
    }

    fn handshake(&mut self, opener: End) -> Vec<Option<Vec<u8>>> {
        self.is_open = true;
        vec![
            self.segment(opener, Flags::SYN, b""),
            self.segment(opener.other(), Flags::SYN_ACK, b""),
            self.segment(opener, Flags::ACK, b""),
        ]
    }

    fn say(&mut self, from: End, data: &[u8]) -> Vec<Option<Vec<u8>>> {
        if self.finished[from as usize] {
            return Vec::new();
        }
        let last = data.len().div_ceil(SEGMENT);
        let mut packets = Vec::new();
        for (number, part) in (1..).zip(data.chunks(SEGMENT)) {
            let flags = Flags {
                psh: number == last,
                ..Flags::ACK
            };
            packets.push(self.segment(from, flags, part));
        }
        packets.push(self.segment(from.other(), Flags::ACK, b""));
        packets
    }

    fn finish(&mut self, from: End) -> Vec<Option<Vec<u8>>> {
        if std::mem::replace(&mut self.finished[from as usize], true) {
            return Vec::new();
        }
        vec![
            self.segment(from, Flags::FIN_ACK, b""),
            self.segment(from.other(), Flags::ACK, b""),
        ]
    }

    fn segment(&mut self, from: End, flags: Flags, data: &[u8]) -> Option<Vec<u8>> {
        let (source, destination) = self.ends(from);
        let own = self.next[from as usize];
        let mut header = TcpHeader::new(source.port(), destination.port(), own, WINDOW);
        (header.syn, header.fin, header.rst, header.psh) = (flags.syn, flags.fin, flags.rst, flags.psh);
        if flags.ack {
            header.ack = true;
            header.acknowledgment_number = self.next[from.other() as usize];
        }
        // A beginning and an end count like a byte each.
        let counted = data.len() as u32 + u32::from(flags.syn || flags.fin);
        self.next[from as usize] = own.wrapping_add(counted);
        let packet = ip(from, source, destination).tcp_header(header);
        written(|bytes| packet.write_to_vec(bytes, data))
    }

    fn datagram(&self, from: End, data: &[u8]) -> Option<Vec<u8>> {
        let (source, destination) = self.ends(from);
        let packet = ip(from, source, destination).udp(source.port(), destination.port());
        written(|bytes| packet.write_to_vec(bytes, data))
    }

    fn ends(&self, from: End) -> (SocketAddr, SocketAddr) {
        (
            self.addresses[from as usize],
            self.addresses[from.other() as usize],
        )
    }
}

/// The beginning of a packet: hardware addresses, which are made up and of the local kind, and those of the Internet protocol.
fn ip(from: End, source: SocketAddr, destination: SocketAddr) -> PacketBuilderStep<IpHeaders> {
    let card = |end: End| [2, 0, 0, 0, 0, 1 + end as u8];
    let frame: PacketBuilderStep<Ethernet2Header> = PacketBuilder::ethernet2(card(from), card(from.other()));
    let long = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    match (source.ip(), destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            frame.ipv4(source.octets(), destination.octets(), HOPS)
        }
        (source, destination) => frame.ipv6(long(source), long(destination), HOPS),
    }
}

/// The bytes of a packet; `None` for a datagram that is too long for one, as only a damaged trace can have.
fn written(write: impl FnOnce(&mut Vec<u8>) -> Result<(), BuildVecWriteError>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    write(&mut bytes).ok().map(|()| bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{NetSlice, SlicedPacket, TransportSlice};

    fn udp(addresses: [&str; 2]) -> Flow {
        Flow {
            addresses: addresses.map(|address| address.parse().expect("an address")),
            transport: Transport::Udp,
            next: [0; 2],
            finished: [false; 2],
            is_open: false,
        }
    }

    #[test]
    fn a_datagram_is_what_goes_over_the_wire() {
        // By hand, from RFC 768 and 791.
        let packet = udp(["10.0.0.1:4000", "10.0.0.2:53"]).datagram(End::Peer, b"hi");
        let expected = b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x08\0\
            \x45\0\0\x1e\0\0\x40\0\x40\x11\x26\xcd\x0a\0\0\x02\x0a\0\0\x01\
            \0\x35\x0f\xa0\0\x0a\x73\x99hi";
        assert_eq!(packet.as_deref(), Some(&expected[..]));
    }

    #[test]
    fn an_address_of_each_kind_makes_a_packet_of_the_long_one() {
        let packet = udp(["10.0.0.1:4000", "[::1]:53"]).datagram(End::Program, b"hi");
        let packet = packet.expect("a packet");
        let parts = SlicedPacket::from_ethernet(&packet).expect("a packet");
        assert!(matches!(parts.net, Some(NetSlice::Ipv6(_))));
        let Some(TransportSlice::Udp(datagram)) = parts.transport else {
            panic!("{:?}", parts.transport);
        };
        assert_eq!(datagram.payload(), b"hi");
    }

    #[test]
    fn what_fits_into_no_packet_is_in_none() {
        let long = vec![0; 1 << 16];
        assert!(
            udp(["10.0.0.1:4000", "10.0.0.2:53"])
                .datagram(End::Peer, &long)
                .is_none()
        );
    }
}
