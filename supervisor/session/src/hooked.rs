//! Parking points that never reach the kernel: a thread hits an `int3` that [`Code`](crate::code::Code) put there.

use super::context::{HookOp, Inside};
use super::emulate::{emulate_core, set_low};
use super::memory::expect;
use super::spaces::Space;
use super::step::Flow;
use super::{Context, Event, Session, TaskMemory};
use crate::code::Installed;
use crate::registers::gp_regs;
use failure::Failure;
use hooks::Place;
use hooks::{RandomInsn, SiteKind, SyncFn, SyncOp};
use syscall_model::signals::SigInfo;
use syscall_model::{GuestMemoryExt, OnSignal, Pending, Tid, Wait};
use trace::Operation;
use tracee::Regs;

/// Those that instructions set: carry, parity, adjust, zero, sign, overflow.
const ARITHMETIC_FLAGS: u64 = 0x8d5;

/// So many operations of a thread that is alone are one step. More may be a loop without end, and the search looks at its limits between two steps.
const ALONE: u32 = 1_000;
/// The same for a thread that has made many such steps: more likely than not it has no end, and if its state recurs that shows best in small ones. (The start of
/// haproxy has 50 000 operations.)
const ALONE_FOR_LONG: u32 = 1;
const LONG: u32 = 100;

impl Session {
    /// The thread executed an `int3`: one of our hooks, or its own.
    pub(super) fn on_breakpoint(&mut self, tid: Tid) -> Result<Flow, Failure> {
        let mut regs = *self.spaces.task()?.regs()?;
        let address = regs.rip - 1;
        if let Some(flow) = self.on_user_breakpoint(tid, address, &regs) {
            return Ok(flow);
        }
        let Some(site) = self.spaces.here.code.site(address) else {
            return self.fault(tid, SigInfo::kernel(libc::SIGTRAP), regs);
        };
        regs.rip = address;
        let through = Regs {
            rip: site.slot,
            ..regs
        };
        match site.kind {
            SiteKind::Random(instruction) => {
                let after = self.emulate_random(regs, instruction, site.len);
                Ok(self.after_invisible(tid, after))
            }
            SiteKind::Core(instruction) => Ok(match emulate_core(regs, instruction, site.len) {
                Some(after) => self.after_invisible(tid, after),
                None => Flow::Run(through),
            }),
            SiteKind::Join => {
                self.joins(tid, regs.rdi);
                Ok(Flow::Run(through))
            }
            SiteKind::Library(function) => self.on_library_call(tid, site, function, regs),
            SiteKind::Pause if self.goes_round(&regs)? => Ok(Flow::Run(through)),
            _ => self.park_or_pass(tid, site, regs),
        }
    }

    /// A thread calls `pthread_join`. Whether the other one has ended already shows in nothing else.
    fn joins(&mut self, tid: Tid, joined: u64) {
        let handle = self.model.memory_name(tid, joined);
        self.happened(Event::Joins { waiter: tid, handle });
        let is_there = |(&other, context): (&Tid, &Context)| {
            context.regs.fs_base == joined && self.spaces.is_here(&self.model, other)
        };
        if !self.threads.iter().any(is_there) {
            self.transit.joined.push(handle);
        }
    }

    /// A thread stands at an operation that others may see: it parks there, unless they cannot.
    fn park_or_pass(&mut self, tid: Tid, site: Installed, mut regs: Regs) -> Result<Flow, Failure> {
        let address = regs.rip;
        let is_function = matches!(site.kind, SiteKind::Sync(_));
        if let SiteKind::Sync(function) = site.kind {
            // Elsewhere a function of that name may be another one.
            let arity = function
                .arity()
                .filter(|_| self.spaces.here.code.is_libc(address));
            forget_scratch(&mut regs, arity);
        }
        let through = Regs {
            rip: site.slot,
            ..regs
        };
        if is_function && !self.is_on_alternate_stack(tid, regs.rsp) {
            // Called from the same frame as an earlier one, so that one has returned.
            let inside = &mut self.threads.at(tid).inside;
            inside.retain(|function| function.sp > regs.rsp);
        }
        let is_alone = self.is_without_company() && !matches!(site.kind, SiteKind::Pause);
        if is_alone && self.may_pass_alone(tid) {
            self.pass_alone(tid, site.kind, &regs)?;
            return Ok(Flow::Run(through));
        }
        if is_function {
            self.expect_locks(&regs)?;
        }
        if matches!(site.kind, SiteKind::Sync(function) if function != SyncFn::Exit)
            && self.spaces.here.is_called_by_libc(&regs)?
        {
            return Ok(Flow::Run(through));
        }
        let op = self.decode(address, site.kind, &regs)?;
        if matches!(site.kind, SiteKind::Memory(_))
            && (!self.may_be_shared(&op.spans, &regs, Place::Instruction(address))?
                || self.finds_the_same(tid, &op)?)
        {
            self.count_stop(tid)?;
            return Ok(Flow::Run(through));
        }
        self.model.thread_mut(tid).wait = self.timeout_of(op.sync.as_ref())?;
        let context = self.threads.at(tid);
        context.loops.long_alone = context.loops.long_alone.saturating_add(is_alone.into());
        context.hook = Some(op);
        Ok(self.park(tid, regs, Pending::Hook(address)))
    }

    /// Is one more operation of a thread that is alone part of the same step? A walk that looks for shared memory wants to see what a thread does after the
    /// others have ended, too: its accesses, and what orders them.
    fn may_pass_alone(&mut self, tid: Tid) -> bool {
        let most = match self.threads.at(tid).loops.long_alone >= LONG {
            true => ALONE_FOR_LONG,
            false => ALONE,
        };
        self.options.walk.is_none() && self.transit.alone < most
    }

    /// Nobody else is there to notice; a lock that it holds itself is found in the kernel's way.
    fn pass_alone(&mut self, tid: Tid, kind: SiteKind, regs: &Regs) -> Result<(), Failure> {
        self.transit.alone += 1;
        let is_function = matches!(kind, SiteKind::Sync(_));
        if is_function && !self.spaces.here.is_called_by_libc(regs)? {
            let op = self.decode(regs.rip, kind, regs)?;
            self.enter_function(tid, &op, regs.rsp);
        }
        if !self.spaces.here.freed.is_empty() {
            let op = self.decode(regs.rip, kind, regs)?;
            let place = match is_function {
                true => Place::Call(self.sharing().own_caller(regs)),
                false => Place::Instruction(regs.rip),
            };
            self.touches_freed(tid, place, &op.touched());
        }
        Ok(())
    }

    /// A thread is about to park before a function on a lock: who called it will be asked, then this lock, and those before which others stand.
    fn expect_locks(&mut self, regs: &Regs) -> Result<(), Failure> {
        let task = self.spaces.here.task.as_ref().ok_or_else(crate::spaces::gone)?;
        let here = self
            .threads
            .iter()
            .filter(|&(&tid, _)| self.spaces.is_here(&self.model, tid));
        let hooks = here.filter_map(|(_, context)| context.hook.as_ref());
        let locks = hooks.filter_map(|op| op.sync.as_ref()).map(|op| op.object);
        let words = [regs.rsp].into_iter().chain(self.spaces.here.code.thread_count());
        expect(task, locks.chain([regs.rdi]), words);
        Ok(())
    }

    fn decode(&mut self, site: u64, kind: SiteKind, regs: &Regs) -> Result<HookOp, Failure> {
        let caller = match kind {
            SiteKind::Sync(_) => self.spaces.here.caller(regs)?.unwrap_or(0),
            _ => 0,
        };
        let filled = match kind {
            SiteKind::Sync(function) => self.filled_from_stream(function, regs)?,
            _ => Vec::new(),
        };
        let streams = self.spaces.here.code.streams();
        let memory = TaskMemory::new(self.spaces.task()?);
        let sync = match kind {
            SiteKind::Sync(function) => Some(hooks::sync_op(function, function_args(regs), streams, &memory)),
            _ => None,
        };
        let object = match kind {
            SiteKind::Atomic(access) => access.effective_address(&gp_regs(regs)),
            SiteKind::Memory(accesses) => accesses
                .iter()
                .next()
                .map_or(0, |access| access.effective_address(&gp_regs(regs))),
            _ => sync.as_ref().map_or(0, |op| op.object),
        };
        let spans = match kind {
            SiteKind::Memory(accesses) => {
                let values = gp_regs(regs);
                accesses
                    .iter()
                    .map(|access| (access.span(&values), access.writes))
                    .collect()
            }
            _ => filled,
        };
        Ok(HookOp {
            site,
            caller,
            kind,
            sync,
            object,
            spans,
            loaded: None,
        })
    }

    /// A timed lock is able to run, and fails, when its time has come.
    fn timeout_of(&mut self, op: Option<&SyncOp>) -> Result<Option<Wait>, Failure> {
        let Some(timeout) = op.filter(|op| op.mutex.is_none()).and_then(|op| op.timeout) else {
            return Ok(None);
        };
        let moment = TaskMemory::new(self.spaces.task()?).read_timespec(timeout.address);
        let clock = &self.model.clock;
        Ok(moment.ok().map(|moment| {
            let deadline = if timeout.clock as i32 == libc::CLOCK_REALTIME {
                clock.monotonic_of_realtime(moment)
            } else {
                moment
            };
            Wait::sleep(Some(deadline), OnSignal::Restart)
        }))
    }

    /// The thread goes through its hook: it executes the displaced instruction and jumps back behind it.
    pub(super) fn perform_hook(&mut self, tid: Tid, mut regs: Regs) -> Result<(Operation, Flow), Failure> {
        self.model.end_wait(tid);
        let Some(op) = self.threads.at(tid).hook.take() else {
            return Err(Failure::internal(format!(
                "thread {tid} stands before a hook that nobody set"
            )));
        };
        let Some(site) = self.spaces.here.code.site(op.site) else {
            return Err(Failure::unsupported(format!(
                "the code at {:#x} was unmapped under thread {tid}",
                op.site
            )));
        };
        match op.is_pause() {
            true => self.begins_round(tid, &regs)?,
            false => self.looks_or_acts(tid, &op)?,
        }
        self.transit.loads = op.only_loads();
        if op.is_before_load() && self.options.walk.is_none() && !self.is_without_company() {
            return self.perform_load(tid, op);
        }
        self.spaces.here.put_back_loaded(&op)?;
        self.fills(tid, &op, &regs)?;
        self.enter_function(tid, &op, regs.rsp);
        regs = match op.kind {
            SiteKind::Library(function) => self.perform_library_call(tid, &op, function, regs, site.slot)?,
            _ => Regs {
                rip: site.slot,
                ..regs
            },
        };
        Ok((
            Operation::Sync {
                name: op.name().into(),
                object: op.object,
            },
            Flow::Run(regs),
        ))
    }

    /// The first half of an instruction like `add [counter], 1`. The processor loads, adds and stores, and other threads may store in between.
    fn perform_load(&mut self, tid: Tid, mut op: HookOp) -> Result<(Operation, Flow), Failure> {
        let (span, _) = op.spans[0].clone();
        let mut bytes = [0; 8];
        let len = ((span.end - span.start) as usize).min(bytes.len());
        // Memory that cannot be read makes the instruction fault when it is executed.
        let _ = self.spaces.task()?.memory().read(span.start, &mut bytes[..len]);
        op.loaded = Some(bytes);
        let operation = Operation::Sync {
            name: "load".into(),
            object: op.object,
        };
        self.threads.at(tid).hook = Some(op);
        Ok((operation, Flow::Parked))
    }

    fn enter_function(&mut self, tid: Tid, op: &HookOp, sp: u64) {
        if let Some(sync) = &op.sync {
            self.threads.at(tid).inside.push(Inside {
                sp,
                object: op.object,
                mutex: sync.mutex,
                caller: op.caller,
            });
        }
    }

    /// `rdrand` and `rdseed` draw from the model's stream and always succeed.
    fn emulate_random(&mut self, mut regs: Regs, instruction: RandomInsn, len: u8) -> Regs {
        const CARRY: u64 = 1;
        let mut bytes = [0; 8];
        self.model.random.fill(&mut bytes);
        let value = u64::from_le_bytes(bytes);
        let register = crate::registers::register_mut(&mut regs, instruction.dest);
        if let Some(register) = register {
            set_low(register, value, instruction.width);
        }
        regs.eflags = (regs.eflags & !ARITHMETIC_FLAGS) | CARRY;
        regs.rip += u64::from(len);
        regs
    }
}

impl Space {
    /// The C library's own locks are held across nothing that others can see; should one be found taken all the
    /// same, the futex behind it decides. Parking at them would only multiply the schedules.
    fn is_called_by_libc(&mut self, regs: &Regs) -> Result<bool, Failure> {
        let caller = self.caller(regs)?;
        Ok(caller.is_some_and(|address| self.code.is_libc(address)))
    }

    /// Where a function returns to, at whose entry the task stands.
    fn caller(&mut self, regs: &Regs) -> Result<Option<u64>, Failure> {
        Ok(self.task()?.memory().read_u64(regs.rsp).ok())
    }

    /// The second half: it computes with what it has loaded, whatever is in memory now.
    fn put_back_loaded(&mut self, op: &HookOp) -> Result<(), Failure> {
        let Some(bytes) = op.loaded else { return Ok(()) };
        let (span, _) = &op.spans[0];
        let len = ((span.end - span.start) as usize).min(bytes.len());
        let memory = self.task()?.memory();
        let mut present = [0; 8];
        if memory.read(span.start, &mut present[..len]).is_ok() && present != bytes {
            // Where it cannot be written the instruction faults.
            let _ = memory.write(span.start, &bytes[..len]);
        }
        Ok(())
    }
}

/// What is in registers that hold nothing at the entry of a function depends on whether the dynamic linker had to find it first, so on who called it
/// first; on whether it passes here at all, so on whether it is alone; and on what the thread did long ago. `arity`: how many arguments there are, where that is known.
fn forget_scratch(regs: &mut Regs, arity: Option<usize>) {
    (regs.r10, regs.r11) = (0, 0);
    regs.eflags &= !ARITHMETIC_FLAGS;
    let Some(arity) = arity else { return };
    // Functions with any number of arguments are told in it how many vector registers they find.
    regs.rax = 0;
    let arguments = [
        &mut regs.rdi,
        &mut regs.rsi,
        &mut regs.rdx,
        &mut regs.rcx,
        &mut regs.r8,
        &mut regs.r9,
    ];
    arguments
        .into_iter()
        .skip(arity)
        .for_each(|register| *register = 0);
}

/// Arguments of a C function, as opposed to those of a system call.
pub(super) fn function_args(regs: &Regs) -> [u64; 6] {
    [regs.rdi, regs.rsi, regs.rdx, regs.rcx, regs.r8, regs.r9]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_stay_and_what_lies_behind_them_is_forgotten() {
        let full = Regs {
            rax: 1,
            rdi: 2,
            rsi: 3,
            rdx: 4,
            rcx: 5,
            r8: 6,
            r9: 7,
            r10: 8,
            rbx: 9,
            ..Regs::default()
        };
        let mut wait = full;
        forget_scratch(&mut wait, SyncFn::CondWait.arity());
        assert_eq!(function_args(&wait), [2, 3, 0, 0, 0, 0]);
        assert_eq!((wait.rax, wait.r10, wait.rbx), (0, 0, 9));
        let mut print = full;
        forget_scratch(&mut print, SyncFn::Printf.arity());
        assert_eq!((function_args(&print), print.rax), (function_args(&full), 1));
    }
}
