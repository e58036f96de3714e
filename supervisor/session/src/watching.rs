//! What a walk sees beyond the operations before which threads park, and accesses that library functions and the kernel make for the program.
//!
//! A block that is freed where that is watched is not given back to the allocator: so nobody else gets its memory, and whoever touches it again is found out, as
//! by the quarantine of a sanitizer. It is watched in walks, and in a search where the walks have found an access that nothing orders with the call of `free`.
//! `realloc` always moves such a block: that it sometimes stays where it is, is the allocator's affair, and no program may count on it.

use super::context::{HookOp, Moving, Span};
use super::hooked::function_args;
use super::sharing::Sharing;
use super::spaces::Space;
use super::step::Flow;
use super::{Session, TaskMemory};
use crate::code::Installed;
use failure::Failure;
use hooks::Place;
use hooks::{LibraryFn, Preempt, SiteKind, SyncFn};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use symbols::UnwindRegs;
use syscall_model::{Call, Pending, Tid};
use tracee::Regs;

/// Return addresses that are looked at for one in the program's own code.
const DEEP: usize = 12;
/// Return addresses that are kept of a call of `free`.
const KEPT: usize = 16;

/// How a walk watches.
#[derive(Clone, Debug, Default)]
pub struct Walk {
    /// Words on stacks that threads other than their owner were seen to access.
    pub lent: Arc<BTreeSet<u64>>,
}

impl Walk {
    /// One that knows of these words.
    pub fn lending(lent: BTreeSet<u64>) -> Self {
        Self { lent: Arc::new(lent) }
    }
}

/// An access to memory that others may see.
#[derive(Clone, Debug)]
pub struct Watching {
    pub place: Place,
    pub spans: Vec<Span>,
    /// It is on the stack of the thread that makes it.
    pub own_stack: bool,
    /// The memory belongs to nobody after it.
    pub frees: bool,
}

/// Something that happened in a step of a walk after the operation at its beginning.
#[derive(Clone, Debug)]
pub enum Event {
    /// A thread waits for the one with this handle; it has made the call of `pthread_join`.
    Joins { waiter: Tid, handle: u64 },
    /// An access without a parking point.
    Accesses(Watching),
    /// The memory is not what it was: whatever was done to it before is of no interest.
    Renewed(Range<u64>),
}

/// A block that was freed and is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Freed {
    pub range: Range<u64>,
    pub thread: Tid,
    /// What was called.
    pub by: LibraryFn,
    /// Where the call was made, in the program's own code, innermost first.
    pub stack: Arc<Vec<u64>>,
}

/// Freed memory was touched on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misuse {
    pub thread: Tid,
    pub place: Place,
    pub freed: Freed,
}

impl<'a> Sharing<'a> {
    /// The access before which a thread stands.
    pub fn watching(self, tid: Tid) -> Option<Watching> {
        let context = self.threads.get(&tid)?;
        let op = context.hook.as_ref()?;
        let place = match op.kind {
            SiteKind::Memory(_) => Place::Instruction(op.site),
            SiteKind::Library(_) => Place::Call(op.caller),
            _ => return None,
        };
        let stack = self.known_stack(tid, context.regs.rsp);
        Some(Watching {
            place,
            own_stack: op.spans.iter().any(|(span, _)| stack.contains(&span.start)),
            frees: matches!(op.kind, SiteKind::Library(function) if function.frees()),
            spans: op.spans.clone(),
        })
    }

    /// The lock, stream or the like that a thread is about to work on: its memory must be there, whoever else works on it.
    pub fn works_on(self, tid: Tid) -> Option<Watching> {
        let context = self.threads.get(&tid)?;
        let op = context.hook.as_ref()?;
        let sync = op.sync.as_ref()?;
        let is_direct = !self.spaces.is_here(self.model, tid) || self.spaces.here.code.is_own(op.caller);
        let caller = match is_direct {
            true => op.caller,
            false => self.own_caller(&context.regs),
        };
        let spans: Vec<Span> = sync.memory().map(|span| (span, false)).collect();
        (!spans.is_empty()).then_some(Watching {
            place: Place::Call(caller),
            spans,
            own_stack: false,
            frees: false,
        })
    }

    /// The mapping that holds a stack pointer, as of the last look at the mappings.
    pub fn known_stack(self, tid: Tid, sp: u64) -> Range<u64> {
        let maps = self
            .spaces
            .of(self.model, tid)
            .known
            .mappings
            .as_ref()
            .map(|(_, maps)| maps.as_slice());
        let holding = maps
            .unwrap_or_default()
            .iter()
            .find(|map| (map.start..map.end).contains(&sp));
        holding.map(|map| map.start..map.end).unwrap_or_default()
    }

    /// The stack of a thread, with its thread-local memory, if that has a mapping of its own.
    pub fn own_region(self, tid: Tid) -> Option<Range<u64>> {
        let regs = &self.threads.get(&tid)?.regs;
        let region = self.known_stack(tid, regs.rsp);
        region.contains(&regs.fs_base).then_some(region)
    }

    /// Whose stack is at this address in the memory of a thread, if it is that of one which still runs.
    pub fn stack_owner(self, tid: Tid, address: u64) -> Option<Tid> {
        let owns = |rsp: u64| self.known_stack(tid, rsp).contains(&address);
        let space = self.spaces.of(self.model, tid).id;
        let mut contexts = self.threads.iter();
        contexts
            .by_ref()
            .filter(|&(&other, _)| {
                self.spaces.others.is_empty() || self.spaces.of(self.model, other).id == space
            })
            .find(|(_, context)| owns(context.regs.rsp))
            .map(|(tid, _)| *tid)
    }

    /// Where a function that was just entered, or a system call, returns to in the program's own code.
    pub(super) fn own_caller(self, regs: &Regs) -> u64 {
        let addresses = self.return_addresses(regs, DEEP);
        let own = addresses
            .iter()
            .find(|address| self.spaces.here.code.is_own(**address));
        own.or(addresses.first()).copied().unwrap_or(regs.rip)
    }

    fn return_addresses(self, regs: &Regs, most: usize) -> Vec<u64> {
        let Some(task) = &self.spaces.here.task else {
            return Vec::new();
        };
        let regs = UnwindRegs {
            rip: regs.rip,
            rsp: regs.rsp,
            rbp: regs.rbp,
        };
        let mut addresses = self.explain.with_symbols(&self.spaces.here, |symbols| {
            symbols.unwind(regs, |address| task.memory().read_u64(address).ok(), most + 1)
        });
        if !addresses.is_empty() {
            addresses.remove(0);
        }
        addresses
            .into_iter()
            .map(|address| self.spaces.here.code.original_ip(address))
            .collect()
    }

    /// Blocks in the memory of a thread that were freed and are kept.
    pub fn freed(self, tid: Tid) -> &'a [Freed] {
        &self.spaces.of(self.model, tid).freed
    }

    /// A thread about to touch a block that was freed.
    pub fn use_after_free(self) -> Option<(Tid, &'a Freed)> {
        if self.spaces.all().all(|space| space.freed.is_empty()) {
            return None;
        }
        self.threads.iter().find_map(|(&tid, context)| {
            let op = context.hook.as_ref()?;
            Some((tid, freed_by(op, self.freed(tid))?))
        })
    }

    /// What a call has done to a block that is kept.
    pub fn freed_how(self, freed: &Freed) -> &'static str {
        match freed.by {
            LibraryFn::Free => "freed",
            _ => "freed by realloc",
        }
    }

    /// The stack of a call of `free`, for people.
    pub fn freed_stack(self, freed: &Freed) -> Vec<String> {
        let address = |address: &u64| self.explain.place(address.saturating_sub(1));
        freed.stack.iter().map(address).collect()
    }

    /// Where in the program's own code the call that freed a block returns to.
    pub fn freed_site(self, freed: &Freed) -> u64 {
        let own = freed
            .stack
            .iter()
            .find(|address| self.spaces.here.code.is_own(**address));
        own.or(freed.stack.first()).copied().unwrap_or(0)
    }
}

impl Session {
    /// What happened since this was last asked.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.seen.events)
    }

    /// For walks only.
    pub(super) fn happened(&mut self, event: Event) {
        if self.options.walk.is_some() {
            self.seen.events.push(event);
        }
    }

    /// A thread calls a library function that accesses memory for it.
    pub(super) fn on_library_call(
        &mut self,
        tid: Tid,
        site: Installed,
        function: LibraryFn,
        mut regs: Regs,
    ) -> Result<Flow, Failure> {
        if let Some(flow) = self.has_moved(tid, &regs)? {
            return Ok(flow);
        }
        let entry = regs.rip;
        let is_walk = self.options.walk.is_some();
        let caller = self.spaces.task()?.memory().read_u64(regs.rsp).unwrap_or(0);
        let is_inner = self.spaces.here.code.is_libc(caller);
        let is_alone = self.is_without_company() && !is_walk;
        let keeps = is_walk || !self.options.watched.calls.is_empty();
        let is_idle = (is_alone || (is_inner && !keeps)) && self.spaces.here.freed.is_empty();
        let spans = match is_idle {
            true => Vec::new(),
            false => function.spans(
                function_args(&regs),
                regs.rsp + 8,
                &TaskMemory::new(self.spaces.task()?),
            ),
        };
        regs.rip = site.slot;
        if spans.is_empty() {
            return Ok(Flow::Run(regs));
        }
        self.count_stop(tid)?;
        regs.rip = entry;
        if is_alone || is_inner {
            let regs = self.library_calls_itself(tid, function, spans, regs, site.slot)?;
            return Ok(Flow::Run(regs));
        }
        let place = self.sharing().own_caller(&regs);
        let is_wanted =
            self.options.preempt == Preempt::Memory || self.options.watched.calls.contains(&place);
        if !is_wanted || !self.may_be_shared(&spans, &regs, Place::Call(place))? {
            regs.rip = site.slot;
            return Ok(Flow::Run(regs));
        }
        self.model.thread_mut(tid).wait = None;
        self.threads.at(tid).hook = Some(HookOp {
            site: entry,
            caller: place,
            kind: SiteKind::Library(function),
            sync: None,
            object: spans[0].0.start,
            spans,
            loaded: None,
        });
        Ok(self.park(tid, regs, Pending::Hook(entry)))
    }

    /// The C library calls such a function for something that the program has asked for. What it reads may be the program's (a string that is
    /// printed); what it writes is its own as a rule, and guarded by locks of its own.
    fn library_calls_itself(
        &mut self,
        tid: Tid,
        function: LibraryFn,
        spans: Vec<Span>,
        mut regs: Regs,
        slot: u64,
    ) -> Result<Regs, Failure> {
        let place = self.sharing().own_caller(&regs);
        // `fclose` frees the stream that it is given; what else the library frees is its own.
        let block = spans[0].0.start;
        let is_given = self
            .threads
            .at(tid)
            .inside
            .iter()
            .any(|outer| outer.object == block);
        if function == LibraryFn::Free && is_given && self.keeps_blocks_of(place) {
            self.keep(tid, function, spans[0].0.clone(), &regs);
            self.happened(Event::Accesses(Watching {
                place: Place::Call(place),
                spans,
                own_stack: false,
                frees: true,
            }));
            return self.spaces.here.returned(regs, None);
        }
        if function.frees() {
            for (span, _) in spans {
                self.happened(Event::Renewed(span));
            }
        } else {
            let spans: Vec<Span> = spans.into_iter().filter(|(_, writes)| !writes).collect();
            self.accesses_for_program(tid, Place::Call(place), spans, &regs)?;
        }
        regs.rip = slot;
        Ok(regs)
    }

    /// A library function goes on; if it frees what is to be kept it returns at once, or moves it.
    pub(super) fn perform_library_call(
        &mut self,
        tid: Tid,
        op: &HookOp,
        function: LibraryFn,
        mut regs: Regs,
        slot: u64,
    ) -> Result<Regs, Failure> {
        if function.frees() && self.keeps_blocks_of(op.caller) {
            let block = op.spans[0].0.clone();
            return match function.moved_size(function_args(&regs)) {
                Some(size) => self.move_block(tid, function, block, size, regs, slot),
                None => {
                    self.keep(tid, function, block, &regs);
                    self.spaces
                        .here
                        .returned(regs, (function != LibraryFn::Free).then_some(0))
                }
            };
        }
        if function.frees() {
            for (span, _) in &op.spans {
                self.happened(Event::Renewed(span.clone()));
            }
        }
        regs.rip = slot;
        Ok(regs)
    }

    /// Is what is freed there, in the program's own code, not given back to the allocator?
    fn keeps_blocks_of(&self, caller: u64) -> bool {
        self.options.walk.is_some() || self.options.watched.calls.contains(&caller)
    }

    fn freed_here(&self, tid: Tid, by: LibraryFn, range: Range<u64>, regs: &Regs) -> Freed {
        Freed {
            range,
            thread: tid,
            by,
            stack: Arc::new(self.sharing().return_addresses(regs, KEPT)),
        }
    }

    fn keep(&mut self, tid: Tid, by: LibraryFn, range: Range<u64>, regs: &Regs) {
        let freed = self.freed_here(tid, by, range, regs);
        self.spaces.here.freed.push(freed);
    }

    /// `realloc` of a block that is to be kept: the allocator is asked for a new one first. It returns to the entry at which the thread stands, where it
    /// is expected.
    fn move_block(
        &mut self,
        tid: Tid,
        function: LibraryFn,
        block: Range<u64>,
        size: u64,
        mut regs: Regs,
        slot: u64,
    ) -> Result<Regs, Failure> {
        /// So that the stack is as functions find it.
        const ALIGNED: u64 = 16;
        let freed = self.freed_here(tid, function, block.clone(), &regs);
        self.threads.at(tid).moves = Some(Moving {
            sp: regs.rsp,
            kept: block.start..block.end.min(block.start.saturating_add(size)),
            freed,
        });
        let entry = regs.rip;
        regs.rsp = regs.rsp.wrapping_sub(ALIGNED);
        self.spaces
            .task()?
            .memory()
            .write(regs.rsp, &entry.to_le_bytes())?;
        regs.rdi = 0;
        regs.rip = slot;
        Ok(regs)
    }

    /// The allocator has found a new place for a block, or none.
    fn has_moved(&mut self, tid: Tid, regs: &Regs) -> Result<Option<Flow>, Failure> {
        let is_expected = |moving: &Moving| regs.rsp == moving.sp.wrapping_sub(8);
        if !self.threads.at(tid).moves.as_ref().is_some_and(is_expected) {
            return Ok(None);
        }
        let Some(moving) = self.threads.at(tid).moves.take() else {
            return Ok(None);
        };
        if regs.rax != 0 {
            let mut bytes = vec![0; (moving.kept.end - moving.kept.start) as usize];
            let memory = self.spaces.task()?.memory();
            memory.read(moving.kept.start, &mut bytes)?;
            memory.write(regs.rax, &bytes)?;
            self.spaces.here.freed.push(moving.freed);
        }
        let back = Regs {
            rsp: moving.sp,
            ..*regs
        };
        Ok(Some(Flow::Run(self.spaces.here.returned(back, None)?)))
    }

    /// Where a function that is about to read from a stream puts that, if anybody asks: such a function is a parking point for its stream, and what it fills matters where others look at it.
    pub(super) fn filled_from_stream(&mut self, function: SyncFn, regs: &Regs) -> Result<Vec<Span>, Failure> {
        let is_everything = self.options.preempt == Preempt::Memory;
        if !is_everything && self.options.watched.calls.is_empty() {
            return Ok(Vec::new());
        }
        let spans = hooks::filled(
            function,
            function_args(regs),
            regs.rsp + 8,
            &TaskMemory::new(self.spaces.task()?),
        );
        if spans.is_empty() {
            return Ok(spans);
        }
        let place = self.sharing().own_caller(regs);
        let is_wanted = is_everything || self.options.watched.calls.contains(&place);
        Ok(
            match is_wanted && self.may_be_shared(&spans, regs, Place::Call(place))? {
                true => spans,
                false => Vec::new(),
            },
        )
    }

    /// A function that reads from a stream is called: what it fills is an access of the program's.
    pub(super) fn fills(&mut self, tid: Tid, op: &HookOp, regs: &Regs) -> Result<(), Failure> {
        if matches!(op.kind, SiteKind::Sync(_)) && !op.spans.is_empty() {
            let place = Place::Call(self.sharing().own_caller(regs));
            self.accesses_for_program(tid, place, op.spans.clone(), regs)?;
        }
        Ok(())
    }

    /// The buffers that the kernel has read or filled for a call.
    pub(super) fn call_accesses(
        &mut self,
        tid: Tid,
        call: &Call,
        result: i64,
        regs: &Regs,
    ) -> Result<(), Failure> {
        // Whatever is done before there is a second thread comes before all that one does.
        let is_walk = self.options.walk.is_some() && self.spaces.here.code.is_armed();
        let is_idle = !is_walk && self.spaces.here.freed.is_empty();
        if is_idle || call.sysno.id() == syscall_model::Sysno::futex.id() {
            return Ok(());
        }
        let buffers = {
            let memory = TaskMemory::new(self.spaces.task()?);
            syscall_model::table::buffers(call, result, &memory)
        };
        let mut spans: Vec<Span> = buffers.into_iter().filter(|(span, _)| !span.is_empty()).collect();
        if !spans.is_empty() && self.is_libc_buffer(regs)? {
            spans.clear();
        }
        spans.extend(syscall_model::fs::shared::spans_of_call(
            &self.model,
            call,
            result,
        ));
        if spans.is_empty() {
            return Ok(());
        }
        let place = Place::Kernel(self.sharing().own_caller(regs));
        self.accesses_for_program(tid, place, spans, regs)
    }

    /// A library or the kernel has accessed memory on behalf of the program.
    fn accesses_for_program(
        &mut self,
        tid: Tid,
        place: Place,
        spans: Vec<Span>,
        regs: &Regs,
    ) -> Result<(), Failure> {
        let touched: Vec<Range<u64>> = spans.iter().map(|(span, _)| span.clone()).collect();
        self.touches_freed(tid, place, &touched);
        if self.options.walk.is_some() && self.may_be_shared(&spans, regs, place)? {
            self.happened(Event::Accesses(Watching {
                place,
                spans,
                own_stack: false,
                frees: false,
            }));
        }
        Ok(())
    }

    /// Is the call made by the C library from within something larger, such as the flushing of a stream? Its buffers are its own then. The wrappers of
    /// system calls are called by the program itself.
    fn is_libc_buffer(&mut self, regs: &Regs) -> Result<bool, Failure> {
        let outer = self.sharing().return_addresses(regs, 2);
        Ok(outer
            .first()
            .is_some_and(|caller| self.spaces.here.code.is_libc(*caller)))
    }

    /// Remembers that freed memory is touched where nobody parks.
    pub(super) fn touches_freed(&mut self, tid: Tid, place: Place, spans: &[Range<u64>]) {
        let is_in = |freed: &Freed| {
            let meets = |span: &Range<u64>| span.start < freed.range.end && freed.range.start < span.end;
            spans.iter().any(meets)
        };
        let freed = self.spaces.here.freed.iter().find(|freed| is_in(freed));
        if let (Some(freed), None) = (freed, &self.ends.misuse) {
            self.ends.misuse = Some(Misuse {
                thread: tid,
                place,
                freed: freed.clone(),
            });
        }
    }

    /// Freed memory that was touched without a parking point before.
    pub fn misuse(&self) -> Option<&Misuse> {
        self.ends.misuse.as_ref()
    }
}

impl Space {
    /// A function at whose entry the thread stands has returned, with this result if it has one.
    fn returned(&mut self, mut regs: Regs, result: Option<u64>) -> Result<Regs, Failure> {
        regs.rax = result.unwrap_or(regs.rax);
        regs.rip = self.task()?.memory().read_u64(regs.rsp)?;
        regs.rsp += 8;
        Ok(regs)
    }
}

/// The freed block that an operation touches.
fn freed_by<'a>(op: &HookOp, freed: &'a [Freed]) -> Option<&'a Freed> {
    let touched = op.touched();
    freed.iter().find(|freed| {
        let is_in = |span: &Range<u64>| span.start < freed.range.end && freed.range.start < span.end;
        touched.iter().any(is_in)
    })
}
