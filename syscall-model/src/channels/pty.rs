//! Pseudo-terminals: who has which side open, whose terminal it is, and who may use it (job control).
//!
//! What becomes of the bytes in between is the line discipline's business ([`super::terminal`]). `ioctl` is in `requests`.

mod requests;

pub(crate) use requests::{ioctl, only_looks};

use super::terminal::Terminal;
use super::{ChannelId, Channels, epoll, install};
use crate::effect::{Effect, Outcome};
use crate::fd::{Kind, OfdId, PollEvents};
use crate::model::{Cx, Model};
use crate::processes::Pid;
use crate::signals::{SigInfo, Signals, bit};
use crate::wait::{Wait, Wake};
use syscalls::Errno;

const IN: PollEvents = PollEvents::IN.union(PollEvents::RDNORM);
const OUT: PollEvents = PollEvents::OUT.union(PollEvents::WRNORM);
/// The kernel's limit is higher (`/proc/sys/kernel/pty/max`).
const MOST: u32 = 256;

impl Channels {
    /// The terminal with this number in `/dev/pts`, as long as its master is open.
    pub(crate) fn terminal_numbered(&self, number: u32) -> Option<ChannelId> {
        let is_it = |terminal: &Terminal| terminal.number == number && terminal.masters > 0;
        let mut all = self.terminals.iter();
        all.find_map(|(id, terminal)| is_it(terminal).then_some(*id))
    }

    /// The numbers in `/dev/pts`.
    pub(crate) fn terminal_numbers(&self) -> Vec<u32> {
        let open = self.terminals.values().filter(|terminal| terminal.masters > 0);
        open.map(|terminal| terminal.number).collect()
    }

    /// The terminal that controls a session.
    pub(crate) fn terminal_of_session(&self, session: Pid) -> Option<ChannelId> {
        let mut all = self.terminals.iter();
        all.find_map(|(id, terminal)| (terminal.session == Some(session)).then_some(*id))
    }
}

fn terminal(model: &mut Model, id: ChannelId) -> Result<&mut Terminal, Errno> {
    model.channels.terminals.get_mut(&id).ok_or(Errno::EIO)
}

/// `open("/dev/ptmx")`.
pub(crate) fn open_master(cx: &mut Cx, flags: i32) -> Outcome {
    let used = cx
        .model
        .channels
        .terminals
        .values()
        .map(|terminal| terminal.number);
    let used: std::collections::BTreeSet<u32> = used.collect();
    let number = (0..MOST)
        .find(|number| !used.contains(number))
        .ok_or(Errno::ENOSPC)?;
    let id = cx.model.channels.allocate();
    cx.model.channels.terminals.insert(id, Terminal::new(number));
    let kept = flags & (libc::O_ACCMODE | libc::O_NONBLOCK);
    let fd = install(cx.model, Kind::PtyMaster(id), kept, flags & libc::O_CLOEXEC != 0)?;
    Ok(Effect::Done(i64::from(fd)))
}

/// `open("/dev/pts/N")`, or of `/dev/tty`.
pub(crate) fn open_slave(cx: &mut Cx, id: ChannelId, flags: i32) -> Outcome {
    let own = &cx.model.process;
    let (pid, session, group) = (own.pid, own.session, own.group);
    let has_one = cx.model.channels.terminal_of_session(session).is_some();
    let found = terminal(cx.model, id)?;
    if found.locked || found.masters == 0 {
        return Err(Errno::EIO);
    }
    found.slaves += 1;
    found.left = false;
    // The first that the leader of a session opens controls it.
    if flags & libc::O_NOCTTY == 0 && pid == session && !has_one && found.session.is_none() {
        found.session = Some(session);
        found.foreground = Some(group);
    }
    let kind = Kind::PtySlave(id, found.hung_up);
    let kept = flags & (libc::O_ACCMODE | libc::O_NONBLOCK | libc::O_APPEND);
    let fd = install(cx.model, kind, kept, flags & libc::O_CLOEXEC != 0)?;
    Ok(Effect::Done(i64::from(fd)))
}

/// The terminal of the process in place, for `/dev/tty`.
pub(crate) fn own(model: &Model) -> Option<ChannelId> {
    model.channels.terminal_of_session(model.process.session)
}

/// The last descriptor of one side is gone.
pub(crate) fn closed(model: &mut Model, kind: &Kind) {
    let (Kind::PtyMaster(id) | Kind::PtySlave(id, _)) = *kind else {
        return;
    };
    let Ok(found) = terminal(model, id) else { return };
    match kind {
        Kind::PtyMaster(_) => {
            found.masters -= 1;
            hang_up(model, id);
        }
        _ => {
            found.slaves -= 1;
            if found.slaves == 0 {
                found.left = true;
            }
            epoll::notify(model, &Kind::PtyMaster(id), PollEvents::all());
        }
    }
    let is_over = |terminal: &Terminal| terminal.masters == 0 && terminal.slaves == 0;
    if model.channels.terminals.get(&id).is_some_and(is_over) {
        model.channels.terminals.remove(&id);
    }
}

/// Whoever has the slave open loses it; the session is told.
fn hang_up(model: &mut Model, id: ChannelId) {
    let Ok(found) = terminal(model, id) else { return };
    let (session, foreground) = (found.session.take(), found.foreground.take());
    let lost = Kind::PtySlave(id, found.hung_up);
    found.hung_up += 1;
    found.left = true;
    found.line.discard_input();
    if let Some(leader) = session {
        for signo in [libc::SIGHUP, libc::SIGCONT] {
            model.within(leader, |model| {
                Signals::send_process(model, SigInfo::kernel(signo));
            });
        }
    }
    if let Some(group) = foreground {
        signal_group(model, group, libc::SIGHUP);
    }
    epoll::notify(model, &lost, PollEvents::all());
    epoll::notify(model, &Kind::PtyMaster(id), PollEvents::all());
}

/// The leader of a session has ended: the terminal is nobody's, and the group in the foreground is told. Whoever has it open keeps it, unlike
/// with terminals that are none of these.
pub(crate) fn leader_ended(model: &mut Model) {
    let own = &model.process;
    if own.session == own.pid
        && let Some(id) = model.channels.terminal_of_session(own.session)
    {
        give_up(model, id, &[libc::SIGHUP]);
    }
}

/// The session no longer has this terminal; the group in the foreground gets these signals.
fn give_up(model: &mut Model, id: ChannelId, signals: &[i32]) {
    let Ok(found) = terminal(model, id) else { return };
    found.session = None;
    if let Some(group) = found.foreground.take() {
        for &signo in signals {
            signal_group(model, group, signo);
        }
    }
}

/// Sends a signal of the kernel's to all of a group.
fn signal_group(model: &mut Model, group: Pid, signo: i32) {
    for pid in members(model, group) {
        model.within(pid, |model| {
            Signals::send_process(model, SigInfo::kernel(signo));
        });
    }
}

fn members(model: &Model, group: Pid) -> Vec<Pid> {
    let is_in = |pid: &Pid| {
        model
            .process_at(*pid)
            .is_some_and(|process| process.group == group)
    };
    model.pids().into_iter().filter(is_in).collect()
}

/// Is there nobody in the session, outside of the group, who could let it go on?
fn is_orphaned(model: &Model, group: Pid) -> bool {
    let is_cared_for = |pid: Pid| {
        let process = model.process_at(pid)?;
        let parent = model.process_at(process.parent)?;
        Some(parent.group != group && parent.session == process.session)
    };
    !members(model, group)
        .into_iter()
        .any(|pid| is_cared_for(pid) == Some(true))
}

/// Does the process in place use its terminal from the background?
pub(crate) fn is_in_background(model: &Model, kind: &Kind) -> bool {
    let &Kind::PtySlave(id, opened) = kind else {
        return false;
    };
    let own = &model.process;
    model.channels.terminals.get(&id).is_some_and(|terminal| {
        terminal.hung_up == opened
            && terminal.session == Some(own.session)
            && terminal.foreground.is_some_and(|group| group != own.group)
    })
}

/// A process in the background reads from its terminal, writes to it or changes it: what it gets for that. `None` if it may go on.
fn check_background(cx: &mut Cx, ofd: OfdId, signo: i32) -> Option<Outcome> {
    let kind = cx.model.files.get(ofd)?.kind.clone();
    if !is_in_background(cx.model, &kind) {
        return None;
    }
    let is_deaf = cx.thread().signals.mask & bit(signo) != 0 || cx.model.signals.ignores(signo);
    let group = cx.model.process.group;
    if is_deaf || is_orphaned(cx.model, group) {
        let may = is_deaf && signo == libc::SIGTTOU;
        return (!may).then_some(Err(Errno::EIO));
    }
    signal_group(cx.model, group, signo);
    // It is stopped, and tries again when it goes on.
    Some(Ok(Effect::Block(Wait::ready(ofd, PollEvents::all()))))
}

/// Before a read of a channel.
pub(crate) fn check_read(cx: &mut Cx, ofd: OfdId) -> Option<Outcome> {
    check_background(cx, ofd, libc::SIGTTIN)
}

/// Before a write to a channel.
pub(crate) fn check_write(cx: &mut Cx, ofd: OfdId) -> Option<Outcome> {
    let &Kind::PtySlave(id, _) = &cx.model.files.get(ofd)?.kind else {
        return None;
    };
    let minds = cx.model.channels.terminals.get(&id)?.line.settings.local & libc::TOSTOP != 0;
    minds.then(|| check_background(cx, ofd, libc::SIGTTOU)).flatten()
}

pub(crate) fn read(cx: &mut Cx, kind: &Kind, max: usize) -> Result<Vec<u8>, Errno> {
    let wake = cx.wake;
    match *kind {
        Kind::PtyMaster(id) => {
            let found = terminal(cx.model, id)?;
            if found.line.output_available() > 0 {
                let was_full = !found.line.has_room_for_output();
                let data = found.line.take_output(max);
                let opened = found.hung_up;
                if was_full {
                    epoll::notify(cx.model, &Kind::PtySlave(id, opened), OUT);
                }
                return Ok(data);
            }
            Err(if found.left { Errno::EIO } else { Errno::EAGAIN })
        }
        Kind::PtySlave(id, opened) => {
            let found = terminal(cx.model, id)?;
            if found.hung_up != opened {
                return Ok(Vec::new());
            }
            if !found.line.is_readable() {
                let (least, tenths) = found.line.settings.least_and_tenths();
                let is_over = tenths == 0 || wake == Wake::TimedOut;
                return match !found.line.settings.is_canonical() && least == 0 && is_over {
                    true => Ok(Vec::new()),
                    false => Err(Errno::EAGAIN),
                };
            }
            let data = found.line.read(max);
            epoll::notify(cx.model, &Kind::PtyMaster(id), OUT);
            Ok(data)
        }
        _ => Err(Errno::EINVAL),
    }
}

pub(crate) fn write(cx: &mut Cx, kind: &Kind, data: &[u8]) -> Result<usize, Errno> {
    match *kind {
        Kind::PtyMaster(id) => {
            let found = terminal(cx.model, id)?;
            if found.left {
                return Err(Errno::EIO);
            }
            if !found.line.has_room_for_input() {
                return Err(Errno::EAGAIN);
            }
            let signals = found.line.type_in(data);
            let (opened, foreground) = (found.hung_up, found.foreground);
            for signo in signals {
                if let Some(group) = foreground {
                    signal_group(cx.model, group, signo);
                }
            }
            epoll::notify(cx.model, &Kind::PtySlave(id, opened), IN);
            epoll::notify(cx.model, &Kind::PtyMaster(id), IN);
            Ok(data.len())
        }
        Kind::PtySlave(id, opened) => {
            let found = terminal(cx.model, id)?;
            if found.hung_up != opened || found.masters == 0 {
                return Err(Errno::EIO);
            }
            let written = found.line.write(data);
            if written == 0 && !data.is_empty() {
                return Err(Errno::EAGAIN);
            }
            epoll::notify(cx.model, &Kind::PtyMaster(id), IN);
            Ok(written)
        }
        _ => Err(Errno::EINVAL),
    }
}

pub(crate) fn poll(model: &Model, kind: &Kind) -> PollEvents {
    let (Kind::PtyMaster(id) | Kind::PtySlave(id, _)) = kind else {
        return PollEvents::NVAL;
    };
    let Some(found) = model.channels.terminals.get(id) else {
        return PollEvents::NVAL;
    };
    let mut events = PollEvents::empty();
    match *kind {
        Kind::PtySlave(_, opened) if opened != found.hung_up => {
            return IN | OUT | PollEvents::ERR | PollEvents::HUP;
        }
        Kind::PtySlave(..) => {
            events.set(IN, found.line.is_readable());
            events.set(OUT, found.line.has_room_for_output());
        }
        _ => {
            events.set(IN, found.line.output_available() > 0);
            events.set(OUT, found.line.has_room_for_input());
            events.set(PollEvents::HUP, found.left);
        }
    }
    events
}

/// How long a raw read with no least number of bytes waits for the first, in tenths of a second; `None` if it is not such a read.
pub(crate) fn tenths(model: &Model, kind: &Kind) -> Option<u8> {
    let Kind::PtySlave(id, _) = kind else { return None };
    let settings = &model.channels.terminals.get(id)?.line.settings;
    match settings.least_and_tenths() {
        (0, tenths) if !settings.is_canonical() => Some(tenths),
        _ => None,
    }
}
