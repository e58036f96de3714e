//! Processes: `fork` and its kin, `wait4` and `waitid`, whom a signal goes to.

use crate::call::Call;
use crate::channels::install;
use crate::effect::{Effect, Fork, Outcome, Prepared};
use crate::fd::Kind;
use crate::handlers::{files, pidfd};
use crate::memory::GuestMemoryExt;
use crate::model::{Cx, Model};
use crate::object::{Object, Touch};
use crate::process::Process;
use crate::processes::{Asked, Change, Children, Pid};
use crate::signals::{SigInfo, Signals};
use crate::thread::{Thread, Tid};
use crate::wait::{OnSignal, Wait, WaitFor};
use syscalls::Errno;

/// What takes processes out of sight.
pub(super) const NAMESPACES: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;
/// Bounds what a runaway program can make us hold: each is a process of this machine.
const MAX_PROCESSES: usize = 512;

pub fn fork(cx: &mut Cx, _: &Call) -> Outcome {
    make(cx, &Making::new(libc::SIGCHLD as u64, [0; 4]))
}

pub fn vfork(cx: &mut Cx, _: &Call) -> Outcome {
    let flags = libc::CLONE_VFORK | libc::CLONE_VM | libc::SIGCHLD;
    make(cx, &Making::new(flags as u64, [0; 4]))
}

/// What `clone` and `clone3` are told about the process to make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Making {
    /// `CLONE_*`, without the signal.
    pub flags: u64,
    pub exit_signal: i32,
    /// The top of it; 0 for where its maker's is.
    pub stack: u64,
    pub parent_tid: u64,
    pub child_tid: u64,
    pub tls: u64,
    /// Where its maker finds the descriptor of it (`CLONE_PIDFD`).
    pub pidfd: u64,
}

/// The signal in the flags of `clone`.
const SIGNAL: u64 = 0xff;
/// `CLONE_CLEAR_SIGHAND`, which only `clone3` has room for.
pub(super) const CLEAR_HANDLERS: u64 = 1 << 32;

impl Making {
    /// As `clone` is told: signal and flags in one word, one address for the thread's number and for the descriptor.
    pub fn new(flags: u64, [stack, parent_tid, child_tid, tls]: [u64; 4]) -> Self {
        Self {
            flags: flags & !SIGNAL,
            exit_signal: (flags & SIGNAL) as i32,
            stack,
            parent_tid,
            child_tid,
            tls,
            pidfd: parent_tid,
        }
    }

    fn has(&self, flag: i32) -> bool {
        self.flags & u64::from(flag as u32) != 0
    }

    /// What makes no sense, whoever asks.
    fn check(&self) -> Result<(), Errno> {
        let both_at = self.has(libc::CLONE_PARENT_SETTID) && self.pidfd == self.parent_tid;
        let is_bad = self.has(libc::CLONE_FS) && self.has(libc::CLONE_NEWNS | libc::CLONE_NEWUSER)
            || self.has(libc::CLONE_SIGHAND) && !self.has(libc::CLONE_VM)
            || self.has(libc::CLONE_PIDFD) && (both_at || self.has(libc::CLONE_DETACHED));
        match is_bad {
            true => Err(Errno::EINVAL),
            false => Ok(()),
        }
    }
}

/// What the new process is, next to its maker.
fn newborn(own: &Process, making: &Making, pid: Pid) -> Process {
    let mut process = own.clone();
    process.pid = pid;
    process.parent = own.pid;
    process.news.exit_signal = making.exit_signal;
    if making.has(libc::CLONE_PARENT) {
        process.parent = own.parent;
        process.news.exit_signal = own.news.exit_signal;
    }
    process.settings.parent_death_signal = 0;
    process.settings.child_subreaper = false;
    process.program.execed = false;
    process.program.borrows = making.has(libc::CLONE_VM);
    process.program.space = if process.program.borrows {
        own.program.space
    } else {
        pid
    };
    process
}

/// `clone` of a process.
pub(super) fn make(cx: &mut Cx, making: &Making) -> Outcome {
    making.check()?;
    if making.has(NAMESPACES) {
        return Err(Errno::EPERM);
    }
    if cx.model.pids().len() + cx.model.zombies.len() >= MAX_PROCESSES {
        return Err(Errno::EAGAIN);
    }
    let child = cx.model.next_number();
    let with_descriptor = making.has(libc::CLONE_PIDFD);
    if with_descriptor {
        let fd = cx.model.files.lowest_free(0)?;
        cx.mem.write_u32(making.pidfd, fd as u32)?;
    }
    if making.has(libc::CLONE_PARENT_SETTID) {
        cx.mem.write_u32(making.parent_tid, child)?;
    }
    cx.model.take_number();
    let borrows = making.has(libc::CLONE_VM);
    let waits = making.has(libc::CLONE_VFORK);
    let maker = cx.thread();
    let mut thread = Thread::new(child, maker.name, maker.signals.mask);
    thread.scheduling = maker.scheduling;
    if !borrows || waits {
        thread.signals.altstack = maker.signals.altstack;
    }
    if making.has(libc::CLONE_CHILD_CLEARTID) {
        thread.on_exit.clear_tid = making.child_tid;
    }
    let common = cx.model.share(
        child,
        making.has(libc::CLONE_FILES),
        making.has(libc::CLONE_FS),
        making.has(libc::CLONE_SIGHAND),
    );
    let mut process = newborn(&cx.model.process, making, child);
    process.common = common;
    let mut signals = cx.model.signals.forked();
    if making.flags & CLEAR_HANDLERS != 0 {
        signals.exec();
    }
    cx.model.add_process(thread, process, signals);
    if with_descriptor {
        // Only its maker has it.
        install(cx.model, Kind::PidFd(child), libc::O_RDWR, true)?;
    }
    Ok(Effect::Fork(Fork {
        child,
        stack: making.stack,
        tls: making.has(libc::CLONE_SETTLS).then_some(making.tls),
        child_tid: making.has(libc::CLONE_CHILD_SETTID).then_some(making.child_tid),
        borrows,
        waits,
    }))
}

/// The one that called `vfork` goes on when its child has memory of its own, or is gone.
pub fn until_exec(child: Tid) -> Wait {
    Wait {
        on: WaitFor::Exec(child),
        deadline: None,
        on_signal: OnSignal::Restart,
    }
}

/// What the end of the process in place touches: what it has open. Whom it tells is known when it ends ([`Model::told_of_end`]). With others who depend on
/// more than that, everything.
pub(super) fn ending_touches(cx: &Cx) -> Vec<Touch> {
    let model = &*cx.model;
    let own = &model.process;
    let is_plain = !model.is_single()
        && !own.common.is_any()
        && own.pid != own.first
        && !own.program.borrows
        && model.threads.len() == 1
        && !holds_robust_locks(cx)
        && !model
            .ipc
            .segments
            .iter()
            .any(|(_, segment)| model.fs.count_mappings(&segment.node) > 0)
        && !model.ipc.undo.contains_key(&own.pid)
        && (own.session != own.pid || model.channels.terminal_of_session(own.session).is_none())
        && !model
            .files
            .descriptions()
            .any(|(_, open)| open.kind == Kind::PidFd(own.pid));
    if !is_plain {
        return vec![Touch::write(Object::Everything)];
    }
    let open = model.files.iter();
    let mut touches: Vec<Touch> = open.flat_map(|(fd, _)| files::closing_touches(cx, fd)).collect();
    touches.extend([
        Touch::write(Object::Process),
        Touch::write(Object::Thread(cx.tid)),
    ]);
    touches
}

/// Would the end of a thread change locks in memory that others have, too?
fn holds_robust_locks(cx: &Cx) -> bool {
    let model = &*cx.model;
    let holds = |head: u64| {
        // What cannot be read may be anything.
        let pending = cx.mem.read_u64(head.wrapping_add(16)).unwrap_or(1);
        cx.mem.read_u64(head).unwrap_or(0) != head || pending != 0
    };
    let mut lists = model.threads.values().map(|thread| thread.on_exit.robust_list);
    model.fs.has_shared_memory() && lists.any(|head| head != 0 && holds(head))
}

/// Any process may end at any time, and others look.
fn waiting(cx: &Cx, which: Result<Children, Errno>, options: u32, asked: Asked) -> Prepared {
    let blocks = options & libc::WNOHANG as u32 == 0;
    let pid = cx.model.process.pid;
    let wait = which.ok().filter(|_| blocks).map(|which| Wait {
        on: WaitFor::Child(pid, which, asked),
        deadline: None,
        on_signal: OnSignal::Restart,
    });
    Prepared::visible(vec![Touch::write(Object::Children(pid))]).waiting(wait)
}

fn children_of_wait4(cx: &Cx, pid: i32) -> Result<Children, Errno> {
    match pid {
        i32::MIN => Err(Errno::ESRCH),
        -1 => Ok(Children::Any),
        0 => Ok(Children::Group(cx.model.process.group)),
        1.. => Ok(Children::Pid(pid as Pid)),
        _ => Ok(Children::Group(pid.unsigned_abs())),
    }
}

/// A process that never had a child gets its answer at once, and nobody can tell.
fn has_family(model: &Model) -> bool {
    !model.is_single() || !model.zombies.is_empty()
}

pub fn prepare_wait4(cx: &Cx, call: &Call) -> Prepared {
    if !has_family(cx.model) {
        return Prepared::invisible();
    }
    waiting(
        cx,
        children_of_wait4(cx, call.int(0)),
        call.uint(2),
        asked_of_wait4(call.uint(2)),
    )
}

fn asked_of_wait4(options: u32) -> Asked {
    Asked {
        ended: true,
        stopped: options & libc::WUNTRACED as u32 != 0,
        continued: options & libc::WCONTINUED as u32 != 0,
    }
}

fn asked_of_waitid(options: u32) -> Asked {
    Asked {
        ended: options & libc::WEXITED as u32 != 0,
        stopped: options & libc::WSTOPPED as u32 != 0,
        continued: options & libc::WCONTINUED as u32 != 0,
    }
}

/// The parent has been told.
fn told(cx: &mut Cx, pid: Pid) {
    if cx.model.zombies.contains_key(&pid) {
        cx.model.reap(pid);
    }
    if let Some(process) = cx.model.process_at_mut(pid) {
        process.news.untold = false;
    }
}

/// `__WNOTHREAD`, `__WCLONE` and `__WALL`.
const CLONE_OPTIONS: u32 = 0xe000_0000;

/// `wait4(pid, status, options, usage)`.
pub fn wait4(cx: &mut Cx, call: &Call) -> Outcome {
    let known = (libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED) as u32 | CLONE_OPTIONS;
    let options = call.uint(2);
    if options & !known != 0 {
        return Err(Errno::EINVAL);
    }
    let which = children_of_wait4(cx, call.int(0))?;
    let asked = asked_of_wait4(options);
    let Some((pid, ended)) = cx.model.changed_child(cx.model.process.pid, which, asked) else {
        return nobody_yet(cx, which, options, asked);
    };
    told(cx, pid);
    if call.word(1) != 0 {
        cx.mem.write_u32(call.word(1), ended.status())?;
    }
    if call.word(3) != 0 {
        cx.mem.write(call.word(3), &[0; RUSAGE_SIZE])?;
    }
    Ok(Effect::Done(i64::from(pid)))
}

const RUSAGE_SIZE: usize = 144;

fn nobody_yet(cx: &Cx, which: Children, options: u32, asked: Asked) -> Outcome {
    if !cx.model.has_child(cx.model.process.pid, which) {
        return Err(Errno::ECHILD);
    }
    if options & libc::WNOHANG as u32 != 0 {
        return Effect::ok();
    }
    Ok(Effect::Block(Wait {
        on: WaitFor::Child(cx.model.process.pid, which, asked),
        deadline: None,
        on_signal: OnSignal::Restart,
    }))
}

fn children_of_waitid(cx: &Cx, call: &Call) -> Result<Children, Errno> {
    let id = call.int(1);
    match call.uint(0) {
        libc::P_ALL => Ok(Children::Any),
        libc::P_PID if id > 0 => Ok(Children::Pid(id as Pid)),
        libc::P_PGID if id == 0 => Ok(Children::Group(cx.model.process.group)),
        libc::P_PGID if id > 0 => Ok(Children::Group(id as Pid)),
        libc::P_PIDFD if id >= 0 => pidfd::process(cx.model, id).map(Children::Pid),
        _ => Err(Errno::EINVAL),
    }
}

pub fn prepare_waitid(cx: &Cx, call: &Call) -> Prepared {
    if !has_family(cx.model) {
        return Prepared::invisible();
    }
    let mut options = call.uint(3);
    if returns_at_once(cx, call) {
        options |= libc::WNOHANG as u32;
    }
    let asked = asked_of_waitid(call.uint(3));
    let mut prepared = waiting(cx, children_of_waitid(cx, call), options, asked);
    if call.uint(0) == libc::P_PIDFD {
        prepared.touches.push(Touch::read(Object::FdTable));
    }
    prepared
}

/// Is it about a descriptor that does not wait?
fn returns_at_once(cx: &Cx, call: &Call) -> bool {
    let description = cx.model.files.lookup(call.fd(1));
    call.uint(0) == libc::P_PIDFD && description.is_ok_and(|(_, description)| description.nonblocking())
}

/// As far as the kernel fills in `siginfo_t` for a child.
const WAITED_SIZE: usize = 28;

/// `waitid(which, id, info, options, usage)`.
pub fn waitid(cx: &mut Cx, call: &Call) -> Outcome {
    let events = (libc::WEXITED | libc::WSTOPPED | libc::WCONTINUED) as u32;
    let known = (libc::WNOHANG | libc::WNOWAIT) as u32 | events | CLONE_OPTIONS;
    let (info, options) = (call.word(2), call.uint(3));
    let which = match options & !known != 0 || options & events == 0 {
        true => Err(Errno::EINVAL),
        false => children_of_waitid(cx, call),
    };
    let asked = asked_of_waitid(options);
    let own = cx.model.process.pid;
    let found = which.map(|which| (which, cx.model.changed_child(own, which, asked)));
    let (pid, ended) = match found {
        Ok((_, Some(found))) => found,
        Ok((which, None)) => {
            let outcome = match nobody_yet(cx, which, options, asked) {
                Ok(Effect::Block(_)) if returns_at_once(cx, call) => Err(Errno::EAGAIN),
                outcome => outcome,
            };
            if info != 0 && !matches!(outcome, Ok(Effect::Block(_))) {
                cx.mem.write(info, &[0; WAITED_SIZE])?;
            }
            return outcome;
        }
        Err(errno) => {
            // The place for the answer is cleared even if there is none.
            if info != 0 {
                cx.mem.write(info, &[0; WAITED_SIZE])?;
            }
            return Err(errno);
        }
    };
    let zombie = cx.model.zombies.get(&pid).map(|zombie| zombie.user);
    let living = || cx.model.process_at(pid).map(|process| process.owner.user.real);
    let user = zombie.or_else(living).unwrap_or(0);
    if options & libc::WNOWAIT as u32 == 0 {
        told(cx, pid);
    }
    if info != 0 {
        let filled = match ended {
            Change::Ended(ended) => SigInfo::child(libc::SIGCHLD, pid, user, ended),
            Change::Stopped(by) => SigInfo::child_changed(libc::CLD_STOPPED, pid, user, by),
            Change::Continued => SigInfo::child_changed(libc::CLD_CONTINUED, pid, user, libc::SIGCONT),
        };
        let filled = filled.encode();
        cx.mem.write(info, &filled[..WAITED_SIZE])?;
    }
    if call.word(4) != 0 {
        cx.mem.write(call.word(4), &[0; RUSAGE_SIZE])?;
    }
    Effect::ok()
}

/// May the process in place send signals to that one?
fn may_signal(model: &Model, target: Pid, signo: i32) -> bool {
    let own = &model.process;
    let Some(other) = model.process_at(target) else {
        return true;
    };
    let same = |id: u32| id == other.owner.user.real || id == other.owner.user.saved;
    own.owner.user.effective == 0
        || same(own.owner.user.real)
        || same(own.owner.user.effective)
        || signo == libc::SIGCONT && own.session == other.session
}

/// The processes, zombies too, that the first argument of `kill` means.
fn targets(cx: &Cx, pid: i32) -> Result<Vec<Pid>, Errno> {
    let model = &cx.model;
    let living = model
        .pids()
        .into_iter()
        .filter_map(|pid| model.process_at(pid))
        .map(|process| (process.pid, process.group));
    let dead = model.zombies.iter().map(|(&pid, zombie)| (pid, zombie.group));
    let all = living.chain(dead);
    let own = &model.process;
    let found: Vec<Pid> = match pid {
        1 => return Err(Errno::EPERM),
        // Everybody but oneself and init.
        -1 => all.map(|(pid, _)| pid).filter(|&pid| pid != own.pid).collect(),
        0 => all
            .filter(|&(_, group)| group == own.group)
            .map(|(pid, _)| pid)
            .collect(),
        2.. => all
            .map(|(pid, _)| pid)
            .filter(|&found| found == pid as Pid)
            .collect(),
        _ => {
            let wanted = pid.unsigned_abs();
            all.filter(|&(_, group)| group == wanted)
                .map(|(pid, _)| pid)
                .collect()
        }
    };
    if found.is_empty() {
        return Err(Errno::ESRCH);
    }
    Ok(found)
}

/// Sends a signal to whom `pid` means, as `kill` does. Nobody gets anything for signal 0.
pub(super) fn send(cx: &mut Cx, pid: i32, signo: Option<i32>, info: SigInfo) -> Result<(), Errno> {
    let found = targets(cx, pid)?;
    let allowed: Vec<Pid> = found
        .into_iter()
        .filter(|&target| may_signal(cx.model, target, info.signo))
        .collect();
    if allowed.is_empty() {
        return Err(Errno::EPERM);
    }
    if signo.is_some() {
        for target in allowed {
            cx.model
                .within(target, |model| Signals::send_process(model, info));
        }
    }
    Ok(())
}

/// The process of a thread that `tkill` or `tgkill` names.
pub(super) fn process_of(cx: &Cx, tid: i32) -> Result<Pid, Errno> {
    cx.model.process_of(tid as Tid).ok_or(Errno::ESRCH)
}
