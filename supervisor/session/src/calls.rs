//! System calls: the model decides, the session carries out.

use super::guard::Standing;
use super::layout::Change;
use super::step::Flow;
use super::{Event, Session};
use failure::Failure;
use hooks::Preempt;
use std::ops::Range;
use syscall_model::effect::{SegmentBase, Spawn};
use syscall_model::table::{self, Detail};
use syscall_model::{Call, Effect, GuestMemoryExt, Outcome, Pending, Sysno, Tid, Wait, Wake};
use trace::{End, Operation};
use tracee::Regs;

/// No kernel has a call with this number, and none will soon.
const BEYOND_ANY_KERNEL: i64 = 1000;

impl Session {
    /// A thread reached a system call.
    pub(super) fn on_call(&mut self, tid: Tid, nr: i64) -> Result<Flow, Failure> {
        let regs = *self.spaces.task()?.regs()?;
        let Some(sysno) = usize::try_from(nr).ok().and_then(Sysno::new) else {
            // Numbers far beyond the kernel's list exist in no kernel; those just beyond it may in a newer one.
            if !(0..BEYOND_ANY_KERNEL).contains(&nr) {
                let mut regs = regs;
                regs.skip_call(-i64::from(libc::ENOSYS));
                return Ok(self.after_invisible(tid, regs));
            }
            let why = "the kernel's list, as tracefork knows it, does not have it";
            return Err(self.unsupported(tid, &format!("system call {nr}"), regs, why));
        };
        let call = Call::new(sysno, regs.args());
        self.wake_for_call(tid, &call)?;
        if table::lookup(sysno).yields && self.goes_round(&regs)? {
            let mut regs = regs;
            self.note(call, 0);
            regs.skip_call(0);
            return Ok(Flow::Run(regs));
        }
        self.model.stack_pointer = regs.rsp;
        let prepared = self.with_cx(tid, Wake::Ready, |cx| {
            let prepared = cx.prepare(&call);
            cx.begin(&prepared.begins);
            prepared
        })?;
        if prepared.visible || self.hazards().may_go_wrong(&call, &regs) {
            // Who came here last is no part of a state.
            self.model.stack_pointer = 0;
            let context = self.threads.at(tid);
            context.hook = None;
            context.touches = prepared.touches;
            context.look = prepared.look;
            context.observes = prepared.observes;
            self.model.thread_mut(tid).wait = prepared.wait;
            return Ok(self.park(tid, regs, Pending::Call(call)));
        }
        let outcome = self.with_cx(tid, Wake::Ready, |cx| cx.execute(&call))?;
        let (result, flow) = self.carry_out(tid, call, regs, outcome)?;
        self.call_accesses(tid, &call, result.unwrap_or(0), &regs)?;
        Ok(match flow {
            Flow::Run(regs) => self.after_invisible(tid, regs),
            flow => flow,
        })
    }

    /// The thread is scheduled and its call can run.
    pub(super) fn perform_call(
        &mut self,
        tid: Tid,
        call: Call,
        regs: Regs,
    ) -> Result<(Operation, Flow), Failure> {
        match table::lookup(call.sysno).yields {
            true => self.begins_round(tid, &regs)?,
            false => self.threads.at(tid).loops.looks = None,
        }
        if let Some(fault) = self.fault_of(tid, &call) {
            let (result, flow) = self.perform_fault(tid, call, regs, fault)?;
            return Ok((operation(call, result), flow));
        }
        let wait = self.model.thread(tid).wait.as_ref();
        // Only a deadline can be missed.
        let wake = match wait.and_then(|wait| wait.deadline) {
            Some(_) => self.model.woken_by_what_is_there(tid).unwrap_or(Wake::Ready),
            None => Wake::Ready,
        };
        let waited = self.model.thread_mut(tid).wait.take();
        self.wake_for_call(tid, &call)?;
        self.model.stack_pointer = regs.rsp;
        let outcome = self.with_cx(tid, wake, |cx| cx.execute(&call))?;
        if let Ok(Effect::Block(wait)) = outcome {
            self.block(tid, wait, waited);
            return Ok((operation(call, None), Flow::Parked));
        }
        let (result, flow) = self.carry_out(tid, call, regs, outcome)?;
        self.call_accesses(tid, &call, result.unwrap_or(0), &regs)?;
        Ok((operation(call, result), flow))
    }

    /// A call waits on; its deadline stays the one that it was given first.
    pub(super) fn block(&mut self, tid: Tid, mut wait: Wait, waited: Option<Wait>) {
        if let Some(earlier) = waited {
            wait.deadline = earlier.deadline.or(wait.deadline);
        }
        self.model.thread_mut(tid).wait = Some(wait);
    }

    /// Carries out what the model decided; the call's result, if it has one, and where the thread is now.
    pub(super) fn carry_out(
        &mut self,
        tid: Tid,
        call: Call,
        mut regs: Regs,
        outcome: Outcome,
    ) -> Result<(Option<i64>, Flow), Failure> {
        let effect = match outcome {
            Ok(effect) => effect,
            Err(errno) => Effect::Done(-i64::from(errno.into_raw())),
        };
        let maps = matches!(
            effect,
            Effect::Kernel
                | Effect::KernelWith(_)
                | Effect::KernelTwice(..)
                | Effect::MapFile(_)
                | Effect::Unmap(_)
        );
        if !maps {
            self.fit_shared_mappings(tid)?;
        }
        let result = match effect {
            Effect::Done(value) => value,
            Effect::DoneCheckSignals(value) => {
                self.note(call, value);
                regs.skip_call(value);
                return Ok((Some(value), self.run_with_signals(tid, regs)?));
            }
            Effect::Kernel => self.in_kernel(call, call.args)?,
            Effect::KernelWith(args) => self.in_kernel(call, args)?,
            Effect::KernelTwice(first, second) => match self.in_kernel(call, first)? {
                0 => self.in_kernel(call, second)?,
                refused => refused,
            },
            Effect::Unmap(ranges) => {
                for (addr, len) in ranges {
                    let unmap = Call::new(Sysno::munmap, [addr, len, 0, 0, 0, 0]);
                    self.in_kernel(unmap, unmap.args)?;
                }
                0
            }
            Effect::MapFile(map) => self.map_file(map)?,
            Effect::SetBase(base, value) => {
                match base {
                    SegmentBase::Fs => regs.fs_base = value,
                    SegmentBase::Gs => regs.gs_base = value,
                }
                0
            }
            Effect::GetBase(base, addr) => self.get_base(tid, &regs, base, addr)?,
            Effect::Spawn(spawn) => {
                let child = self.spawn(spawn, &regs)?;
                if self.parks_after_spawn() {
                    self.note(call, child);
                    return Ok((Some(child), self.park_after_spawn(tid, regs, child)));
                }
                child
            }
            Effect::Fork(fork) => {
                let child = self.fork(tid, &fork, &regs)?;
                if fork.waits {
                    self.note(call, child);
                    return Ok((Some(child), self.park_until_exec(tid, regs, fork.child)));
                }
                if self.parks_after_spawn() {
                    self.note(call, child);
                    return Ok((Some(child), self.park_after_spawn(tid, regs, child)));
                }
                child
            }
            Effect::ExitThread => {
                self.threads.remove(&tid);
                return Ok((None, Flow::Ended));
            }
            Effect::ExitProcess(status) => return Ok((None, self.process_ends(tid, End::Exited(status))?)),
            Effect::Die(signal) => return Ok((None, self.die(tid, signal, None)?)),
            Effect::Exec(exec) => return self.exec(tid, call, exec, regs),
            Effect::SignalReturn => return Ok((None, self.signal_return(tid, regs)?)),
            Effect::Block(_) => {
                let name = call.sysno.name();
                return Err(Failure::internal(format!(
                    "{name} in thread {tid} waits, but was not announced as visible"
                )));
            }
            Effect::Unsupported(why) => {
                return Err(self.unsupported(tid, &table::describe(&call, Detail::Full), regs, &why));
            }
        };
        self.fit_shared_mappings(tid)?;
        self.note(call, result);
        regs.skip_call(result);
        Ok((Some(result), Flow::Run(regs)))
    }

    fn note(&mut self, call: Call, result: i64) {
        self.transit.note(&[call.sysno.id() as u64, result as u64]);
        self.transit.note(&call.args);
    }

    fn in_kernel(&mut self, call: Call, args: [u64; 6]) -> Result<i64, Failure> {
        let memory = table::lookup(call.sysno).memory;
        if let Some(range) = memory.takes(args) {
            let is_missed =
                self.is_missed_by_others(range.clone())? && !self.is_loading(call.sysno, args, &range)?;
            self.transit.took_memory |= is_missed;
        }
        let standing = Standing {
            model: &self.model,
            threads: &mut self.threads,
        };
        let result = self.spaces.memory_call(standing, call.sysno, args)?;
        if let Some(change) = memory.change(args, result) {
            if let (true, Change::Mapped(range)) = (memory.renews(), &change) {
                self.happened(Event::Renewed(range.clone()));
            }
            self.spaces.layout_changed(change);
        }
        for range in memory.replaces(args, result) {
            self.spaces.here.code.unmapped(range);
        }
        Ok(result)
    }

    /// May other threads be about to use this memory, which a call takes away?
    fn is_missed_by_others(&mut self, range: Range<u64>) -> Result<bool, Failure> {
        if self.model.threads.len() == 1 {
            return Ok(false);
        }
        let sp = self.spaces.task()?.regs()?.rsp;
        self.is_shared_range(range, sp)
    }

    fn get_base(&mut self, tid: Tid, regs: &Regs, base: SegmentBase, addr: u64) -> Result<i64, Failure> {
        let value = match base {
            SegmentBase::Fs => regs.fs_base,
            SegmentBase::Gs => regs.gs_base,
        };
        let written = self.with_cx(tid, Wake::Ready, |cx| cx.mem.write_u64(addr, value))?;
        Ok(written.map_or(-i64::from(libc::EFAULT), |()| 0))
    }

    /// The new thread starts as a copy of its maker, with its own stack and TLS.
    fn spawn(&mut self, spawn: Spawn, regs: &Regs) -> Result<i64, Failure> {
        let mut child = *regs;
        child.skip_call(0);
        if spawn.stack != 0 {
            child.rsp = spawn.stack;
        }
        if let Some(tls) = spawn.tls {
            child.fs_base = tls;
        }
        self.arm()?;
        let xstate = Some(self.spaces.task()?.xstate()?);
        self.threads.insert(
            spawn.child,
            super::Context {
                regs: child,
                xstate,
                ..Default::default()
            },
        );
        Ok(i64::from(spawn.child))
    }

    /// The new thread may run at once, before its maker does anything more. That can be told only by memory that they share without an order: where there
    /// is some, the return of the call is a step of its own.
    fn parks_after_spawn(&self) -> bool {
        if self.model.process.peer.is_some() && self.options.peers_are_fixed() {
            return false;
        }
        match self.options.preempt {
            Preempt::Memory => true,
            Preempt::Auto => !self.options.watched.is_empty(),
            Preempt::Sync | Preempt::Syscall => false,
        }
    }

    fn park_after_spawn(&mut self, tid: Tid, regs: Regs, child: i64) -> Flow {
        let context = self.threads.at(tid);
        context.hook = None;
        context.touches.clear();
        self.park(tid, regs, Pending::Created(child))
    }

    /// A clear stop: what was called, by whom, from where.
    pub(super) fn unsupported(&mut self, tid: Tid, what: &str, regs: Regs, why: &str) -> Failure {
        let mut failure = Failure::unsupported(format!("{what} in thread {tid} cannot be modelled: {why}"));
        failure.details = self.explain().backtrace(&regs);
        failure.hint("docs/syscalls.md explains how each system call is handled and why")
    }
}

fn operation(call: Call, result: Option<i64>) -> Operation {
    Operation::Call {
        number: call.sysno.id() as u32,
        args: call.args,
        result,
    }
}
