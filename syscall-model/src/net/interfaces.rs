//! The network interfaces of the machine that the program is on: one, `lo`, whatever the real machine has.
//!
//! A real machine's interfaces come and go, count packets and have addresses by chance, so programs would see something else in every run. They are told
//! of by netlink ([`answer`]: dumps of links, addresses, routes and neighbours, which is what `getifaddrs`, `if_nameindex` and `getaddrinfo` ask for) and
//! by the older `ioctl`s ([`ioctl`]).

use crate::memory::{GuestMemory, GuestMemoryExt};
use syscalls::Errno;

const NAME: &[u8] = b"lo";
/// Its number.
pub const INDEX: u32 = 1;
const MTU: u32 = 65_536;
const QUEUE: u32 = 1000;
const FLAGS: u32 = (libc::IFF_UP | libc::IFF_LOOPBACK | libc::IFF_RUNNING) as u32;
/// The driver says that the link is up: too high a bit for the 16 of an `ioctl`.
const LOWER_UP: u32 = 1 << 16;
const V4: [u8; 4] = [127, 0, 0, 1];
const V4_PREFIX: u8 = 8;
const V6: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const V6_PREFIX: u8 = 128;

/// Valid on this machine only.
const SCOPE_HOST: u8 = 254;
const SCOPE_LINK: u8 = 253;

/// A further address of each family, at which the machine can be reached just as well. Without them a machine looks as if it had no network: asked for what
/// it can use (`AI_ADDRCONFIG`), the C library finds no address at all, not even 127.0.0.1.
const V4_MORE: [u8; 4] = [127, 0, 1, 1];
const V6_MORE: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const V6_MORE_PREFIX: u8 = 64;

/// `struct nlmsghdr`.
const HEADER: usize = 16;
const NLMSG_NOOP: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_MULTI: u16 = 2;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const RTM_GETROUTE: u16 = 26;
const RTM_GETNEIGH: u16 = 30;
const RTM_GETRULE: u16 = 34;
/// One past the last that this protocol has, roughly: each kind of thing has four messages, of which the third asks.
const RTM_MAX: u16 = 124;

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// What a request was, as far as its answer repeats it.
#[derive(Clone, Copy)]
struct Asked {
    kind: u16,
    flags: u16,
    sequence: u32,
    /// The asking socket.
    port: u32,
}

/// What the kernel answers to what was sent to it on a `NETLINK_ROUTE` socket whose number is `port`: one datagram each.
pub fn answer(mut requests: &[u8], port: u32) -> Vec<Vec<u8>> {
    let mut answers = Vec::new();
    while let (Some(len), Some(kind), Some(flags), Some(sequence)) = (
        field(requests, 0).map(u32::from_le_bytes),
        field(requests, 4).map(u16::from_le_bytes),
        field(requests, 6).map(u16::from_le_bytes),
        field(requests, 8).map(u32::from_le_bytes),
    ) {
        let Some(request) = requests.get(..len as usize).filter(|r| r.len() >= HEADER) else {
            break;
        };
        let asked = Asked {
            kind,
            flags,
            sequence,
            port,
        };
        answers.extend(asked.answer(request));
        requests = requests.get(aligned(request.len())..).unwrap_or_default();
    }
    answers
}

fn aligned(len: usize) -> usize {
    (len + 3) & !3
}

impl Asked {
    fn answer(self, request: &[u8]) -> Option<Vec<u8>> {
        if self.flags & NLM_F_REQUEST == 0 || self.kind <= NLMSG_NOOP {
            return None;
        }
        let body = &request[HEADER..];
        let family = body.first().copied().unwrap_or_default();
        let is_dump = self.flags & NLM_F_DUMP == NLM_F_DUMP;
        let found = match self.kind {
            RTM_GETLINK if is_dump => Ok(vec![link()]),
            RTM_GETLINK => one_link(body).map(|link| vec![link]),
            RTM_GETADDR if is_dump => Ok(addresses(family)),
            // Nothing but the machine itself can be reached.
            RTM_GETROUTE | RTM_GETNEIGH | RTM_GETRULE if is_dump => Ok(Vec::new()),
            RTM_GETROUTE => Err(Errno::ENETUNREACH),
            // To change anything one would have to be somebody.
            kind if kind < RTM_MAX && kind % 4 != 2 => Err(Errno::EPERM),
            _ => Err(Errno::EOPNOTSUPP),
        };
        match found {
            Err(errno) => Some(self.error(errno.into_raw(), request)),
            Ok(found) if is_dump => Some(self.dump(&found)),
            Ok(found) => {
                let mut all: Vec<u8> = found
                    .iter()
                    .flat_map(|(kind, body)| self.message(*kind, 0, body))
                    .collect();
                if self.flags & NLM_F_ACK != 0 {
                    all.extend(self.error(0, request));
                }
                Some(all)
            }
        }
    }

    fn message(self, kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
        let mut message = ((HEADER + body.len()) as u32).to_le_bytes().to_vec();
        message.extend(kind.to_le_bytes());
        message.extend(flags.to_le_bytes());
        message.extend(self.sequence.to_le_bytes());
        message.extend(self.port.to_le_bytes());
        message.extend(body);
        message.resize(aligned(message.len()), 0);
        message
    }

    fn dump(self, found: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let parts = found
            .iter()
            .flat_map(|(kind, body)| self.message(*kind, NLM_F_MULTI, body));
        let end = self.message(NLMSG_DONE, NLM_F_MULTI, &0_u32.to_le_bytes());
        parts.chain(end).collect()
    }

    /// An error, with the request that it is about; error 0 says that all went well.
    fn error(self, errno: i32, request: &[u8]) -> Vec<u8> {
        let mut body = (-errno).to_le_bytes().to_vec();
        body.extend(if errno == 0 { &request[..HEADER] } else { request });
        self.message(NLMSG_ERROR, 0, &body)
    }
}

fn attribute(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    out.extend(((4 + value.len()) as u16).to_le_bytes());
    out.extend(kind.to_le_bytes());
    out.extend(value);
    out.resize(aligned(out.len()), 0);
}

fn number(out: &mut Vec<u8>, kind: u16, value: u32) {
    attribute(out, kind, &value.to_le_bytes());
}

fn name() -> Vec<u8> {
    [NAME, b"\0"].concat()
}

/// `struct ifinfomsg` and what follows it.
fn link() -> (u16, Vec<u8>) {
    const NO_ADDRESS: [u8; 6] = [0; 6];
    /// `struct rtnl_link_stats` and its 64-bit form: nothing was ever sent.
    const STATISTICS: usize = 24;
    let mut out = vec![0, 0];
    out.extend(libc::ARPHRD_LOOPBACK.to_le_bytes());
    out.extend(INDEX.to_le_bytes());
    out.extend((FLAGS | LOWER_UP).to_le_bytes());
    out.extend(0_u32.to_le_bytes());
    attribute(&mut out, libc::IFLA_IFNAME, &name());
    number(&mut out, libc::IFLA_TXQLEN, QUEUE);
    attribute(&mut out, libc::IFLA_OPERSTATE, &[0]);
    attribute(&mut out, libc::IFLA_LINKMODE, &[0]);
    number(&mut out, libc::IFLA_MTU, MTU);
    number(&mut out, libc::IFLA_GROUP, 0);
    number(&mut out, libc::IFLA_PROMISCUITY, 0);
    number(&mut out, libc::IFLA_NUM_TX_QUEUES, 1);
    number(&mut out, libc::IFLA_NUM_RX_QUEUES, 1);
    attribute(&mut out, libc::IFLA_CARRIER, &[1]);
    attribute(&mut out, libc::IFLA_QDISC, b"noqueue\0");
    attribute(&mut out, libc::IFLA_ADDRESS, &NO_ADDRESS);
    attribute(&mut out, libc::IFLA_BROADCAST, &NO_ADDRESS);
    attribute(&mut out, libc::IFLA_STATS64, &[0; STATISTICS * 8]);
    attribute(&mut out, libc::IFLA_STATS, &[0; STATISTICS * 4]);
    (RTM_NEWLINK, out)
}

/// The link that is asked for by number or by name.
fn one_link(body: &[u8]) -> Result<(u16, Vec<u8>), Errno> {
    const IFINFOMSG: usize = 16;
    let index = field(body, 4).map(u32::from_le_bytes).ok_or(Errno::EINVAL)?;
    let mut attributes = body.get(IFINFOMSG..).unwrap_or_default();
    let mut wanted = None;
    while let (Some(len), Some(kind)) = (
        field(attributes, 0).map(u16::from_le_bytes),
        field(attributes, 2).map(u16::from_le_bytes),
    ) {
        let len = usize::from(len).max(4);
        if kind == libc::IFLA_IFNAME {
            wanted = attributes.get(4..len);
        }
        attributes = attributes.get(aligned(len)..).unwrap_or_default();
    }
    match (index, wanted) {
        (INDEX, _) => Ok(link()),
        (0, Some(wanted)) if is_name(wanted) => Ok(link()),
        (0, None) => Err(Errno::EINVAL),
        _ => Err(Errno::ENODEV),
    }
}

/// `struct ifaddrmsg` and what follows it, for the addresses of a family, or of all if it is 0.
fn addresses(family: u8) -> Vec<(u16, Vec<u8>)> {
    const PERMANENT: u8 = libc::IFA_F_PERMANENT as u8;
    /// It stays valid for ever, and was made when the machine started.
    const FOR_EVER: [u8; 16] = [255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0];
    let (v4, v6) = (libc::AF_INET as u8, libc::AF_INET6 as u8);
    let all = [
        (v4, V4_PREFIX, SCOPE_HOST, &V4[..]),
        (v4, V4_PREFIX, SCOPE_HOST, &V4_MORE[..]),
        (v6, V6_PREFIX, SCOPE_HOST, &V6[..]),
        (v6, V6_MORE_PREFIX, SCOPE_LINK, &V6_MORE[..]),
    ];
    let mut found = Vec::new();
    for (of, prefix, scope, address) in all.into_iter().filter(|(of, ..)| family == 0 || family == *of) {
        let mut out = vec![of, prefix, PERMANENT, scope];
        out.extend(INDEX.to_le_bytes());
        attribute(&mut out, libc::IFA_ADDRESS, address);
        if of == v4 {
            attribute(&mut out, libc::IFA_LOCAL, address);
            attribute(&mut out, libc::IFA_LABEL, &name());
        }
        number(&mut out, libc::IFA_FLAGS, u32::from(PERMANENT));
        attribute(&mut out, libc::IFA_CACHEINFO, &FOR_EVER);
        found.push((RTM_NEWADDR, out));
    }
    found
}

/// Up to its first zero byte it is `lo`.
pub fn is_name(field: &[u8]) -> bool {
    field.split(|&byte| byte == 0).next() == Some(NAME)
}

/// `struct ifreq`: a name and 24 bytes of anything.
pub(crate) const IFREQ: usize = 40;
const IFREQ_NAME: usize = 16;

/// The `ioctl`s about interfaces, which any socket takes; `None` if it is none of them.
pub fn ioctl(mem: &mut dyn GuestMemory, request: u64, arg: u64) -> Option<Result<(), Errno>> {
    const GET_NAME: u64 = 0x8910;
    const GET_LIST: u64 = 0x8912;
    /// Everything about interfaces is in here.
    const ALL: std::ops::RangeInclusive<u64> = 0x8910..=0x8948;
    match request {
        GET_LIST => Some(list(mem, arg)),
        GET_NAME => Some(name_of(mem, arg)),
        _ if ALL.contains(&request) => Some(property(mem, request, arg)),
        _ => None,
    }
}

/// `struct sockaddr_in` of this address, without a port.
fn v4_address(ip: [u8; 4]) -> Vec<u8> {
    [&(libc::AF_INET as u16).to_le_bytes()[..], &[0, 0], &ip, &[0; 8]].concat()
}

fn property(mem: &mut dyn GuestMemory, request: u64, arg: u64) -> Result<(), Errno> {
    const GET_FLAGS: u64 = 0x8913;
    const GET_ADDRESS: u64 = 0x8915;
    const GET_DESTINATION: u64 = 0x8917;
    const GET_BROADCAST: u64 = 0x8919;
    const GET_NETMASK: u64 = 0x891b;
    const GET_METRIC: u64 = 0x891d;
    const GET_MTU: u64 = 0x8921;
    const GET_HARDWARE: u64 = 0x8927;
    const GET_INDEX: u64 = 0x8933;
    const GET_QUEUE: u64 = 0x8942;
    let asked = mem.read_vec(arg, IFREQ)?;
    let value = match request {
        GET_FLAGS => (FLAGS as u16).to_le_bytes().to_vec(),
        GET_ADDRESS | GET_DESTINATION => v4_address(V4),
        GET_BROADCAST => v4_address([0; 4]),
        GET_NETMASK => v4_address((u32::MAX << (32 - u32::from(V4_PREFIX))).to_be_bytes()),
        GET_METRIC => 0_u32.to_le_bytes().to_vec(),
        GET_MTU => MTU.to_le_bytes().to_vec(),
        GET_HARDWARE => [&libc::ARPHRD_LOOPBACK.to_le_bytes()[..], &[0; 14]].concat(),
        GET_INDEX => INDEX.to_le_bytes().to_vec(),
        GET_QUEUE => QUEUE.to_le_bytes().to_vec(),
        // To change anything one would have to be somebody.
        _ => return Err(Errno::EPERM),
    };
    if !is_name(&asked[..IFREQ_NAME]) {
        return Err(Errno::ENODEV);
    }
    Ok(mem.write(arg.wrapping_add(IFREQ_NAME as u64), &value)?)
}

/// `SIOCGIFNAME`: the name of the interface with this number.
fn name_of(mem: &mut dyn GuestMemory, arg: u64) -> Result<(), Errno> {
    match mem.read_u32(arg.wrapping_add(IFREQ_NAME as u64))? {
        INDEX => Ok(mem.write(arg, &name())?),
        _ => Err(Errno::ENODEV),
    }
}

/// `SIOCGIFCONF`: all interfaces that have an IPv4 address, as far as there is room; how much there would be if there is no buffer.
fn list(mem: &mut dyn GuestMemory, arg: u64) -> Result<(), Errno> {
    let (room, buffer) = (mem.read_u32(arg)? as usize, mem.read_u64(arg.wrapping_add(8))?);
    let mut entry = name();
    entry.resize(IFREQ_NAME, 0);
    entry.extend(v4_address(V4));
    entry.resize(IFREQ, 0);
    let fits = room >= IFREQ;
    if buffer != 0 && fits {
        mem.write(buffer, &entry)?;
    }
    let len = if buffer == 0 || fits { IFREQ } else { 0 };
    Ok(mem.write_u32(arg, len as u32)?)
}
