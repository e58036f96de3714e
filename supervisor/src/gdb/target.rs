//! The timeline as a target of gdb's remote protocol.

use super::timeline::{Halt, Timeline};
use failure::Failure;
use gdbstub::common::{Signal, Tid};
use gdbstub::conn::{Connection, ConnectionExt};
use gdbstub::stub::MultiThreadStopReason;
use gdbstub::stub::run_blocking::{BlockingEventLoop, Event, WaitForStopReasonError};
use gdbstub::target::ext::auxv::{Auxv, AuxvOps};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadResume, MultiThreadResumeOps, MultiThreadSchedulerLocking,
    MultiThreadSchedulerLockingOps, MultiThreadSingleStep, MultiThreadSingleStepOps,
};
use gdbstub::target::ext::base::reverse_exec::{
    ReplayLogPosition, ReverseCont, ReverseContOps, ReverseStep, ReverseStepOps,
};
use gdbstub::target::ext::breakpoints::{Breakpoints, BreakpointsOps, SwBreakpoint, SwBreakpointOps};
use gdbstub::target::{Target, TargetError, TargetResult};
use gdbstub_arch::x86::X86_64_SSE;
use gdbstub_arch::x86::reg::X86_64CoreRegs;
use std::marker::PhantomData;
use std::net::TcpStream;
use tracee::{Regs, XState};

/// What gdb wants the program to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resume {
    Continue,
    Step(u32),
    StepBack(u32),
    ContinueBack,
}

/// The program as gdb sees it.
pub struct Debugger<'a> {
    timeline: Timeline<'a>,
    resume: Resume,
}

impl<'a> Debugger<'a> {
    pub fn new(timeline: Timeline<'a>) -> Self {
        Self {
            timeline,
            resume: Resume::Continue,
        }
    }

    pub fn finish(self) {
        self.timeline.finish();
    }
}

impl Target for Debugger<'_> {
    type Arch = X86_64_SSE;
    type Error = Failure;

    fn base_ops(&mut self) -> BaseOps<'_, Self::Arch, Self::Error> {
        BaseOps::MultiThread(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_auxv(&mut self) -> Option<AuxvOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadBase for Debugger<'_> {
    fn read_registers(&mut self, regs: &mut X86_64CoreRegs, tid: Tid) -> TargetResult<(), Self> {
        let (general, extended) = self
            .timeline
            .session()
            .inspect()
            .registers(tid.get() as u32)
            .map_err(TargetError::Fatal)?;
        *regs = registers(&general, &extended);
        Ok(())
    }

    fn write_registers(&mut self, _: &X86_64CoreRegs, _: Tid) -> TargetResult<(), Self> {
        Err(TargetError::NonFatal)
    }

    fn read_addrs(&mut self, start: u64, data: &mut [u8], _: Tid) -> TargetResult<usize, Self> {
        match self.timeline.session().inspect().read_memory(start, data) {
            Ok(0) | Err(_) => Err(TargetError::NonFatal),
            Ok(got) => Ok(got),
        }
    }

    fn write_addrs(&mut self, _: u64, _: &[u8], _: Tid) -> TargetResult<(), Self> {
        Err(TargetError::NonFatal)
    }

    fn list_active_threads(&mut self, register: &mut dyn FnMut(Tid)) -> Result<(), Self::Error> {
        // gdb takes the first one for the current one when it connects.
        let current = self.timeline.current();
        let mut threads = self.timeline.session().inspect().threads();
        threads.sort_by_key(|&tid| (tid != current, tid));
        threads.into_iter().map(to_gdb).for_each(register);
        Ok(())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadResume for Debugger<'_> {
    fn resume(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    fn clear_resume_actions(&mut self) -> Result<(), Self::Error> {
        self.resume = Resume::Continue;
        Ok(())
    }

    fn set_resume_action_continue(&mut self, _: Tid, _: Option<Signal>) -> Result<(), Self::Error> {
        Ok(())
    }

    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }

    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }

    fn support_reverse_step(&mut self) -> Option<ReverseStepOps<'_, Tid, Self>> {
        Some(self)
    }

    fn support_reverse_cont(&mut self) -> Option<ReverseContOps<'_, Tid, Self>> {
        Some(self)
    }
}

/// gdb locks the others while it steps a thread past a breakpoint, which is in the middle of its transition: no other
/// thread could move anyway. Everywhere else the trace decides.
impl MultiThreadSchedulerLocking for Debugger<'_> {
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

impl MultiThreadSingleStep for Debugger<'_> {
    fn set_resume_action_step(&mut self, tid: Tid, _: Option<Signal>) -> Result<(), Self::Error> {
        self.resume = Resume::Step(tid.get() as u32);
        Ok(())
    }
}

impl ReverseStep<Tid> for Debugger<'_> {
    fn reverse_step(&mut self, tid: Tid) -> Result<(), Self::Error> {
        self.resume = Resume::StepBack(tid.get() as u32);
        Ok(())
    }
}

impl ReverseCont<Tid> for Debugger<'_> {
    fn reverse_cont(&mut self) -> Result<(), Self::Error> {
        self.resume = Resume::ContinueBack;
        Ok(())
    }
}

impl Breakpoints for Debugger<'_> {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Debugger<'_> {
    fn add_sw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        self.timeline.set_breakpoint(address);
        Ok(true)
    }

    fn remove_sw_breakpoint(&mut self, address: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.timeline.clear_breakpoint(address))
    }
}

impl Auxv for Debugger<'_> {
    fn get_auxv(&self, offset: u64, length: usize, buffer: &mut [u8]) -> TargetResult<usize, Self> {
        let auxv = self.timeline.session().inspect().auxv()?;
        let rest = auxv.get(offset as usize..).unwrap_or(&[]);
        let len = rest.len().min(length).min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
}

/// Lets the program go on whenever gdb wants it to.
pub struct Blocking<'a>(PhantomData<&'a ()>);

impl<'a> BlockingEventLoop for Blocking<'a> {
    type Target = Debugger<'a>;
    type Connection = TcpStream;
    type StopReason = MultiThreadStopReason<u64>;

    fn wait_for_stop_reason(
        debugger: &mut Debugger<'a>,
        connection: &mut TcpStream,
    ) -> Result<
        Event<MultiThreadStopReason<u64>>,
        WaitForStopReasonError<Failure, <TcpStream as Connection>::Error>,
    > {
        // A byte that comes meanwhile is the user's Ctrl-C.
        let mut is_wanted = || matches!(connection.peek(), Ok(Some(_)));
        let timeline = &mut debugger.timeline;
        let halt = match debugger.resume {
            Resume::Continue => timeline.run_on(&mut is_wanted),
            Resume::Step(thread) => timeline.step_thread(thread).map(Some),
            Resume::StepBack(thread) => timeline.step_back(thread).map(Some),
            Resume::ContinueBack => timeline.run_back().map(Some),
        };
        match halt.map_err(WaitForStopReasonError::Target)? {
            Some(halt) => Ok(Event::TargetStopped(reason(halt, timeline.current()))),
            None => {
                let byte = ConnectionExt::read(connection).map_err(WaitForStopReasonError::Connection)?;
                Ok(Event::IncomingData(byte))
            }
        }
    }

    fn on_interrupt(debugger: &mut Debugger<'a>) -> Result<Option<MultiThreadStopReason<u64>>, Failure> {
        Ok(Some(MultiThreadStopReason::SignalWithThread {
            tid: to_gdb(debugger.timeline.current()),
            signal: Signal::SIGINT,
        }))
    }
}

fn reason(halt: Halt, current: u32) -> MultiThreadStopReason<u64> {
    let log = |pos| MultiThreadStopReason::ReplayLog {
        tid: Some(to_gdb(current)),
        pos,
    };
    match halt {
        Halt::Breakpoint(thread) => MultiThreadStopReason::SwBreak(to_gdb(thread)),
        Halt::Stepped(thread) => MultiThreadStopReason::SignalWithThread {
            tid: to_gdb(thread),
            signal: Signal::SIGTRAP,
        },
        Halt::Begin => log(ReplayLogPosition::Begin),
        Halt::End => log(ReplayLogPosition::End),
    }
}

/// Thread ids are never 0.
fn to_gdb(tid: u32) -> Tid {
    Tid::new(tid as usize).unwrap_or(Tid::MIN)
}

fn registers(general: &Regs, extended: &XState) -> X86_64CoreRegs {
    const X87: usize = 32;
    const XMM: usize = 160;
    let g = general;
    let mut regs = X86_64CoreRegs {
        regs: [
            g.rax, g.rbx, g.rcx, g.rdx, g.rsi, g.rdi, g.rbp, g.rsp, g.r8, g.r9, g.r10, g.r11, g.r12, g.r13,
            g.r14, g.r15,
        ],
        rip: g.rip,
        eflags: g.eflags as u32,
        mxcsr: extended.mxcsr(),
        ..X86_64CoreRegs::default()
    };
    regs.segments.cs = g.cs as u32;
    regs.segments.ss = g.ss as u32;
    regs.segments.ds = g.ds as u32;
    regs.segments.es = g.es as u32;
    regs.segments.fs = g.fs as u32;
    regs.segments.gs = g.gs as u32;
    let bytes = extended.as_bytes();
    for (register, chunk) in regs.st.iter_mut().zip(bytes[X87..].chunks(16)) {
        register.copy_from_slice(&chunk[..10]);
    }
    for (register, chunk) in regs.xmm.iter_mut().zip(bytes[XMM..].chunks(16)) {
        let mut value = [0; 16];
        value.copy_from_slice(chunk);
        *register = u128::from_le_bytes(value);
    }
    regs
}
