//! A toy system: small multi-threaded programs, interpreted; and a naive recursive enumerator of their schedules, which shares nothing with the
//! engine and is the reference for it.

#![allow(dead_code)] // Each test file uses another part.

pub mod searches;

use explore::{Candidate, Choice, Footprint, Menu, Report, StepReport, System};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// cell = value
    Set(u8, u8),
    /// register = cell
    Load(u8),
    /// cell = register + value
    Store(u8, u8),
    Lock(u8),
    Unlock(u8),
    /// register = whether it was free
    TryLock(u8),
    /// condition variable, lock
    Wait(u8, u8),
    Signal(u8),
    Broadcast(u8),
    Send(u8, u8),
    /// register = message
    Recv(u8),
    /// appends the register to the output
    Print,
    /// register = one of 0..n
    Choose(u8),
    /// the cell has this value, or the process crashes; only announced as a read
    Assert(u8, u8),
    /// tries again until the cell has this value
    Spin(u8, u8),
    Spawn(u8),
    Join(u8),
    /// ends the process
    Exit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Phase {
    Unborn,
    Ready,
    /// Waits for a signal, then for the lock.
    Waiting,
    Signalled,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Wrong {
    Deadlock(Vec<usize>),
    Assertion {
        thread: u32,
        pc: usize,
    },
    /// An unlock of a lock that the thread does not hold. The path goes on.
    Unowned {
        thread: u32,
        pc: usize,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Outcome {
    pub output: Vec<u8>,
    pub cells: Vec<u8>,
    pub registers: Vec<u8>,
    pub pcs: Vec<usize>,
}

#[derive(Clone, Debug, Hash)]
struct State {
    pcs: Vec<usize>,
    phases: Vec<Phase>,
    registers: Vec<u8>,
    cells: Vec<u8>,
    owners: Vec<Option<u32>>,
    channels: Vec<VecDeque<u8>>,
    output: Vec<u8>,
    ended: bool,
}

#[derive(Clone)]
pub struct Program {
    pub threads: Vec<Vec<Op>>,
    /// Steps are announced as reads and writes of the objects, or coarsely as global.
    pub coarse: bool,
    state: State,
    last: Option<u32>,
    yielded: bool,
    /// All choices ever stepped, for tests of the visit order.
    pub log: Vec<Choice>,
    pub resets: usize,
    /// Fails when this many steps were made.
    pub fails_after: Option<usize>,
    pub panics: bool,
    pub can_mark: bool,
    /// Every so many returns to a mark are not possible, and then neither is one to any mark that was there.
    pub loses_marks: Option<usize>,
    rewinds: usize,
    generation: usize,
    pub live: usize,
}

pub type Mark = Box<(State2, Option<u32>, bool, usize)>;
/// Opaque to tests.
#[derive(Clone, Debug)]
pub struct State2(State);

const OBJECTS: usize = 10;

/// Equal operations stand at the same place, whoever performs them.
fn place(op: Op) -> u64 {
    let mut hasher = DefaultHasher::new();
    op.hash(&mut hasher);
    hasher.finish()
}

impl Program {
    pub fn new(threads: Vec<Vec<Op>>) -> Self {
        let state = initial(&threads);
        Self {
            threads,
            coarse: false,
            state,
            last: None,
            yielded: false,
            log: Vec::new(),
            resets: 0,
            fails_after: None,
            panics: false,
            can_mark: true,
            loses_marks: None,
            rewinds: 0,
            generation: 0,
            live: 0,
        }
    }

    fn op(&self, thread: usize) -> Option<Op> {
        self.threads[thread].get(self.state.pcs[thread]).copied()
    }

    fn owns(&self, thread: usize, lock: u8) -> bool {
        self.state.owners[lock as usize] == Some(thread as u32)
    }

    fn footprint(&self, thread: usize, op: Op) -> Footprint {
        let (cell, lock, cond, channel) = (
            |c: u8| 100 + u64::from(c),
            |l: u8| 200 + u64::from(l),
            |c: u8| 300 + u64::from(c),
            |c: u8| 400 + u64::from(c),
        );
        let (start, end) = (|t: u64| 500 + t, |t: u64| 600 + t);
        let footprint = match op {
            Op::Set(c, _) | Op::Store(c, _) => Footprint::write(cell(c)),
            Op::Load(c) | Op::Assert(c, _) | Op::Spin(c, _) => Footprint::read(cell(c)),
            Op::Lock(l) => Footprint::local().acquiring(lock(l)),
            Op::Unlock(l) if self.owns(thread, l) => Footprint::local().releasing(lock(l)),
            Op::Unlock(l) | Op::TryLock(l) => Footprint::write(lock(l)),
            Op::Wait(c, l) if self.state.phases[thread] == Phase::Ready => {
                let footprint = Footprint::write(cond(c));
                match self.owns(thread, l) {
                    true => footprint.releasing(lock(l)),
                    false => footprint.and_write(lock(l)),
                }
            }
            Op::Wait(c, l) => Footprint::read(cond(c)).acquiring(lock(l)),
            Op::Signal(c) | Op::Broadcast(c) => Footprint::write(cond(c)),
            Op::Send(c, _) | Op::Recv(c) => Footprint::write(channel(c)),
            Op::Print => Footprint::write(1),
            Op::Choose(_) => Footprint::local(),
            Op::Spawn(t) => Footprint::write(start(t.into())),
            Op::Join(t) => Footprint::local().awaiting(end(t.into())),
            Op::Exit => Footprint::ending(),
        };
        let last = self.state.pcs[thread] + 1 == self.threads[thread].len();
        let footprint = if last {
            footprint.releasing(end(thread as u64))
        } else {
            footprint
        };
        if self.coarse {
            footprint.and_global()
        } else {
            footprint
        }
    }

    /// How many alternatives the pending operation has now.
    fn alternatives(&self, thread: usize, op: Op) -> u32 {
        match op {
            Op::Lock(l) => u32::from(self.state.owners[l as usize].is_none()),
            Op::Wait(_, l) => match self.state.phases[thread] {
                Phase::Ready => 1,
                Phase::Signalled => u32::from(self.state.owners[l as usize].is_none()),
                _ => 0,
            },
            Op::Signal(c) => (self.waiters(c).len() as u32).max(1),
            Op::Recv(c) => u32::from(!self.state.channels[c as usize].is_empty()),
            Op::Choose(n) => u32::from(n),
            Op::Join(t) => u32::from(self.op(t as usize).is_none()),
            _ => 1,
        }
    }

    fn waiters(&self, cond: u8) -> Vec<usize> {
        let waits = |&t: &usize| {
            self.state.phases[t] == Phase::Waiting && matches!(self.op(t), Some(Op::Wait(c, _)) if c == cond)
        };
        (0..self.threads.len()).filter(waits).collect()
    }

    fn menu(&self) -> Menu {
        let mut menu = Menu::default();
        if self.state.ended {
            return menu;
        }
        for thread in 0..self.threads.len() {
            let Some(op) = self
                .op(thread)
                .filter(|_| self.state.phases[thread] != Phase::Unborn)
            else {
                continue;
            };
            let footprint = self.footprint(thread, op);
            let alternatives = self.alternatives(thread, op);
            let candidate = |alternative| {
                Candidate::new(
                    Choice {
                        thread: thread as u32,
                        alternative,
                    },
                    footprint.clone(),
                )
                .placed(place(op))
            };
            menu.choices.extend((0..alternatives).map(candidate));
            if alternatives == 0 {
                menu.blocked.push(candidate(0));
            }
        }
        menu.running = self.last.filter(|&t| !self.yielded && menu.offers(t));
        menu
    }

    fn perform(&mut self, choice: Choice) -> Report<Self> {
        let thread = choice.thread as usize;
        let op = self.op(thread).expect("an enabled thread has an operation");
        let pc = self.state.pcs[thread];
        let mut wrong = Vec::new();
        let mut advance = true;
        let state = &mut self.state;
        match op {
            Op::Set(c, v) => state.cells[c as usize] = v,
            Op::Load(c) => state.registers[thread] = state.cells[c as usize],
            Op::Store(c, v) => state.cells[c as usize] = state.registers[thread].wrapping_add(v),
            Op::Lock(l) => state.owners[l as usize] = Some(choice.thread),
            Op::Unlock(l) if state.owners[l as usize] == Some(choice.thread) => {
                state.owners[l as usize] = None
            }
            Op::Unlock(_) => wrong.push(Wrong::Unowned {
                thread: choice.thread,
                pc,
            }),
            Op::TryLock(l) => {
                state.registers[thread] = state.owners[l as usize].is_none().into();
                state.owners[l as usize].get_or_insert(choice.thread);
            }
            Op::Wait(_, l) if state.phases[thread] == Phase::Ready => {
                if state.owners[l as usize] == Some(choice.thread) {
                    state.owners[l as usize] = None;
                }
                state.phases[thread] = Phase::Waiting;
                advance = false;
            }
            Op::Wait(_, l) => {
                state.owners[l as usize] = Some(choice.thread);
                state.phases[thread] = Phase::Ready;
            }
            Op::Signal(c) => {
                if let Some(&woken) = self.waiters(c).get(choice.alternative as usize) {
                    self.state.phases[woken] = Phase::Signalled;
                }
            }
            Op::Broadcast(c) => {
                for woken in self.waiters(c) {
                    self.state.phases[woken] = Phase::Signalled;
                }
            }
            Op::Send(c, v) => state.channels[c as usize].push_back(v),
            Op::Recv(c) => state.registers[thread] = state.channels[c as usize].pop_front().expect("enabled"),
            Op::Print => state.output.push(state.registers[thread]),
            Op::Choose(_) => state.registers[thread] = choice.alternative as u8,
            Op::Assert(c, v) => {
                if state.cells[c as usize] != v {
                    wrong.push(Wrong::Assertion {
                        thread: choice.thread,
                        pc,
                    });
                    state.ended = true;
                }
            }
            Op::Spin(c, v) => advance = state.cells[c as usize] == v,
            Op::Spawn(t) if state.phases[t as usize] == Phase::Unborn => {
                state.phases[t as usize] = Phase::Ready
            }
            Op::Spawn(_) => {}
            Op::Join(_) => {}
            Op::Exit => state.ended = true,
        }
        self.yielded = matches!(op, Op::Spin(..)) && !advance;
        self.state.pcs[thread] += usize::from(advance);
        self.last = Some(choice.thread);
        let mut report = StepReport::running();
        let stuck = !self.state.ended && self.menu().choices.is_empty();
        if stuck
            && (0..self.threads.len()).any(|t| self.op(t).is_some() && self.state.phases[t] != Phase::Unborn)
        {
            wrong.push(Wrong::Deadlock(self.state.pcs.clone()));
        }
        if stuck || self.state.ended {
            let State {
                output,
                cells,
                registers,
                pcs,
                ..
            } = self.state.clone();
            report = StepReport::ended(Outcome {
                output,
                cells,
                registers,
                pcs,
            });
        }
        report.violations = wrong;
        report
    }
}

fn initial(threads: &[Vec<Op>]) -> State {
    let spawned: BTreeSet<u8> = threads
        .iter()
        .flatten()
        .filter_map(|op| if let Op::Spawn(t) = op { Some(*t) } else { None })
        .collect();
    let phase = |t: usize| {
        if spawned.contains(&(t as u8)) {
            Phase::Unborn
        } else {
            Phase::Ready
        }
    };
    State {
        pcs: vec![0; threads.len()],
        phases: (0..threads.len()).map(phase).collect(),
        registers: vec![0; threads.len()],
        cells: vec![0; OBJECTS],
        owners: vec![None; OBJECTS],
        channels: vec![VecDeque::new(); OBJECTS],
        output: Vec::new(),
        ended: false,
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:?}{}",
            self.threads,
            if self.coarse { " (coarse)" } else { "" }
        )
    }
}

impl System for Program {
    type Mark = Mark;
    type Outcome = Outcome;
    type Violation = Wrong;
    type Error = String;

    fn reset(&mut self) -> Result<(), String> {
        self.resets += 1;
        self.state = initial(&self.threads);
        (self.last, self.yielded) = (None, false);
        Ok(())
    }

    fn enabled(&mut self) -> Result<Menu, String> {
        Ok(self.menu())
    }

    fn step(&mut self, choice: Choice) -> Result<Report<Self>, String> {
        if self.menu().position(choice).is_none() {
            return Err(format!("{choice:?} is not enabled"));
        }
        if self.fails_after.is_some_and(|n| self.log.len() >= n) {
            assert!(!self.panics, "told to panic");
            return Err("told to fail".to_owned());
        }
        self.log.push(choice);
        Ok(self.perform(choice))
    }

    fn state_id(&mut self) -> Result<u128, String> {
        let half = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            (salt, &self.state).hash(&mut hasher);
            u128::from(hasher.finish())
        };
        Ok(half(0) << 64 | half(1))
    }

    fn mark(&mut self) -> Result<Option<Mark>, String> {
        self.live += usize::from(self.can_mark);
        Ok(self.can_mark.then(|| {
            Box::new((
                State2(self.state.clone()),
                self.last,
                self.yielded,
                self.generation,
            ))
        }))
    }

    fn rewind(&mut self, mark: &Mark) -> Result<bool, String> {
        self.rewinds += 1;
        if self.loses_marks.is_some_and(|n| self.rewinds.is_multiple_of(n)) {
            self.generation += 1;
        }
        if mark.3 != self.generation {
            // In no state: what follows must be a reset.
            self.state.pcs.clear();
            return Ok(false);
        }
        self.state = mark.0.0.clone();
        (self.last, self.yielded) = (mark.1, mark.2);
        Ok(true)
    }

    fn forget(&mut self, _: Mark) {
        self.live -= 1;
    }
}

/// Everything that can happen, by brute force.
#[derive(Debug, Default)]
pub struct Everything {
    pub schedules: u64,
    pub outcomes: BTreeMap<Outcome, u64>,
    pub violations: BTreeSet<Wrong>,
    /// Schedules that end without a violation.
    pub clean: u64,
}

impl Everything {
    pub fn of(program: &Program) -> Self {
        let mut all = Self::default();
        let mut fresh = program.clone();
        fresh.log.clear();
        all.visit(&fresh, 0, u32::MAX, false);
        all
    }

    /// All that begins with a path. What the path itself violates counts for `clean`, but is not in `violations`.
    pub fn after(program: &Program, path: &[Choice]) -> Self {
        let mut all = Self::default();
        let mut there = program.clone();
        let mut violated = false;
        for &choice in path {
            violated |= !there.perform(choice).violations.is_empty();
        }
        all.visit(&there, 0, u32::MAX, violated);
        all
    }

    /// Whether every schedule shows a violation.
    pub fn always_violated(&self) -> bool {
        self.clean == 0
    }

    /// With at most so many preemptions.
    pub fn within(program: &Program, bound: u32) -> Self {
        let mut all = Self::default();
        all.visit(program, 0, bound, false);
        all
    }

    fn visit(&mut self, program: &Program, preemptions: u32, bound: u32, violated: bool) {
        let menu = program.menu();
        if menu.choices.is_empty() {
            self.schedules += 1;
            self.clean += u64::from(!violated);
        }
        for candidate in &menu.choices {
            let preemptions = preemptions + u32::from(menu.preempts(candidate.choice));
            if preemptions > bound {
                continue;
            }
            let mut next = program.clone();
            let report = next.perform(candidate.choice);
            let violated = violated || !report.violations.is_empty();
            self.violations.extend(report.violations);
            match report.end {
                Some(outcome) => {
                    self.schedules += 1;
                    self.clean += u64::from(!violated);
                    *self.outcomes.entry(outcome).or_default() += 1;
                }
                None => self.visit(&next, preemptions, bound, violated),
            }
        }
    }
}
