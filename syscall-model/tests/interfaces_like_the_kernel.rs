//! Questions about network interfaces by netlink, to the real kernel and to the model: what both say of `lo` must be the same.

mod support;

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};
use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use support::{DATA, Guest};
use syscall_model::fs::Host;
use syscall_model::{GuestMemory, GuestMemoryExt, Sysno};

struct NoFiles;

impl Host for NoFiles {}

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const REQUEST: u16 = 1;
const DUMP: u16 = 0x300;
const SEQUENCE: u32 = 77;
const LO: i32 = 1;
/// Addresses that the model's `lo` has and a real one has not.
const MORE: [&[u8]; 2] = [
    &[127, 0, 1, 1],
    &[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
];

/// One message of an answer: its kind, its fixed part, its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Message {
    kind: u16,
    fixed: Vec<u8>,
    attributes: BTreeMap<u16, Vec<u8>>,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// `family` is the first byte of what is asked; the rest of it is empty.
fn request(kind: u16, flags: u16, family: u8, index: i32) -> Vec<u8> {
    let mut body = vec![family, 0, 0, 0];
    body.extend(index.to_le_bytes());
    body.resize(16, 0);
    let mut all = ((16 + body.len()) as u32).to_le_bytes().to_vec();
    all.extend(kind.to_le_bytes());
    all.extend(flags.to_le_bytes());
    all.extend(SEQUENCE.to_le_bytes());
    all.extend(0_u32.to_le_bytes());
    all.extend(body);
    all
}

fn parse(mut bytes: &[u8], into: &mut Vec<Message>) {
    while bytes.len() >= 16 {
        let (len, kind) = (u32_at(bytes, 0) as usize, u16_at(bytes, 4));
        assert_eq!(u32_at(bytes, 8), SEQUENCE);
        let body = &bytes[16..len];
        let fixed = match kind {
            RTM_NEWLINK => 16,
            RTM_NEWADDR => 8,
            _ => body.len().min(4),
        };
        let mut attributes = BTreeMap::new();
        let mut rest = &body[fixed..];
        while matches!(kind, RTM_NEWLINK | RTM_NEWADDR) && rest.len() >= 4 {
            let (len, kind) = (usize::from(u16_at(rest, 0)), u16_at(rest, 2));
            attributes.insert(kind & 0x3fff, rest[4..len].to_vec());
            rest = rest.get((len + 3) & !3..).unwrap_or_default();
        }
        let fixed = body[..fixed].to_vec();
        into.push(Message {
            kind,
            fixed,
            attributes,
        });
        bytes = bytes.get((len + 3) & !3..).unwrap_or_default();
    }
}

fn is_end(message: &Message) -> bool {
    matches!(message.kind, NLMSG_DONE | NLMSG_ERROR)
}

fn ask_kernel(request: &[u8]) -> Vec<Message> {
    let fd = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::empty(),
        SockProtocol::NetlinkRoute,
    )
    .unwrap();
    send(fd.as_raw_fd(), request, MsgFlags::empty()).unwrap();
    let mut messages = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    let is_dump = u16_at(request, 6) & DUMP != 0;
    while messages.is_empty() || is_dump && !messages.last().is_some_and(is_end) {
        let n = recv(fd.as_raw_fd(), &mut buffer, MsgFlags::empty()).unwrap();
        parse(&buffer[..n], &mut messages);
    }
    messages
}

fn ask_model(request: &[u8]) -> Vec<Message> {
    let mut guest = Guest::new(NoFiles, "/");
    let kind = (libc::SOCK_RAW | libc::SOCK_CLOEXEC) as u64;
    let fd = guest
        .call(Sysno::socket, &[libc::AF_NETLINK as u64, kind, 0])
        .unwrap();
    guest.memory.write(DATA, request).unwrap();
    let (fd, len) = (fd as u64, request.len() as u64);
    assert_eq!(
        guest.call(Sysno::sendto, &[fd, DATA, len, 0, 0, 0]),
        Ok(len as i64)
    );
    let mut messages = Vec::new();
    let nonblocking = libc::MSG_DONTWAIT as u64;
    while let Ok(n) = guest.call(Sysno::recvfrom, &[fd, DATA, 1 << 16, nonblocking, 0, 0]) {
        parse(&guest.memory.read_vec(DATA, n as usize).unwrap(), &mut messages);
    }
    messages
}

/// What is said of `lo`: in both kinds of message its number stands in the same place.
fn of_lo(messages: &[Message]) -> Vec<&Message> {
    let of_lo = |m: &&Message| !is_end(m) && u32_at(&m.fixed, 4) == LO as u32;
    messages.iter().filter(of_lo).collect()
}

#[test]
fn the_loopback_interface() {
    let ask = request(RTM_GETLINK, REQUEST | DUMP, 0, 0);
    let (real, modelled) = (ask_kernel(&ask), ask_model(&ask));
    let (real, ours) = (of_lo(&real)[0], of_lo(&modelled)[0]);
    assert_eq!(modelled.len(), 2, "one interface and the end: {modelled:?}");
    assert!(modelled.last().is_some_and(is_end));
    assert_eq!(ours.fixed, real.fixed, "type, number, flags");
    for (kind, value) in &ours.attributes {
        let theirs = &real.attributes[kind];
        match *kind {
            // A real interface has been used, and newer kernels count more.
            libc::IFLA_STATS | libc::IFLA_STATS64 => assert!(theirs.len() >= value.len()),
            libc::IFLA_TXQLEN | libc::IFLA_NUM_TX_QUEUES | libc::IFLA_NUM_RX_QUEUES => {
                assert_eq!(value.len(), theirs.len(), "{kind}");
            }
            _ => assert_eq!(value, theirs, "{kind}"),
        }
    }
    // Asked for by itself it is the same.
    let alone = request(RTM_GETLINK, REQUEST, 0, LO);
    assert_eq!(of_lo(&ask_model(&alone)), [ours]);
    assert_eq!(of_lo(&ask_kernel(&alone))[0].fixed, real.fixed);
}

#[test]
fn its_addresses() {
    for family in [0, libc::AF_INET as u8, libc::AF_INET6 as u8] {
        let ask = request(RTM_GETADDR, REQUEST | DUMP, family, 0);
        let (real, modelled) = (ask_kernel(&ask), ask_model(&ask));
        let real = of_lo(&real);
        let expected = if family == 0 { 4 } else { 2 };
        assert_eq!(modelled.len(), expected + 1, "addresses and the end");
        for ours in of_lo(&modelled) {
            let address = &ours.attributes[&libc::IFA_ADDRESS];
            if MORE.contains(&address.as_slice()) {
                continue;
            }
            let same = |m: &&&Message| m.attributes.get(&libc::IFA_ADDRESS) == Some(address);
            let Some(theirs) = real.iter().find(same) else {
                // A machine may have no IPv6.
                assert_eq!(ours.fixed[0], libc::AF_INET6 as u8, "{real:?}");
                continue;
            };
            assert_eq!(ours.fixed, theirs.fixed, "family, prefix, flags, scope, number");
            for (kind, value) in &ours.attributes {
                let theirs = &theirs.attributes[kind];
                match *kind {
                    // When it was made, and whether there is a route that came with it.
                    libc::IFA_CACHEINFO => assert_eq!(value[..8], theirs[..8]),
                    libc::IFA_FLAGS => assert_eq!(value[0], theirs[0]),
                    _ => assert_eq!(value, theirs, "{kind}"),
                }
            }
        }
    }
}

#[test]
fn what_is_not_there_and_what_is_not_allowed() {
    let none = request(RTM_GETLINK, REQUEST, 0, 123_456);
    for messages in [ask_kernel(&none), ask_model(&none)] {
        let [only] = &messages[..] else {
            panic!("{messages:?}")
        };
        assert_eq!(
            (only.kind, u32_at(&only.fixed, 0) as i32),
            (NLMSG_ERROR, -libc::ENODEV)
        );
    }
    // Whoever the program thinks it is: nothing here can be changed.
    let change = ask_model(&request(RTM_NEWADDR, REQUEST, 0, LO));
    assert_eq!(
        (change[0].kind, u32_at(&change[0].fixed, 0) as i32),
        (NLMSG_ERROR, -libc::EPERM)
    );
}
