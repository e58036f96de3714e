//! Backwards through a trace: to a checkpoint before, and forwards from there to the place that is wanted.

use super::marks::Marks;
use super::timeline::{Halt, Move, Timeline};
use failure::Failure;
use session::Session;
use std::collections::BTreeSet;
use std::sync::Arc;
use syscall_model::Tid;

impl Timeline<'_> {
    /// Goes to the place before so many transitions and then so many instructions.
    pub fn go_to(&mut self, step: usize, instructions: u64) -> Result<(), Failure> {
        if !self.route.is_empty() || self.step > step || self.session.end().is_some() {
            self.go_back_to_mark(step)?;
        }
        self.place(&BTreeSet::new())?;
        while self.step < step && !self.is_over() {
            if self.marks.is_due(self.step) {
                self.marks.take(&mut self.session, self.step)?;
            }
            self.run_to(&Arc::default())?;
        }
        if !self.is_over() {
            self.marks.take(&mut self.session, self.step)?;
        }
        for _ in 0..instructions {
            self.instruction()?;
        }
        Ok(())
    }

    fn go_back_to_mark(&mut self, step: usize) -> Result<(), Failure> {
        self.route.clear();
        if let Some(mark) = self.marks.last_up_to(step)
            && self.marks.restore(&mut self.session, mark)?
        {
            self.step = mark;
            return Ok(());
        }
        let mut fresh = Session::start(self.options.clone())?;
        fresh.debugger().look_at(self.scope.process);
        self.marks = Marks::new(&mut fresh, self.trace.steps.len())?;
        std::mem::replace(&mut self.session, fresh).finish();
        self.step = 0;
        Ok(())
    }

    /// Goes to a place in the middle of a transition.
    fn follow(&mut self, step: usize, route: &[Move]) -> Result<(), Failure> {
        self.go_to(step, 0)?;
        for part in route {
            match part {
                Move::Instructions(times) => {
                    for _ in 0..*times {
                        self.instruction()?;
                    }
                }
                Move::Hits(breakpoints, times) => {
                    for _ in 0..*times {
                        self.run_to(breakpoints)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Executes one instruction; whether the thread has come to one of these places, or to the end of its transition. An instruction that repeats
    /// itself stays where it is.
    fn arrives_at(&mut self, places: &BTreeSet<u64>) -> Result<bool, Failure> {
        let before = self.here();
        let thread = self.trace.steps[self.step].thread;
        let is_over = self.instruction()?;
        let now = self.session.inspect().instruction_pointer(thread);
        Ok(is_over || self.has_crashed() || (now != before && now.is_some_and(|now| places.contains(&now))))
    }

    /// Goes back by one instruction of a thread: to where it has not executed the one that it executed last.
    pub fn step_back(&mut self, thread: Tid) -> Result<Halt, Failure> {
        let begin = self.session.inspect().instruction_pointer(thread);
        loop {
            let is_its_turn = self
                .trace
                .steps
                .get(self.step)
                .is_some_and(|s| s.thread == thread);
            if is_its_turn && !self.route.is_empty() {
                self.one_instruction_back()?;
            } else if let Some(before) = self.last_turn_of(thread) {
                let length = self.length_of_transition(before)?;
                self.go_to(before, length)?;
            } else {
                self.go_to(self.scope.begin, 0)?;
                return Ok(Halt::Begin);
            }
            // A thread stands twice at a hook: when it comes there, and when its next transition begins.
            if self.session.inspect().instruction_pointer(thread) != begin {
                return Ok(Halt::Stepped(thread));
            }
        }
    }

    /// Within the transition under way.
    fn one_instruction_back(&mut self) -> Result<(), Failure> {
        let (step, mut route) = (self.step, self.route.clone());
        let Some(Some(breakpoints)) = without_last(&mut route) else {
            return self.follow(step, &route);
        };
        // From the hit before to this one it is so many instructions.
        self.follow(step, &route)?;
        let mut instructions = 0;
        while !self.arrives_at(&breakpoints)? {
            instructions += 1;
        }
        if instructions > 0 {
            route.push(Move::Instructions(instructions));
        }
        self.follow(step, &route)
    }

    /// The last transition of a thread that is over.
    fn last_turn_of(&self, thread: Tid) -> Option<usize> {
        let begin = self.scope.begin;
        let steps = &self.trace.steps[begin..self.step];
        let last = steps.iter().rposition(|step| step.thread == thread)?;
        Some(begin + last)
    }

    /// How many instructions a transition has before the one that ends it.
    fn length_of_transition(&mut self, step: usize) -> Result<u64, Failure> {
        self.go_to(step, 0)?;
        let mut length = 0;
        while !self.instruction()? {
            length += 1;
        }
        Ok(length)
    }

    /// Goes back to the last breakpoint before this point.
    pub fn run_back(&mut self) -> Result<Halt, Failure> {
        self.recent_breakpoints.clear();
        let breakpoints = Arc::new(self.breakpoints.clone());
        let step = self.step;
        if let Some(route) = self.last_arrival(&breakpoints)? {
            self.follow(step, &route)?;
            return Ok(Halt::Breakpoint(self.current()));
        }
        let mut end = step;
        while end > self.scope.begin {
            let mark = self.marks.last_up_to(end - 1).unwrap_or(0);
            let begin = mark.max(self.scope.begin);
            if let Some((step, hits)) = self.last_hit(&breakpoints, begin, end)? {
                self.go_to(step, 0)?;
                for _ in 0..hits {
                    self.run_to(&breakpoints)?;
                }
                return Ok(Halt::Breakpoint(self.current()));
            }
            end = begin;
        }
        self.go_to(self.scope.begin, 0)?;
        Ok(Halt::Begin)
    }

    /// The way to the last breakpoint before this point in the transition under way.
    fn last_arrival(&mut self, breakpoints: &Arc<BTreeSet<u64>>) -> Result<Option<Vec<Move>>, Failure> {
        let route = self.route.clone();
        let mut arrivals: Vec<Vec<Move>> = Vec::new();
        if !route.is_empty() {
            self.go_to(self.step, 0)?;
        }
        for part in route {
            match part {
                Move::Hits(placed, times) if placed == *breakpoints => {
                    for _ in 0..times {
                        self.run_to(&placed)?;
                        arrivals.push(self.route.clone());
                    }
                }
                Move::Hits(placed, times) => {
                    let either: BTreeSet<u64> = placed.union(breakpoints).copied().collect();
                    let mut left = times;
                    while left > 0 {
                        if self.arrives_at(&either)? {
                            if self.has_crashed() {
                                break;
                            }
                            let now = self.here();
                            left -= u64::from(now.is_none_or(|now| placed.contains(&now)));
                            if now.is_some_and(|now| breakpoints.contains(&now)) {
                                arrivals.push(self.route.clone());
                            }
                        }
                    }
                }
                Move::Instructions(times) => {
                    for _ in 0..times {
                        if self.arrives_at(breakpoints)? {
                            arrivals.push(self.route.clone());
                        }
                    }
                }
            }
        }
        // Here is not before.
        arrivals.pop_if(|last| *last == self.route);
        Ok(arrivals.pop())
    }

    /// Where the thread stands whose transition is under way.
    fn here(&self) -> Option<u64> {
        let step = self.trace.steps.get(self.step)?;
        self.session.inspect().instruction_pointer(step.thread)
    }

    /// The last hit of a breakpoint in some transitions: in which, and how many were hit in it up to that one.
    fn last_hit(
        &mut self,
        breakpoints: &Arc<BTreeSet<u64>>,
        begin: usize,
        end: usize,
    ) -> Result<Option<(usize, u64)>, Failure> {
        let mut last = None;
        let mut hits = 0;
        self.go_to(begin, 0)?;
        while self.step < end && !self.is_over() {
            let step = self.step;
            if self.run_to(breakpoints)? {
                hits = 0;
            } else {
                hits += 1;
                last = Some((step, hits));
            }
        }
        Ok(last)
    }
}

/// Takes the last step off a route: an instruction, or a hit of one of these breakpoints.
fn without_last(route: &mut Vec<Move>) -> Option<Option<Arc<BTreeSet<u64>>>> {
    let (left, hit) = match route.last_mut()? {
        Move::Instructions(times) => {
            *times -= 1;
            (*times, None)
        }
        Move::Hits(breakpoints, times) => {
            *times -= 1;
            (*times, Some(Arc::clone(breakpoints)))
        }
    };
    if left == 0 {
        route.pop();
    }
    Some(hit)
}
