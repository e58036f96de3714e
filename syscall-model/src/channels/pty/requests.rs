//! `ioctl` on a pseudo-terminal.

use super::{IN, check_background, give_up, members, open_slave, signal_group, terminal};
use crate::channels::terminal::Settings;
use crate::channels::{ChannelId, epoll};
use crate::effect::{Effect, Outcome};
use crate::fd::{Kind, OfdId};
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use syscalls::Errno;

/// `TIOCGPTPEER`: the other side, without its name.
const TIOCGPTPEER: u64 = 0x5441;
const TIOCGPTLCK: u64 = 0x8004_5439;

/// Does a request leave everything as it is?
pub(crate) fn only_looks(request: u64) -> bool {
    matches!(
        request,
        libc::TCGETS
            | libc::TIOCGWINSZ
            | libc::TIOCGPGRP
            | libc::TIOCGSID
            | libc::TIOCGPTN
            | libc::FIONREAD
            | libc::TIOCOUTQ
            | TIOCGPTLCK
    )
}

/// The terminal behind a description, and whether that is the master.
fn side(cx: &mut Cx, ofd: OfdId, request: u64) -> Result<(ChannelId, bool), Errno> {
    let kind = cx.model.files.get(ofd).ok_or(Errno::EBADF)?.kind.clone();
    match kind {
        Kind::PtyMaster(id) => Ok((id, true)),
        Kind::PtySlave(id, opened) if terminal(cx.model, id)?.hung_up == opened => Ok((id, false)),
        Kind::PtySlave(..) if request != libc::TIOCSPGRP => Err(Errno::EIO),
        _ => Err(Errno::ENOTTY),
    }
}

pub(crate) fn ioctl(cx: &mut Cx, ofd: OfdId, request: u64, arg: u64) -> Outcome {
    let (id, is_master) = side(cx, ofd, request)?;
    let changes = [
        libc::TCSETS,
        libc::TCSETSW,
        libc::TCSETSF,
        libc::TCFLSH,
        libc::TCXONC,
        libc::TCSBRK,
        libc::TCSBRKP,
        libc::TIOCSPGRP,
    ];
    if changes.contains(&request)
        && let Some(refused) = check_background(cx, ofd, libc::SIGTTOU)
    {
        return refused;
    }
    match request {
        libc::TIOCSCTTY | libc::TIOCNOTTY | libc::TIOCGPGRP | libc::TIOCSPGRP | libc::TIOCGSID => {
            job_control(cx, id, is_master, request, arg)
        }
        libc::TIOCGPTN | libc::TIOCSPTLCK | TIOCGPTLCK | TIOCGPTPEER => {
            master_only(cx, id, is_master, request, arg)
        }
        _ => of_the_line(cx, id, is_master, request, arg),
    }
}

/// The settings, the size of the window, and what waits to be read.
fn of_the_line(cx: &mut Cx, id: ChannelId, is_master: bool, request: u64, arg: u64) -> Outcome {
    match request {
        libc::TCGETS => {
            let encoded = terminal(cx.model, id)?.line.settings.encode();
            cx.mem.write(arg, &encoded)?;
        }
        libc::TCSETS | libc::TCSETSW | libc::TCSETSF => {
            let mut raw = [0; Settings::SIZE];
            cx.mem.read(arg, &mut raw)?;
            let found = terminal(cx.model, id)?;
            if request == libc::TCSETSF {
                found.line.discard_input();
            }
            found.line.set(Settings::decode(&raw));
            let opened = found.hung_up;
            epoll::notify(cx.model, &Kind::PtySlave(id, opened), IN);
        }
        libc::TIOCGWINSZ => {
            let size = terminal(cx.model, id)?.size;
            cx.mem.write(arg, &size.map(u16::to_le_bytes).concat())?;
        }
        libc::TIOCSWINSZ => {
            let mut raw = [0; 8];
            cx.mem.read(arg, &mut raw)?;
            let size = [0, 2, 4, 6].map(|at| u16::from_le_bytes([raw[at], raw[at + 1]]));
            let found = terminal(cx.model, id)?;
            let (before, foreground) = (std::mem::replace(&mut found.size, size), found.foreground);
            if let Some(group) = foreground.filter(|_| before != size) {
                signal_group(cx.model, group, libc::SIGWINCH);
            }
        }
        libc::FIONREAD | libc::TIOCOUTQ => {
            let found = terminal(cx.model, id)?;
            let count = match (request, is_master) {
                (libc::TIOCOUTQ, _) => 0,
                (_, true) => found.line.output_available(),
                (_, false) => found.line.available(),
            };
            cx.mem.write_u32(arg, count as u32)?;
        }
        libc::TCFLSH => match arg as i32 {
            libc::TCIFLUSH | libc::TCIOFLUSH => terminal(cx.model, id)?.line.discard_input(),
            libc::TCOFLUSH => {}
            _ => return Err(Errno::EINVAL),
        },
        // There is no line to break or to stop, and what was written has arrived.
        libc::TCSBRK | libc::TCSBRKP | libc::TCXONC | libc::TIOCEXCL | libc::TIOCNXCL => {}
        libc::TIOCGETD => cx.mem.write_u32(arg, 0)?,
        _ => return Err(Errno::ENOTTY),
    }
    Effect::ok()
}

/// What only the master is asked.
fn master_only(cx: &mut Cx, id: ChannelId, is_master: bool, request: u64, arg: u64) -> Outcome {
    if !is_master {
        return Err(Errno::ENOTTY);
    }
    match request {
        TIOCGPTPEER => return open_slave(cx, id, arg as i32),
        libc::TIOCGPTN => {
            let number = terminal(cx.model, id)?.number;
            cx.mem.write_u32(arg, number)?;
        }
        TIOCGPTLCK => {
            let locked = terminal(cx.model, id)?.locked;
            cx.mem.write_u32(arg, u32::from(locked))?;
        }
        _ => {
            let locked = cx.mem.read_u32(arg)? != 0;
            terminal(cx.model, id)?.locked = locked;
        }
    }
    Effect::ok()
}

/// Whose terminal it is, and which group has it.
fn job_control(cx: &mut Cx, id: ChannelId, is_master: bool, request: u64, arg: u64) -> Outcome {
    let own = cx.model.process.clone();
    let found = terminal(cx.model, id)?;
    let is_own = found.session == Some(own.session);
    match request {
        libc::TIOCGPGRP | libc::TIOCGSID if !is_own && !is_master => return Err(Errno::ENOTTY),
        libc::TIOCGPGRP => {
            let group = found.foreground.unwrap_or(0);
            cx.mem.write_u32(arg, group)?;
        }
        libc::TIOCGSID => {
            let session = found.session.ok_or(Errno::ENOTTY)?;
            cx.mem.write_u32(arg, session)?;
        }
        libc::TIOCSPGRP => {
            if !is_own {
                return Err(Errno::ENOTTY);
            }
            let group = cx.mem.read_u32(arg)?;
            if (group as i32) < 0 {
                return Err(Errno::EINVAL);
            }
            let first = members(cx.model, group).first().copied();
            let first = first
                .and_then(|pid| cx.model.process_at(pid))
                .ok_or(Errno::ESRCH)?;
            if first.session != own.session {
                return Err(Errno::EPERM);
            }
            terminal(cx.model, id)?.foreground = Some(group);
        }
        libc::TIOCSCTTY => {
            let steals = arg == 1 && own.owner.user.effective == 0;
            if own.pid == own.session && is_own {
                return Effect::ok();
            }
            let other = found.session.is_some();
            let has_one = cx.model.channels.terminal_of_session(own.session).is_some();
            if own.pid != own.session || has_one || other && !steals {
                return Err(Errno::EPERM);
            }
            let found = terminal(cx.model, id)?;
            found.session = Some(own.session);
            found.foreground = Some(own.group);
        }
        _ => {
            if !is_own {
                return Err(Errno::ENOTTY);
            }
            // One who does not lead the session has the same terminal as all of it: only a leader gives it up.
            if own.pid == own.session {
                give_up(cx.model, id, &[libc::SIGHUP, libc::SIGCONT]);
            }
        }
    }
    Ok(Effect::DoneCheckSignals(0))
}
