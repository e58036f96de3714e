//! Files that the model makes up: `/proc` as far as it shows the process or changes all the time, and the
//! processor lists of `/sys`.
//!
//! What only the live process knows comes from [`Host::process_file`](crate::fs::Host::process_file). Files of
//! `/proc` that are constant are left to the host; files that would differ from run to run do not exist.

use crate::channels::{ChannelId, control};
use crate::fd::{Kind, OfdId};
use crate::fs::node::{Attributes, NodeId, Time};
use crate::fs::other_processes::Elsewhere;
use crate::fs::tree::{Entry, View};
use crate::fs::{OVERLAY_DEV, maps, proc_contents};
use crate::processes::Pid;
use crate::thread::Tid;
use syscalls::Errno;

/// Which layer answers for an absolute path.
pub(crate) enum Layer {
    Host,
    Virtual,
    Missing,
}

/// Constant parts of `/proc`.
const HOST_PROC: &[&[u8]] = &[
    b"sys",
    b"filesystems",
    b"version",
    b"cmdline",
    b"devices",
    b"crypto",
    b"cgroups",
];
/// Parts of `/proc` about the machine that the model makes up.
const GLOBAL_PROC: &[&[u8]] = &[b"cpuinfo", b"meminfo", b"stat", b"uptime", b"loadavg"];
/// Files of `/proc/PID` that the model knows.
const MADE_UP: &[&[u8]] = &[
    b"cgroup",
    b"comm",
    b"limits",
    b"mountinfo",
    b"mounts",
    b"oom_score_adj",
    b"stat",
    b"statm",
    b"status",
];
/// Files of `/proc/PID` that only the supervisor can fill.
const FROM_PROCESS: &[&[u8]] = &[b"auxv", b"cmdline", b"environ", b"maps", b"smaps"];
/// What is left of a process that has ended.
const LEFT: &[&[u8]] = &[b"cmdline", b"comm", b"stat", b"status"];
const LINKS: &[&[u8]] = &[b"exe", b"cwd", b"root"];

/// What a made-up path stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made<'p> {
    Proc,
    SelfLink,
    ThreadSelfLink,
    MountsLink,
    Process,
    TaskList,
    Thread(Tid),
    FdList,
    FdInfoList,
    Fd(i32),
    FdInfo(i32),
    Link(&'p [u8]),
    File(Tid, &'p [u8]),
    Global(&'p [u8]),
    Cpus,
    TerminalList,
    /// By which more of them are made.
    TerminalMaker,
    Terminal(u32),
    /// A process that has ended and was not waited for, and what is left of it.
    Zombie,
    ZombieFile(Pid, &'p [u8]),
}

enum Parsed<'p> {
    Host,
    Missing,
    Made(Made<'p>),
}

pub(crate) fn layer(view: &View, path: &[u8]) -> Layer {
    if let Some(other) = Elsewhere::of(view, path) {
        return layer(&other.view(), path);
    }
    match parse(view, path) {
        Parsed::Host => Layer::Host,
        Parsed::Missing => Layer::Missing,
        Parsed::Made(_) => Layer::Virtual,
    }
}

fn parse<'p>(view: &View, path: &'p [u8]) -> Parsed<'p> {
    if let Some(rest) = path.strip_prefix(b"/proc") {
        return match rest.first() {
            None => Parsed::Made(Made::Proc),
            Some(b'/') => parse_proc(view, &rest[1..]),
            Some(_) => Parsed::Host,
        };
    }
    if let Some(rest) = path.strip_prefix(b"/dev/pts") {
        return parse_terminals(view, rest);
    }
    match path.strip_prefix(b"/sys/") {
        Some(rest) => parse_sys(view, rest),
        None => Parsed::Host,
    }
}

/// Terminals of the host are nobody's business; those that the program made are here.
fn parse_terminals<'p>(view: &View, rest: &[u8]) -> Parsed<'p> {
    let Some(name) = rest.strip_prefix(b"/") else {
        return match rest.is_empty() {
            true => Parsed::Made(Made::TerminalList),
            false => Parsed::Host,
        };
    };
    if name == b"ptmx" {
        return Parsed::Made(Made::TerminalMaker);
    }
    let number = number(name).and_then(|number| u32::try_from(number).ok());
    let there = number.filter(|&number| view.model.channels.terminal_numbered(number).is_some());
    there.map_or(Parsed::Missing, |number| Parsed::Made(Made::Terminal(number)))
}

fn parse_sys<'p>(view: &View, rest: &'p [u8]) -> Parsed<'p> {
    if rest.starts_with(b"fs/cgroup/") {
        return Parsed::Missing;
    }
    let Some(cpu) = rest.strip_prefix(b"devices/system/cpu/") else {
        return Parsed::Host;
    };
    if matches!(cpu, b"online" | b"possible" | b"present") {
        return Parsed::Made(Made::Cpus);
    }
    let name = cpu.split(|&b| b == b'/').next().unwrap_or(cpu);
    match name.strip_prefix(b"cpu").and_then(number) {
        Some(n) if n >= u64::from(view.fs().cpus) => Parsed::Missing,
        _ => Parsed::Host,
    }
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn parse_proc<'p>(view: &View, path: &'p [u8]) -> Parsed<'p> {
    let (first, rest) = match path.iter().position(|&b| b == b'/') {
        Some(at) => (&path[..at], Some(&path[at + 1..])),
        None => (path, None),
    };
    if HOST_PROC.contains(&first) {
        return Parsed::Host;
    }
    let made = match (first, rest) {
        (b"self", None) => Some(Made::SelfLink),
        (b"thread-self", None) => Some(Made::ThreadSelfLink),
        (b"mounts", None) => Some(Made::MountsLink),
        (_, None) if GLOBAL_PROC.contains(&first) => Some(Made::Global(first)),
        _ if number(first) == Some(u64::from(view.model.process.pid)) => {
            parse_process(view, view.model.process.pid, rest, true)
        }
        _ => parse_zombie(view, first, rest),
    };
    made.map_or(Parsed::Missing, Parsed::Made)
}

fn parse_zombie<'p>(view: &View, first: &[u8], rest: Option<&'p [u8]>) -> Option<Made<'p>> {
    let pid = Pid::try_from(number(first)?).ok()?;
    view.model.zombies.get(&pid)?;
    match rest {
        None => Some(Made::Zombie),
        Some(name) => LEFT.contains(&name).then_some(Made::ZombieFile(pid, name)),
    }
}

fn parse_process<'p>(view: &View, tid: Tid, rest: Option<&'p [u8]>, whole: bool) -> Option<Made<'p>> {
    let Some(rest) = rest else {
        return Some(if whole { Made::Process } else { Made::Thread(tid) });
    };
    let mut parts = rest.splitn(2, |&b| b == b'/');
    let (name, below) = (parts.next().unwrap_or(rest), parts.next());
    match (name, below) {
        (b"task", None) if whole => Some(Made::TaskList),
        (b"task", Some(below)) if whole => {
            let mut parts = below.splitn(2, |&b| b == b'/');
            let tid = Tid::try_from(number(parts.next()?)?).ok()?;
            view.model.threads.get(&tid)?;
            parse_process(view, tid, parts.next(), false)
        }
        (b"fd", None) => Some(Made::FdList),
        (b"fdinfo", None) => Some(Made::FdInfoList),
        (b"fd" | b"fdinfo", Some(below)) => {
            let fd = i32::try_from(number(below)?).ok()?;
            view.model.files.descriptor(fd).ok()?;
            Some(if name == b"fd" {
                Made::Fd(fd)
            } else {
                Made::FdInfo(fd)
            })
        }
        (_, Some(_)) => None,
        (_, None) if LINKS.contains(&name) => Some(Made::Link(name)),
        (_, None) if MADE_UP.contains(&name) => Some(Made::File(tid, name)),
        (_, None) if FROM_PROCESS.contains(&name) => {
            view.host.process_file(name)?;
            Some(Made::File(tid, name))
        }
        _ => None,
    }
}

pub(crate) fn attributes(view: &View, path: &[u8]) -> Result<Attributes, Errno> {
    if let Some(other) = Elsewhere::of(view, path) {
        return attributes(&other.view(), path);
    }
    let Parsed::Made(made) = parse(view, path) else {
        return Err(Errno::ENOENT);
    };
    let mode = match made {
        Made::Proc | Made::Process | Made::TaskList | Made::Thread(_) | Made::Zombie => libc::S_IFDIR | 0o555,
        Made::FdList | Made::FdInfoList => libc::S_IFDIR | 0o500,
        Made::SelfLink | Made::ThreadSelfLink | Made::MountsLink | Made::Link(_) => libc::S_IFLNK | 0o777,
        Made::Fd(_) => libc::S_IFLNK | 0o700,
        Made::TerminalList => libc::S_IFDIR | 0o755,
        Made::TerminalMaker => libc::S_IFCHR | 0o666,
        Made::Terminal(_) => libc::S_IFCHR | 0o620,
        Made::File(_, b"comm") => libc::S_IFREG | 0o644,
        Made::FdInfo(_) | Made::File(..) | Made::ZombieFile(..) | Made::Global(_) | Made::Cpus => {
            libc::S_IFREG | 0o444
        }
    };
    let mut attributes = made_up(view, mode, inode_of(path));
    match made {
        Made::TerminalMaker => attributes.rdev = libc::makedev(5, 2),
        Made::Terminal(number) => {
            attributes.rdev = libc::makedev(FIRST_TERMINAL + number / 256, number % 256);
            attributes.gid = TERMINAL_GROUP;
        }
        _ => {}
    }
    Ok(attributes)
}

/// The major number of the first pseudo-terminals.
const FIRST_TERMINAL: u32 = 136;
/// The group `tty` of Debian, to which they belong.
const TERMINAL_GROUP: u32 = 5;

/// The name of a pseudo-terminal.
fn terminal_path(view: &View, id: ChannelId) -> Vec<u8> {
    let number = view
        .model
        .channels
        .terminals
        .get(&id)
        .map_or(0, |terminal| terminal.number);
    format!("/dev/pts/{number}").into_bytes()
}

/// Inode numbers of made-up files: the same for the same path, below those of created files.
fn inode_of(path: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(path) >> 32
}

fn made_up(view: &View, mode: u32, ino: u64) -> Attributes {
    let (uid, gid) = view.user();
    let now = Time::from_nanos(view.model.clock.realtime());
    Attributes {
        dev: OVERLAY_DEV + 1,
        ino,
        mode,
        nlink: 1,
        uid,
        gid,
        blksize: 4096,
        atime: now,
        mtime: now,
        ctime: now,
        ..Attributes::default()
    }
}

/// `fstat` of what has no inode: captured output looks like a pipe, and so do pipes.
pub(crate) fn description_attributes(view: &View, id: OfdId) -> Attributes {
    let (mode, ino) = match view.model.files.get(id).map(|d| &d.kind) {
        Some(Kind::File(file)) => return view.attributes(&file.node).unwrap_or_default(),
        Some(Kind::Output(stream)) => (libc::S_IFIFO | 0o600, u64::from(*stream)),
        Some(Kind::PtySlave(id, _)) => {
            let path = terminal_path(view, *id);
            match attributes(view, &path) {
                Ok(attributes) => return attributes,
                Err(_) => (libc::S_IFCHR | 0o620, inode_of(&path)),
            }
        }
        Some(Kind::PtyMaster(_)) => return attributes(view, b"/dev/pts/ptmx").unwrap_or_default(),
        Some(kind) => control::stat_kind(kind),
        None => (0, 0),
    };
    let mut attributes = made_up(view, mode, ino);
    if mode & libc::S_IFMT == 0 {
        // The one inode of all that has none is the kernel's.
        (attributes.uid, attributes.gid) = (0, 0);
    }
    attributes
}

/// The name of a message queue, as a path in a file system of its own.
fn mqueue_name(view: &View, id: ChannelId) -> Vec<u8> {
    let queue = view.model.channels.mqueues.get(&id);
    match queue.and_then(|queue| queue.name.as_deref()) {
        Some(name) => [b"/", name].concat(),
        None => b"/ (deleted)".to_vec(),
    }
}

/// What `readlink` shows for a descriptor in `/proc/self/fd`.
fn description_name(view: &View, fd: i32) -> Option<Vec<u8>> {
    let (id, description) = view.model.files.lookup_any(fd).ok()?;
    let inode = description_attributes(view, id).ino;
    Some(match &description.kind {
        Kind::File(file) => file.path.to_vec(),
        Kind::Output(_) | Kind::PipeReader(_) | Kind::PipeWriter(_) => format!("pipe:[{inode}]").into_bytes(),
        Kind::Socket(_) => format!("socket:[{inode}]").into_bytes(),
        Kind::EventFd(_) => b"anon_inode:[eventfd]".to_vec(),
        Kind::TimerFd(_) => b"anon_inode:[timerfd]".to_vec(),
        Kind::SignalFd(_) => b"anon_inode:[signalfd]".to_vec(),
        Kind::PtyMaster(_) => b"/dev/ptmx".to_vec(),
        Kind::PtySlave(id, _) => terminal_path(view, *id),
        Kind::MessageQueue(id) => mqueue_name(view, *id),
        Kind::PidFd(_) => b"anon_inode:[pidfd]".to_vec(),
        _ => b"anon_inode:[eventpoll]".to_vec(),
    })
}

pub(crate) fn link(view: &View, path: &[u8]) -> Option<Vec<u8>> {
    if let Some(other) = Elsewhere::of(view, path) {
        return link(&other.view(), path);
    }
    let Parsed::Made(made) = parse(view, path) else {
        return None;
    };
    let pid = view.model.process.pid;
    match made {
        Made::SelfLink => Some(pid.to_string().into_bytes()),
        Made::ThreadSelfLink => Some(format!("{pid}/task/{}", view.tid).into_bytes()),
        Made::MountsLink => Some(b"self/mounts".to_vec()),
        Made::Link(b"exe") => Some(view.fs().place.program.to_vec()),
        Made::Link(b"cwd") => view.directory_path(&view.cwd().ok()?).ok(),
        Made::Link(_) => view.root_path().ok(),
        Made::Fd(fd) => description_name(view, fd),
        _ => None,
    }
}

/// Links that lead to an object whatever its name is by now: the target and a path to show for it.
pub(crate) fn magic_link(view: &View, node: &NodeId) -> Result<Option<(NodeId, Vec<u8>)>, Errno> {
    let NodeId::Virtual(path) = node else {
        return Ok(None);
    };
    if let Some(other) = Elsewhere::of(view, path) {
        return magic_link(&other.view(), node);
    }
    match parse(view, path) {
        Parsed::Made(Made::Fd(fd)) => {
            let (id, description) = view.model.files.lookup_any(fd)?;
            Ok(Some(match &description.kind {
                Kind::File(file) => (view.fs().current(&file.node), file.path.to_vec()),
                _ => (NodeId::Open(id), path.to_vec()),
            }))
        }
        Parsed::Made(Made::Link(b"cwd")) => {
            let cwd = view.cwd()?;
            let path = view.directory_path(&cwd)?;
            Ok(Some((cwd, path)))
        }
        _ => Ok(None),
    }
}

pub(crate) fn list(view: &View, path: &[u8]) -> Result<Vec<Entry>, Errno> {
    if let Some(other) = Elsewhere::of(view, path) {
        return list(&other.view(), path);
    }
    let Parsed::Made(made) = parse(view, path) else {
        return Err(Errno::ENOENT);
    };
    let fds = || view.model.files.iter().map(|(fd, _)| fd.to_string());
    let names: Vec<String> = match made {
        Made::Proc => {
            let own = view
                .model
                .pids()
                .into_iter()
                .chain(view.model.zombies.keys().copied());
            let own = own.map(|pid| pid.to_string());
            let fixed = ["self", "thread-self", "mounts"].map(str::to_owned);
            let files = GLOBAL_PROC.iter().chain(HOST_PROC).map(|name| text(name));
            own.chain(fixed).chain(files).collect()
        }
        Made::Process | Made::Thread(_) => {
            let fixed = ["fd", "fdinfo"].map(str::to_owned).into_iter();
            let task = (made == Made::Process).then(|| "task".to_owned());
            let files = MADE_UP
                .iter()
                .chain(LINKS)
                .chain(FROM_PROCESS)
                .map(|name| text(name));
            fixed.chain(task).chain(files).collect()
        }
        Made::Zombie => LEFT.iter().map(|name| text(name)).collect(),
        Made::TaskList => view.model.threads.keys().map(u32::to_string).collect(),
        Made::FdList | Made::FdInfoList => fds().collect(),
        Made::TerminalList => {
            let numbers = view.model.channels.terminal_numbers().into_iter();
            numbers
                .map(|number| number.to_string())
                .chain(["ptmx".to_owned()])
                .collect()
        }
        _ => return Err(Errno::ENOTDIR),
    };
    let entry = |name: String| {
        let path = super::tree::join(path, name.as_bytes());
        let (mode, ino) = match layer(view, &path) {
            Layer::Virtual => attributes(view, &path).map(|a| (a.mode, a.ino)).ok()?,
            Layer::Host => view.host.attributes(&path).map(|a| (a.mode, a.ino)).ok()?,
            Layer::Missing => return None,
        };
        Some(Entry {
            name: name.into_bytes(),
            ino,
            file_type: mode & libc::S_IFMT,
        })
    };
    Ok(names.into_iter().filter_map(entry).collect())
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// Whose name is set by writing to this file: `pthread_setname_np` of another thread does that.
pub(crate) fn names_thread(view: &View, path: &[u8]) -> Option<Tid> {
    match parse(view, path) {
        Parsed::Made(Made::File(tid, b"comm")) => Some(tid),
        _ => None,
    }
}

/// All bytes of a made-up file as they are now.
pub(crate) fn contents(view: &View, path: &[u8]) -> Result<Vec<u8>, Errno> {
    if let Some(other) = Elsewhere::of(view, path) {
        return contents(&other.view(), path);
    }
    match parse(view, path) {
        Parsed::Made(Made::Global(name)) => Ok(proc_contents::machine(view, name)),
        Parsed::Made(Made::Cpus) => Ok(proc_contents::cpu_list(view)),
        Parsed::Made(Made::ZombieFile(pid, name)) => Ok(proc_contents::zombie(view, pid, name)),
        Parsed::Made(Made::FdInfo(fd)) => proc_contents::descriptor(view, fd),
        Parsed::Made(Made::File(tid, name)) => match view.host.process_file(name) {
            Some(bytes) if name == b"maps" => Ok(maps::with_shared(&view.model.fs, &bytes)),
            Some(bytes) if FROM_PROCESS.contains(&name) => Ok(bytes),
            _ => Ok(proc_contents::process(view, tid, name)),
        },
        _ => Err(Errno::ENOENT),
    }
}
