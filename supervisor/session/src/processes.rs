//! A new process, and a process that ends.

use super::shared::unreadable;
use super::spaces::Invocation;
use super::stacks::Explain;
use super::step::Flow;
use super::{Change, Context, Crash, Session};
use failure::Failure;
use std::collections::BTreeSet;
use syscall_model::effect::{Exec, Fork};
use syscall_model::handlers::{processes, threads};
use syscall_model::processes::{Ended, Pid};
use syscall_model::signals::dumps_core;
use syscall_model::{Pending, Tid, Wake, fs};
use trace::End;
use tracee::Regs;

/// How a process ended, the first one apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessEnd {
    pub pid: Pid,
    pub command: String,
    pub ended: Ended,
}

impl ProcessEnd {
    /// All but the number, which depends on who was first.
    pub fn what(&self) -> (&str, Ended) {
        (&self.command, self.ended)
    }
}

impl Session {
    /// The new process is a copy of its maker. Its first thread begins where the call returns.
    pub(super) fn fork(&mut self, tid: Tid, fork: &Fork, regs: &Regs) -> Result<i64, Failure> {
        let mut child = *regs;
        child.skip_call(0);
        if fork.stack != 0 {
            child.rsp = fork.stack;
        }
        if let Some(tls) = fork.tls {
            child.fs_base = tls;
        }
        let own_number = fork.child.to_le_bytes();
        let mut context = Context {
            regs: child,
            ..Context::default()
        };
        if fork.stack == 0 {
            context.inside.clone_from(&self.threads.at(tid).inside);
        }
        if fork.borrows || self.model.fs.has_shared_memory() {
            self.arm()?;
        }
        let task = self.spaces.task()?;
        let memory = match fork.borrows {
            true => {
                context.xstate = Some(task.xstate()?);
                task.memory()
            }
            false => {
                let copy = task.inject_fork()?;
                let key = self.spaces.next_key();
                let space = self.spaces.here.copy(fork.child, key, copy);
                let planted = self.inspect().planted();
                let space = self.spaces.others.entry(fork.child).or_insert(space);
                let memory = space.task.as_ref().ok_or_else(crate::spaces::gone)?.memory();
                for (address, original) in planted {
                    memory.write_forced(address, &[original])?;
                }
                memory
            }
        };
        if let Some(address) = fork.child_tid {
            // As the kernel: a bad address is nobody's error.
            let _ = memory.write(address, &own_number);
        }
        self.threads.insert(fork.child, context);
        self.spaces.show_process();
        Ok(i64::from(fork.child))
    }

    /// From now on somebody else can see what is done to memory: all parking points count.
    pub(super) fn arm(&mut self) -> Result<(), Failure> {
        let task = self.spaces.here.task.as_mut().ok_or_else(crate::spaces::gone)?;
        if self.spaces.here.code.arm(task)? {
            self.spaces.layout_changed(Change::Anywhere);
        }
        Ok(())
    }

    /// The maker of a process that borrows its memory waits until it no longer does.
    pub(super) fn park_until_exec(&mut self, tid: Tid, regs: Regs, child: Tid) -> Flow {
        let context = self.threads.at(tid);
        context.hook = None;
        context.touches.clear();
        self.model.thread_mut(tid).wait = Some(processes::until_exec(child));
        self.park(tid, regs, Pending::Created(i64::from(child)))
    }

    /// The process in place ends; the execution does when it was the last.
    pub(super) fn process_ends(&mut self, tid: Tid, end: End) -> Result<Flow, Failure> {
        let ended = match end {
            End::Killed(signal) => Ended::Killed(signal),
            End::Exited(status) => Ended::Exited(status),
            _ => Ended::Exited(0),
        };
        let pid = self.model.process.pid;
        let is_first = pid == self.options.config.pid;
        let peer = self.model.process.peer;
        if let Some(peer) = peer.filter(|peer| peer.first_pid() == pid) {
            self.resident_ended(peer, ended)?;
        }
        if !is_first && peer.is_none() {
            let command = self.explain().command_of_process();
            self.ends.children.push(ProcessEnd { pid, command, ended });
        }
        if self.model.is_single() {
            self.note_zombies(pid);
            let first = self.ends.first_ended.take();
            return Ok(self.ends(first.unwrap_or(end)));
        }
        if is_first {
            self.ends.first_ended = Some(end);
        }
        if peer.is_none() {
            self.note_zombies(pid);
        }
        // What it stored is there for the others, and the locks that it held are not held by anybody.
        let stored = self.with_cx(tid, Wake::Ready, |cx| {
            threads::leave_robust_lists(cx);
            fs::flush_all(cx)
        })?;
        stored.map_err(unreadable)?;
        for tid in self.model.threads.keys() {
            self.threads.remove(tid);
        }
        let space = self.model.process.program.space;
        self.model.end_process(ended);
        let lives = |pid: &Pid| {
            self.model
                .process_at(*pid)
                .is_some_and(|p| p.program.space == space)
        };
        if !self.model.pids().iter().any(lives) {
            self.spaces.retire_task();
        }
        self.spaces.enter(self.model.process.program.space);
        self.show_shared_memory()?;
        Ok(Flow::Ended)
    }

    /// The process in place dies by a signal.
    pub(super) fn die(&mut self, tid: Tid, signal: i32, address: Option<u64>) -> Result<Flow, Failure> {
        let is_first = self.model.process.pid == self.options.config.pid;
        let is_peer = self.model.process.peer.is_some();
        if !is_peer && (is_first || self.ends.crash.is_none() && dumps_core(signal)) {
            // It will be gone when somebody asks.
            let stack = match self.model.is_single() {
                true => Vec::new(),
                false => self.explain().stack_of_crash(tid, signal),
            };
            self.ends.crash = Some(Crash {
                thread: tid,
                signal,
                address,
                process: (!is_first).then(|| (self.model.process.pid, self.explain().command_of_process())),
                stack,
            });
        }
        if self.inspect().is_debugged() {
            return self.stand_at_crash(tid);
        }
        if dumps_core(signal) && !self.model.is_single() && !is_peer {
            self.core_of_crash()?;
        }
        self.process_ends(tid, End::Killed(signal))
    }

    /// Another program begins in a task of its own: the one before stays as it is, for checkpoints and for whoever lent it.
    pub(super) fn move_out(&mut self, tid: Tid) -> Result<super::spaces::Space, Failure> {
        let pid = self.model.process.pid;
        let copy = self.spaces.task()?.inject_fork()?;
        let key = self.spaces.next_key();
        let mut space = self.spaces.here.copy(pid, key, copy);
        space.loaded = tid;
        Ok(std::mem::replace(&mut self.spaces.here, space))
    }

    /// The other program runs: its threads, and what is left of the memory before.
    pub(super) fn moved_out(&mut self, before: super::spaces::Space, exec: &Exec) {
        let pid = self.model.process.pid;
        for tid in self.model.threads.keys() {
            self.threads.remove(tid);
        }
        self.threads.insert(pid, Context::default());
        self.spaces.here.loaded = pid;
        self.spaces.here.known.stacks.clear();
        self.spaces.here.freed.clear();
        self.spaces.here.invocation = Invocation::new(&exec.argv, exec.envp.iter().cloned());
        self.model.process.program.command_line = self.spaces.here.invocation.command_line.clone();
        if self.model.process.program.borrows {
            self.spaces.others.insert(before.id, before);
        } else if let Some(task) = before.task {
            self.spaces.retired.push((before.key, task));
        }
    }

    /// A process ends, or has nothing more to do: are there children that it has not waited for?
    fn note_zombies(&mut self, parent: Pid) {
        let zombies = self.model.zombies.values();
        if zombies.into_iter().any(|zombie| zombie.parent == parent) {
            let command = self.explain().command_of_process();
            self.ends.left_behind.insert(format!(
                "{command} does not wait for a child that has ended: it stays a zombie as long as its parent runs"
            ));
        }
    }

    /// The execution ends while processes are still there.
    pub(super) fn note_left_behind(&mut self) {
        for pid in self.model.own_pids() {
            self.enter(pid);
            if self.ends.first_ended.is_some() {
                let command = self.explain().command_of_process();
                let what =
                    format!("a process that runs {command} was still there when the program had ended");
                self.ends.left_behind.insert(what);
            }
            self.note_zombies(pid);
        }
        self.go_home();
    }

    /// Processes that were not waited for, or that were still there at the end.
    pub fn left_behind(&self) -> &BTreeSet<String> {
        &self.ends.left_behind
    }

    /// The processes that have ended so far, but for the first.
    pub fn ended_children(&self) -> &[ProcessEnd] {
        &self.ends.children
    }
}

impl<'a> Explain<'a> {
    /// What the process in place runs, in one word.
    pub(super) fn command_of_process(self) -> String {
        let program = String::from_utf8_lossy(self.model.fs.program()).into_owned();
        program.rsplit('/').next().unwrap_or_default().to_owned()
    }
}
