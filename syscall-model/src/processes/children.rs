//! Children and parents: how a process ends, stops and goes on, what its parent is told of that, and who inherits whom.

use super::{INIT, Pid};
use crate::channels::{epoll, mqueue, pty};
use crate::fd::{Kind, PollEvents};
use crate::ipc::Ipc;
use crate::model::Model;
use crate::object::Object;
use crate::process::Process;
use crate::signals::{SIG_IGN, SigInfo, Signals};
use crate::thread::Tid;

/// How a process ended, as `wait` tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ended {
    Exited(i32),
    /// By this signal.
    Killed(i32),
}

impl Ended {
    /// The status word of `wait4`.
    pub fn status(self) -> u32 {
        match self {
            Ended::Exited(code) => ((code & 0xff) as u32) << 8,
            // The limit on core files is zero: none is written.
            Ended::Killed(signal) => signal as u32 & 0x7f,
        }
    }
}

/// A process that has ended and that its parent has not waited for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Zombie {
    pub parent: Pid,
    pub group: Pid,
    pub session: Pid,
    pub user: u32,
    pub name: [u8; 16],
    pub ended: Ended,
}

/// Which children a `wait` is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Children {
    Any,
    Pid(Pid),
    Group(Pid),
}

impl Children {
    fn includes(self, pid: Pid, group: Pid) -> bool {
        match self {
            Children::Any => true,
            Children::Pid(wanted) => pid == wanted,
            Children::Group(wanted) => group == wanted,
        }
    }
}

/// What a `wait` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Asked {
    pub ended: bool,
    pub stopped: bool,
    pub continued: bool,
}

/// What has become of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    Ended(Ended),
    Stopped(i32),
    Continued,
}

impl Change {
    /// The status word of `wait4`.
    pub fn status(self) -> u32 {
        match self {
            Change::Ended(ended) => ended.status(),
            Change::Stopped(signal) => (signal as u32) << 8 | 0x7f,
            Change::Continued => 0xffff,
        }
    }
}

impl Model {
    /// The process in place has ended. What it had open is closed, its children go to another parent, its own parent is told.
    pub fn end_process(&mut self, ended: Ended) {
        let pid = self.process.pid;
        let tids: Vec<Tid> = self.threads.keys().copied().collect();
        for tid in tids {
            self.futexes.forget(tid);
            self.ipc.thread_ended(tid);
            mqueue::forget(self, tid);
            for thread in self.all_threads_mut() {
                thread.yields_to.remove(&tid);
            }
        }
        self.leave_to_fellows();
        let open: Vec<i32> = self.files.iter().map(|(fd, _)| fd).collect();
        for fd in open {
            // Just listed, so it is there.
            let _ = self.close(fd);
        }
        pty::leader_ended(self);
        self.fs.end_process(pid);
        Ipc::process_ended(self, pid);
        let own = self.process.clone();
        let first = self.threads.values().next();
        let name = first.map_or([0; 16], |thread| thread.name);
        self.threads.clear();
        self.leave_children(pid, &own);
        let zombie = Zombie {
            parent: own.parent,
            group: own.group,
            session: own.session,
            user: own.owner.user.real,
            name,
            ended,
        };
        self.tell_parent(pid, zombie, own.news.exit_signal);
        self.go_home();
    }

    /// The children of a process that has ended get another parent.
    fn leave_children(&mut self, pid: Pid, own: &Process) {
        let mut reaper = own.parent;
        while let Some(process) = self.process_at(reaper) {
            if process.settings.child_subreaper {
                break;
            }
            reaper = process.parent;
        }
        let reaper = if self.process_at(reaper).is_some() {
            reaper
        } else {
            INIT
        };
        for child in self.pids() {
            let Some(process) = self.process_at_mut(child).filter(|process| process.parent == pid) else {
                continue;
            };
            process.parent = reaper;
            process.news.exit_signal = libc::SIGCHLD;
            let signo = process.settings.parent_death_signal;
            if signo != 0 {
                let info = SigInfo::user(signo, pid, own.owner.user.real);
                self.within(child, |model| Signals::send_process(model, info));
            }
        }
        let zombies: Vec<Pid> = self
            .zombies
            .iter()
            .filter(|(_, zombie)| zombie.parent == pid)
            .map(|(&pid, _)| pid)
            .collect();
        for pid in zombies {
            if let Some(mut zombie) = self.zombies.remove(&pid) {
                zombie.parent = reaper;
                self.tell_parent(pid, zombie, libc::SIGCHLD);
            }
        }
    }

    /// The parent gets its signal, and something to wait for unless it wants neither.
    fn tell_parent(&mut self, pid: Pid, zombie: Zombie, exit_signal: i32) {
        let parent = zombie.parent;
        let info = SigInfo::child(exit_signal.max(1), pid, zombie.user, zombie.ended);
        let kept = self.within(parent, |model| {
            let action = model.signals.action(libc::SIGCHLD);
            let unwanted = action.handler == SIG_IGN || action.flags & libc::SA_NOCLDWAIT as u32 as u64 != 0;
            if exit_signal != 0 {
                Signals::send_process(model, info);
            }
            !(unwanted && exit_signal == libc::SIGCHLD)
        });
        if kept == Some(true) {
            self.zombies.insert(pid, zombie);
        }
        epoll::notify(self, &Kind::PidFd(pid), PollEvents::all());
    }

    /// Somebody has waited for a process that has ended: nothing is left of it.
    pub(crate) fn reap(&mut self, pid: Pid) -> Option<Zombie> {
        let zombie = self.zombies.remove(&pid);
        epoll::notify(self, &Kind::PidFd(pid), PollEvents::all());
        zombie
    }

    /// The parent of a process that lives or is waited for, the parent of that, and so on: whoever inherits it is one of them.
    pub(crate) fn ancestors(&self, pid: Pid) -> Vec<Pid> {
        let parent_of = |pid: Pid| match self.zombies.get(&pid) {
            Some(zombie) => Some(zombie.parent),
            None => self.process_at(pid).map(|process| process.parent),
        };
        std::iter::successors(parent_of(pid), |&pid| parent_of(pid)).collect()
    }

    /// Who notices that a process ends: its parent, which gets a signal and a child to wait for, and whoever inherits its own children.
    pub fn told_of_end(&self, pid: Pid) -> Vec<Object> {
        let told = |pid: Pid| [Object::Children(pid), Object::Signals(pid)];
        let mut told_of: Vec<Pid> = self.ancestors(pid);
        if !self.has_child(pid, Children::Any) {
            told_of.truncate(1);
        }
        let mut objects: Vec<Object> = told_of.into_iter().flat_map(told).collect();
        objects.push(Object::Parenthood(pid));
        objects
    }

    /// Is there a process with this number, dead or alive, that the program can know of?
    pub(crate) fn is_known(&self, pid: Pid) -> bool {
        pid == INIT || self.process_at(pid).is_some() || self.zombies.contains_key(&pid)
    }

    /// A child of the process in place that has ended, of those that are meant.
    pub(crate) fn ended_child(&self, parent: Pid, which: Children) -> Option<(Pid, &Zombie)> {
        let mine = |zombie: &Zombie| zombie.parent == parent;
        let zombies = self.zombies.iter();
        zombies
            .map(|(&pid, zombie)| (pid, zombie))
            .find(|&(pid, zombie)| mine(zombie) && which.includes(pid, zombie.group))
    }

    /// Does a process have such children, dead or alive?
    pub(crate) fn has_child(&self, parent: Pid, which: Children) -> bool {
        let living = self.pids().into_iter().filter_map(|pid| self.process_at(pid));
        let mut living = living.filter(|process| process.parent == parent);
        living.any(|process| which.includes(process.pid, process.group))
            || self.ended_child(parent, which).is_some()
    }

    /// A child of a process that has ended, stopped or gone on, as far as that is asked for.
    pub(crate) fn changed_child(&self, parent: Pid, which: Children, asked: Asked) -> Option<(Pid, Change)> {
        if asked.ended
            && let Some((pid, zombie)) = self.ended_child(parent, which)
        {
            return Some((pid, Change::Ended(zombie.ended)));
        }
        let living = self.pids().into_iter().filter_map(|pid| self.process_at(pid));
        let mut mine =
            living.filter(|process| process.parent == parent && which.includes(process.pid, process.group));
        mine.find_map(|process| match (process.news.untold, process.news.stopped) {
            (true, Some(signal)) if asked.stopped => Some((process.pid, Change::Stopped(signal))),
            (true, None) if asked.continued => Some((process.pid, Change::Continued)),
            _ => None,
        })
    }

    /// Does `wait` have an answer: a child, or that there is none?
    pub(crate) fn wait_is_over(&self, parent: Pid, which: Children, asked: Asked) -> bool {
        self.changed_child(parent, which, asked).is_some() || !self.has_child(parent, which)
    }

    /// Is the process of this thread stopped?
    pub fn is_stopped(&self, tid: Tid) -> bool {
        let pid = self.process_of(tid);
        let process = pid.and_then(|pid| self.process_at(pid));
        process.is_some_and(|process| process.news.stopped.is_some())
    }

    /// The process in place stops until somebody lets it go on.
    pub fn stop_process(&mut self, signo: i32) {
        self.process.news.stopped = Some(signo);
        self.tell_of_change(libc::CLD_STOPPED, signo);
    }

    /// The process in place goes on, if it was stopped.
    pub(crate) fn continue_process(&mut self) {
        if self.process.news.stopped.take().is_some() {
            self.tell_of_change(libc::CLD_CONTINUED, libc::SIGCONT);
        }
    }

    fn tell_of_change(&mut self, code: i32, signo: i32) {
        self.process.news.untold = true;
        let info = SigInfo::child_changed(code, self.process.pid, self.process.owner.user.real, signo);
        self.within(self.process.parent, |model| {
            let action = model.signals.action(libc::SIGCHLD);
            if action.flags & libc::SA_NOCLDSTOP as u32 as u64 == 0 {
                Signals::send_process(model, info);
            }
        });
    }
}
