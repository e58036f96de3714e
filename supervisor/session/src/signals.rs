//! Delivery of signals: frames are built by hand, so that no kernel state is involved.

use super::sharing::Sharing;
use super::step::Flow;
use super::{Session, TaskMemory};
use failure::Failure;
use std::collections::BTreeSet;
use syscall_model::signals::{Delivery, Disposition, SigInfo, Signals};
use syscall_model::{GuestMemory, GuestMemoryExt, OnSignal, Pending, Tid, Wait};
use tracee::Regs;
use tracee::sigframe::{self, AltStack, FrameArgs};

impl Session {
    /// If the parked thread has a signal to act on, it does that instead of its pending operation, which it
    /// comes to again afterwards. The signal, and where the thread is.
    pub(super) fn take_signal(&mut self, tid: Tid) -> Result<Option<(i32, Flow)>, Failure> {
        if self.model.deliverable(tid).is_none() {
            return Ok(None);
        }
        let Some(delivery) = self.next_action(tid)? else {
            return Ok(None);
        };
        let signo = delivery.info.signo;
        if delivery.action == Disposition::Stop && !self.model.is_single() {
            // Whatever it was about to do, or waited for, comes when it goes on.
            self.model.stop_process(signo);
            return Ok(Some((signo, Flow::Parked)));
        }
        let regs = match delivery.action {
            Disposition::Handler { flags, .. } => self.interrupted(tid, flags)?,
            _ => self.threads.at(tid).regs,
        };
        let flow = self.act(tid, &delivery, regs)?;
        Ok(Some((signo, self.stack_further(tid, flow)?)))
    }

    /// The thread runs on from `regs`, or in the handlers of the signals that now reach it.
    pub(super) fn run_with_signals(&mut self, tid: Tid, regs: Regs) -> Result<Flow, Failure> {
        self.stack_further(tid, Flow::Run(regs))
    }

    /// As the kernel does on its way out: each further signal interrupts the handler before it at its entry.
    fn stack_further(&mut self, tid: Tid, mut flow: Flow) -> Result<Flow, Failure> {
        while let Flow::Run(regs) = flow {
            let Some(delivery) = self.next_action(tid)? else {
                return Ok(flow);
            };
            flow = self.act(tid, &delivery, regs)?;
        }
        Ok(flow)
    }

    /// The next signal that is not ignored.
    fn next_action(&mut self, tid: Tid) -> Result<Option<Delivery>, Failure> {
        while let Some(delivery) = Signals::take(&mut self.model, tid) {
            if delivery.action != Disposition::Ignore {
                return Ok(Some(delivery));
            }
        }
        Ok(None)
    }

    fn act(&mut self, tid: Tid, delivery: &Delivery, regs: Regs) -> Result<Flow, Failure> {
        let signo = delivery.info.signo;
        self.transit.note(&[0x5161, signo as u64]);
        match delivery.action {
            Disposition::Handler { .. } => self.enter_handler(tid, delivery, regs),
            Disposition::Terminate | Disposition::Core => {
                self.threads.at(tid).regs = regs;
                self.die_of(tid, &delivery.info, fault_address(&delivery.info))
            }
            Disposition::Stop if !self.model.is_single() => {
                self.model.stop_process(signo);
                let result = regs.rax as i64;
                Ok(self.park(tid, regs, Pending::Return(result)))
            }
            Disposition::Stop => Err(self.unsupported(
                tid,
                &format!("stopping by signal {signo}"),
                regs,
                "no other process could continue it",
            )),
            Disposition::Ignore => Ok(Flow::Run(regs)),
        }
    }

    /// The registers with which the thread continues after the handler: its pending operation is either
    /// broken off with `EINTR` or comes again.
    fn interrupted(&mut self, tid: Tid, handler_flags: u64) -> Result<Regs, Failure> {
        let mut regs = self.threads.at(tid).regs;
        let pending = self.model.thread(tid).pending.clone();
        let partial = self.model.thread(tid).partial_result();
        match pending {
            // What it has moved so far is its result: made again, it would move it twice.
            Pending::Call(_) if partial.is_some() => regs.skip_call(partial.unwrap_or(0)),
            Pending::Call(_) => {
                let waits =
                    std::mem::take(&mut self.choice.breaks_in) || self.model.wake_reason(tid).is_none();
                let wait = self.model.thread(tid).wait.clone();
                match wait.filter(|_| waits) {
                    Some(wait) => self.break_off(&wait, handler_flags, &mut regs)?,
                    None => regs.rewind_call(),
                }
            }
            Pending::Return(result) | Pending::Created(result) => regs.skip_call(result),
            _ => {}
        }
        self.model.end_wait(tid);
        self.threads.at(tid).hook = None;
        Ok(regs)
    }

    pub(super) fn break_off(
        &mut self,
        wait: &Wait,
        handler_flags: u64,
        regs: &mut Regs,
    ) -> Result<(), Failure> {
        let restart = handler_flags & libc::SA_RESTART as u64 != 0;
        match wait.on_signal {
            OnSignal::Restart if restart => {
                regs.rewind_call();
                return Ok(());
            }
            OnSignal::InterruptWithRemainder(addr) if addr != 0 => {
                let left = wait.deadline.unwrap_or(0).saturating_sub(self.model.clock.now());
                let task = self.spaces.task()?;
                // A bad address is the program's own: the kernel answers EFAULT instead of EINTR.
                if TaskMemory::new(task).write_timespec(addr, left).is_err() {
                    regs.skip_call(-i64::from(libc::EFAULT));
                    return Ok(());
                }
            }
            _ => {}
        }
        regs.skip_call(-i64::from(libc::EINTR));
        Ok(())
    }

    fn enter_handler(&mut self, tid: Tid, delivery: &Delivery, mut regs: Regs) -> Result<Flow, Failure> {
        let Disposition::Handler {
            handler,
            restorer,
            flags,
            ..
        } = delivery.action
        else {
            return Ok(Flow::Run(regs));
        };
        regs.orig_rax = tracee::NO_CALL;
        let (sp, size, alt_flags) = self.model.thread(tid).signals.altstack;
        let old_mask = Signals::begin_handler(&mut self.model, tid, delivery);
        let task = self.spaces.task()?;
        let xstate = task.xstate()?;
        let pushed = sigframe::push_signal_frame(
            &regs,
            &xstate,
            &FrameArgs {
                signo: delivery.info.signo,
                siginfo: delivery.info.encode(),
                handler,
                restorer,
                flags,
                old_mask,
                altstack: AltStack {
                    sp,
                    size,
                    flags: alt_flags,
                },
                fault: fault_registers(&delivery.info),
            },
        );
        let task = self.spaces.task()?;
        let frame = match pushed {
            Ok(frame) if TaskMemory::new(task).write(frame.addr, &frame.bytes).is_ok() => frame,
            // No room for the frame: the kernel kills with SIGSEGV, which the process cannot handle either.
            _ => {
                self.threads.at(tid).regs = regs;
                return self.die(tid, libc::SIGSEGV, Some(regs.rsp));
            }
        };
        task.set_xstate(&frame.xstate)?;
        self.threads.at(tid).handlers += 1;
        Ok(Flow::Run(frame.regs))
    }

    /// `rt_sigreturn`: back to what the signal interrupted.
    pub(super) fn signal_return(&mut self, tid: Tid, regs: Regs) -> Result<Flow, Failure> {
        let task = self.spaces.task()?;
        let popped = sigframe::pop_signal_frame(&regs, &task.xstate()?, |addr, out| {
            task.memory()
                .read(addr, out)
                .map_err(|_| tracee::MemoryFault { addr })
        });
        let Ok(frame) = popped else {
            self.threads.at(tid).regs = regs;
            return self.die(tid, libc::SIGSEGV, Some(regs.rsp));
        };
        task.set_xstate(&frame.xstate)?;
        let context = self.threads.at(tid);
        context.handlers = context.handlers.saturating_sub(1);
        let stack = frame.altstack;
        Signals::end_handler(
            &mut self.model,
            tid,
            frame.mask,
            (stack.sp, stack.size, stack.flags),
        );
        let mut back = frame.regs;
        back.orig_rax = tracee::NO_CALL;
        self.run_with_signals(tid, back)
    }

    /// A signal stop of the kernel task: an instruction that faulted, or that is emulated.
    pub(super) fn on_signal(&mut self, tid: Tid, signo: i32, code: i32, addr: u64) -> Result<Flow, Failure> {
        let regs = *self.spaces.task()?.regs()?;
        if signo == libc::SIGSEGV
            && let Some(regs) = self.emulate(regs)?
        {
            return Ok(self.after_invisible(tid, regs));
        }
        /// Nothing is mapped there, as far as the program can tell of memory of ours.
        const SEGV_MAPERR: i32 = 1;
        const SENT_BY_A_PROCESS: std::ops::RangeInclusive<i32> = i32::MIN..=0;
        if SENT_BY_A_PROCESS.contains(&code) {
            // From outside, as by a person with kill(1): not an event of the program's own world.
            tracing::warn!(signo, "a signal from outside was kept from the program");
            return Ok(Flow::Run(regs));
        }
        if signo == libc::SIGSEGV && self.model.fs.sleeper_at(addr).is_some() {
            self.wake_mapping(tid, addr)?;
            return Ok(Flow::Run(regs));
        }
        let (signo, code) = self.beyond_a_file(signo, addr)?.unwrap_or((signo, code));
        // What happened in a slot happened at the hook, as far as the program can tell.
        let regs = Regs {
            rip: self.spaces.here.code.original_ip(regs.rip),
            ..regs
        };
        let addr = self.spaces.here.code.original_ip(addr);
        let is_ours = |range: std::ops::Range<u64>| range.contains(&addr);
        let code = match self.spaces.here.code.scratch_ranges().any(is_ours) {
            true if signo == libc::SIGSEGV => SEGV_MAPERR,
            _ => code,
        };
        self.fault(tid, SigInfo::fault(signo, code, addr), regs)
    }

    /// A fault in a shared mapping beyond the end of its file is what the kernel makes of it there, signal and code. For us the
    /// memory is not accessible, so that something happens at all.
    fn beyond_a_file(&mut self, signo: i32, addr: u64) -> Result<Option<(i32, i32)>, Failure> {
        const BUS_ADRERR: i32 = 2;
        let Some(prot) = self
            .model
            .fs
            .beyond_the_end(addr)
            .filter(|_| signo == libc::SIGSEGV)
        else {
            return Ok(None);
        };
        let mut written = BTreeSet::new();
        self.spaces.here.note_writes(&mut written)?;
        let writes = written
            .iter()
            .any(|&(start, size)| (start..start + size as u64).contains(&addr));
        let needed = if writes { libc::PROT_WRITE } else { libc::PROT_READ };
        Ok((prot & needed != 0).then_some((libc::SIGBUS, BUS_ADRERR)))
    }

    /// The running instruction earned a signal.
    pub(super) fn fault(&mut self, tid: Tid, info: SigInfo, regs: Regs) -> Result<Flow, Failure> {
        Signals::force(&mut self.model, tid, info);
        self.run_with_signals(tid, regs)
    }
}

impl<'a> Sharing<'a> {
    /// Is a thread inside of a signal's handler? (One that was left by `longjmp` counts as well.)
    pub fn is_in_handler(self, tid: Tid) -> bool {
        let context = self.threads.get(&tid);
        context.is_some_and(|context| context.handlers > 0)
    }
}

/// The address that a fault is about; signals that were sent have none.
fn fault_address(info: &SigInfo) -> Option<u64> {
    is_fault(info).then(|| info.addr())
}

fn is_fault(info: &SigInfo) -> bool {
    let synchronous = matches!(
        info.signo,
        libc::SIGSEGV | libc::SIGBUS | libc::SIGILL | libc::SIGFPE | libc::SIGTRAP
    );
    synchronous && info.code > 0
}

/// What a handler finds in `REG_TRAPNO`, `REG_ERR` and `REG_CR2`. The processor's own error code is not visible
/// to a tracer; "user mode" is the part that is certain.
fn fault_registers(info: &SigInfo) -> sigframe::Fault {
    const USER_MODE: u64 = 4;
    let trap = match info.signo {
        libc::SIGFPE => 0,
        libc::SIGTRAP => 3,
        libc::SIGILL => 6,
        libc::SIGSEGV | libc::SIGBUS => 14,
        _ => return sigframe::Fault::default(),
    };
    if !is_fault(info) {
        return sigframe::Fault::default();
    }
    let cr2 = if trap == 14 { info.addr() } else { 0 };
    sigframe::Fault {
        error: if trap == 14 { USER_MODE } else { 0 },
        trap,
        cr2,
    }
}
