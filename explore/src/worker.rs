//! The engine: one worker with one system. Take a choice from the frontier, go to its state, make the step, see where it leads.
//!
//! There is one loop for all strategies and reductions, and no recursion. The system is a thing with a position, so the expensive part is going
//! somewhere else: from the nearest marked state on the way, or from the initial state, the rest of the way is executed again.

use crate::pool::{Handover, Item};
use crate::progress::add;
use crate::reduce::dpor::{Backtrack, Dpor};
use crate::reduce::{Sleeper, sleep};
use crate::result::{Failure, Limit};
use crate::shared::Shared;
use crate::strategy::{self, Frontier};
use crate::tree::{Node, NodeId, SoFar, Tree};
use crate::visited::Visit;
use crate::{Choice, Menu, Reduction, Report, System};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

pub(crate) type Done<S> = Result<(), Failure<<S as System>::Error>>;

/// One worker of a search: it goes from node to node and has the system make the steps. Its methods are the parts of that one loop, which all need the system,
/// the tree and what is shared: the loop itself is here, going to a node in `travel`, what dynamic reduction asks for in `reduce`, the order of preemptions in
/// `levels`, trying out independence in `audit`.
pub(crate) struct Worker<'w, S: System> {
    pub(crate) shared: &'w Shared<'w, S>,
    pub(crate) system: &'w mut S,
    pub(crate) frontier: Box<dyn Frontier + 'w>,
    pub(crate) tree: Tree,
    pub(crate) marks: crate::marks::Marks<S>,
    pub(crate) dpor: Option<Dpor>,
    /// The node whose state the system is in, if it is in one.
    pub(crate) at: Option<NodeId>,
    /// The path from the initial state to the root of the tree that was begun last.
    pub(crate) prefix: Vec<Choice>,
    /// In walks: there was nothing to choose so far.
    pub(crate) is_before_fork: bool,
    /// How often what was put off was taken up.
    round: u64,
}

/// A state that was just reached, on its way to become a node.
pub(crate) struct Arrival {
    pub parent: Option<NodeId>,
    pub via: Choice,
    pub depth: u32,
    sleep: Vec<Sleeper>,
    pub so_far: SoFar,
    /// What dynamic reduction is after.
    way: Vec<Choice>,
}

impl<'w, S: System> Worker<'w, S> {
    pub fn new(shared: &'w Shared<'w, S>, system: &'w mut S) -> Self {
        Self {
            shared,
            system,
            frontier: strategy::frontier(shared.config, shared.progress, &shared.pairs),
            tree: Tree::default(),
            marks: crate::marks::Marks::new(),
            dpor: None,
            at: None,
            prefix: Vec::new(),
            is_before_fork: shared.config.strategy.is_walk(),
            round: 0,
        }
    }

    /// Works until the search is over. A failure is reported to the others.
    pub fn run(mut self) {
        if let Err(failure) = self.work() {
            self.shared.fail(failure);
        }
        self.marks.forget_all(self.shared, self.system);
    }

    fn work(&mut self) -> Done<S> {
        loop {
            let put_off = self.frontier.put_off_until();
            let Some(item) = self.shared.pool.take(put_off, &mut self.round) else {
                return Ok(());
            };
            // There is always another walk; but what is complete is not to be called incomplete because a limit was reached with the last step.
            if matches!(item, Item::Walk(_)) && self.shared.must_stop() {
                return Ok(());
            }
            self.begin(item)?;
            while let Some((node, position)) = self.frontier.next(&mut self.tree) {
                if self.shared.must_stop_unless(|| self.estimated(node)) {
                    self.estimate(node);
                    return Ok(());
                }
                self.reap();
                if !self.is_due(node, position) {
                    continue;
                }
                let level = self.tree[node].levels.get(position).copied();
                self.go_to(node)?;
                self.advance(node, position)?;
                self.has_explored(level);
                self.share();
            }
            self.reap();
        }
    }

    fn begin(&mut self, item: Item) -> Done<S> {
        let walk = if let Item::Walk(number) = item { number } else { 0 };
        self.frontier.begin(walk);
        match item {
            Item::PutOff(rank) => {
                self.frontier.go_on_to(rank);
                Ok(())
            }
            Item::Root | Item::Walk(_) => {
                self.dpor = (self.shared.plan.reduction == Reduction::Dpor).then(Dpor::default);
                self.go_to_start()?;
                let depth = self.prefix.len() as u32;
                let via = self.prefix.last().copied().unwrap_or(Choice::of(0));
                let sleep = Vec::new();
                self.arrive(
                    Arrival {
                        parent: None,
                        via,
                        depth,
                        sleep,
                        so_far: SoFar::default(),
                        way: Vec::new(),
                    },
                    None,
                )
            }
            Item::Node(handover) => self.take_over(*handover),
        }
    }

    /// Continues where another worker left off.
    fn take_over(&mut self, handover: Handover) -> Done<S> {
        self.prefix = handover.path;
        self.go_home()?;
        self.re_execute(&self.prefix.clone(), 0)?;
        self.check_identity(handover.id, None)?;
        let menu = self.system.enabled().map_err(|e| self.failure(e, None, None))?;
        let menu = self.with_learned(menu);
        let mut todo = VecDeque::new();
        for choice in handover.todo {
            todo.push_back(menu.position(choice).ok_or_else(|| Failure::Desync {
                path: self.prefix.clone(),
                detail: format!("{choice:?} was enabled before, and is not now"),
            })?);
        }
        let via = self.prefix.last().copied().unwrap_or(Choice::of(0));
        let levels = self.levels_of(&menu, handover.so_far.preemptions);
        let mut node = Node::new(via, self.prefix.len() as u32, menu, todo);
        node.levels = levels;
        node.reduced.sleep = handover.sleep;
        node.so_far = handover.so_far;
        node.id = handover.id;
        self.place(node)
    }

    /// Gives the shallowest node to an idle worker, if there is one.
    fn share(&mut self) {
        if self.dpor.is_some() || !self.shared.pool.is_hungry() {
            return;
        }
        let Some(id) = self.frontier.spare(&self.tree) else {
            return;
        };
        let path = self.tree.path(id);
        let todo = self.frontier.surrender(&mut self.tree, id);
        let node = &mut self.tree[id];
        let todo = todo.into_iter().map(|p| node.menu.choices[p].choice).collect();
        let sleep = node.reduced.sleep.clone();
        let (so_far, id) = (node.so_far, node.id);
        add(&self.shared.progress.handed_over, 1);
        self.shared.pool.give(Handover {
            path,
            todo,
            sleep,
            so_far,
            id,
        });
    }

    /// Forgets the marks of nodes that are gone.
    fn reap(&mut self) {
        for node in self.tree.reap() {
            self.marks.forget(self.shared, self.system, node);
            self.at.take_if(|at| *at == node);
        }
    }

    /// Takes a choice in the current state, which is that of `from`.
    fn advance(&mut self, from: NodeId, position: usize) -> Done<S> {
        let progress = self.shared.progress;
        let node = &self.tree[from];
        let choice = node.menu.choices[position].choice;
        let depth = node.depth + 1;
        let mut so_far = node.so_far;
        so_far.preemptions += self.shared.cost(&node.menu, choice);
        let way = self.tree[from].way_after(choice);
        self.at = None;
        let report = self
            .system
            .step(choice)
            .map_err(|e| self.failure(e, Some(from), Some(choice)))?;
        add(&progress.transitions, 1);
        progress.max_depth.fetch_max(u64::from(depth), Relaxed);
        let sleep = self.reduce(from, position, &report)?;
        let Report::<S> { violations, end, .. } = report;
        for violation in violations {
            if self.shared.hooks.wanted.is_none_or(|wanted| wanted(&violation)) {
                self.shared
                    .violated(violation, self.path_to(Some(from), Some(choice)));
                so_far.violated = true;
            }
        }
        if so_far.violated && self.shared.hooks.end_at_violation {
            return Ok(());
        }
        self.arrive(
            Arrival {
                parent: Some(from),
                via: choice,
                depth,
                sleep,
                so_far,
                way,
            },
            end,
        )
    }

    /// Tells the reduction what was executed; returns who sleeps after it.
    fn reduce(
        &mut self,
        from: NodeId,
        position: usize,
        report: &Report<S>,
    ) -> Result<Vec<Sleeper>, Failure<S::Error>> {
        if self.shared.plan.reduction == Reduction::None {
            return Ok(Vec::new());
        }
        let candidate = self.tree[from].menu.choices[position].clone();
        let choice = candidate.choice;
        let mut performed = report
            .performed
            .clone()
            .unwrap_or_else(|| candidate.footprint.clone());
        if self.is_learned(&candidate) {
            performed = performed.and_unordered();
        }
        let mut gone = None;
        let mut left = Menu::default();
        if report.end.is_some() {
            left = self
                .system
                .enabled()
                .map_err(|e| self.failure(e, Some(from), Some(choice)))?;
            left = self.with_learned(left);
            let mut others = self.tree[from].menu.threads();
            others.retain(|&t| t != choice.thread && !left.knows(t));
            // A crash ends the process, though there may be no other thread left in it to show that.
            let crashed = !report.violations.is_empty() && left.blocked.is_empty();
            if crashed || !others.is_empty() {
                performed = performed.and_ending();
            }
            gone = Some(others);
        }
        if let Some(dpor) = &mut self.dpor {
            let length = self.tree[from].depth as usize - self.prefix.len();
            let mut found = dpor.executed(length, choice, &performed, gone.as_deref());
            if gone.is_some() {
                dpor.reached(&left);
                found.extend(dpor.blocked_to_the_end());
            }
            self.backtrack(found);
        }
        let node = &mut self.tree[from];
        let sleep = sleep::after(&node.reduced.sleep, choice, &performed);
        node.reduced.sleep.push(Sleeper {
            choice,
            footprint: performed,
        });
        Ok(sleep)
    }

    /// The path is not followed beyond the current state.
    fn give_up(&mut self) {
        let found = self.dpor.as_ref().map(Dpor::blocked_to_the_end);
        self.backtrack(found.unwrap_or_default());
    }

    /// Plans what dynamic reduction asks for.
    fn backtrack(&mut self, found: Vec<Backtrack>) {
        for Backtrack {
            node,
            one_of,
            covered_by,
            way,
        } in found
        {
            let node = &mut self.tree[node];
            match one_of.last() {
                None => node
                    .menu
                    .threads()
                    .into_iter()
                    .for_each(|thread| node.request(thread)),
                Some(_) if one_of.iter().any(|t| node.reduced.requested.contains(t)) => {}
                Some(_) if covered_by.iter().any(|&choice| node.covers(choice)) => {}
                Some(&thread) => {
                    node.request(thread);
                    node.reduced.ways.push((thread, way));
                }
            }
        }
    }

    /// Sees what is to be done in a state that was just reached.
    fn arrive(&mut self, arrival: Arrival, end: Option<S::Outcome>) -> Done<S> {
        let shared = self.shared;
        let id = self.identify(&arrival)?;
        if let Some(outcome) = end {
            self.finish(&arrival, id, outcome);
            return Ok(());
        }
        if self.is_in_order() {
            return self.arrive_in_order(arrival, id);
        }
        let walk = shared.config.strategy.is_walk();
        let asleep = sleep::keys(&arrival.sleep);
        let bounded = shared.config.bound_preemptions.is_some();
        let preemptions = if bounded { arrival.so_far.preemptions } else { 0 };
        let at_limit = shared
            .config
            .limits
            .depth
            .is_some_and(|limit| arrival.depth >= limit);
        let mut menu = None;
        if bounded || at_limit || self.dpor.is_some() {
            menu = Some(self.menu(&arrival)?);
        }
        let key = id.map(|id| {
            if bounded {
                with_running(id, menu.as_ref())
            } else {
                id
            }
        });
        if at_limit && menu.as_ref().is_some_and(|menu| !menu.choices.is_empty()) {
            let is_known = shared.config.hash
                && key.is_some_and(|key| shared.visited.is_known(key, &asleep, preemptions));
            add(&shared.progress.schedules, 1);
            if is_known && !walk {
                self.count_arrival(&arrival, id, false);
            } else {
                add(&shared.progress.cut_paths, 1);
                self.give_up();
            }
            return Ok(());
        }
        let visit = self.visit(key, &asleep, preemptions);
        self.count_arrival(&arrival, id, visit == Visit::New);
        if visit == Visit::Known && !walk {
            add(&shared.progress.schedules, 1);
            return Ok(());
        }
        let menu = match menu {
            Some(menu) => menu,
            None => self.menu(&arrival)?,
        };
        if menu.choices.is_empty() {
            shared.ended(None, visit == Visit::New || walk);
            self.give_up();
            self.check_clean(&arrival);
            return Ok(());
        }
        self.expand(arrival, id, menu, visit)
    }

    /// The identity of the current state, if anyone wants to know.
    fn identify(&mut self, arrival: &Arrival) -> Result<Option<u128>, Failure<S::Error>> {
        if !self.shared.config.hash && self.shared.hooks.observer.is_none() {
            return Ok(None);
        }
        let id = self.system.state_id();
        id.map(Some).map_err(|e| self.arrival_failure(e, arrival))
    }

    fn visit(&self, key: Option<u128>, asleep: &[Choice], preemptions: u32) -> Visit {
        match key {
            Some(key) if self.shared.config.hash => self.shared.visited.visit(key, asleep, preemptions),
            _ => Visit::New,
        }
    }

    /// The path has come to its end. At an end that is known it counts as cut, not as one more execution.
    fn finish(&mut self, arrival: &Arrival, id: Option<u128>, outcome: S::Outcome) {
        let new = self.visit(id, &[], 0) == Visit::New;
        self.count_arrival(arrival, id, new);
        let walk = self.shared.config.strategy.is_walk();
        self.shared.ended(Some(outcome), new || walk);
        self.check_clean(arrival);
    }

    /// Makes a node of a state, with what is to be explored there.
    fn expand(&mut self, arrival: Arrival, id: Option<u128>, menu: Menu, visit: Visit) -> Done<S> {
        let shared = self.shared;
        let Arrival {
            parent,
            via,
            depth,
            mut sleep,
            so_far,
            mut way,
        } = arrival;
        let mut todo: VecDeque<usize> = (0..menu.choices.len()).collect();
        if let Some(bound) = shared.config.bound_preemptions {
            todo.retain(|&p| so_far.preemptions + shared.cost(&menu, menu.choices[p].choice) <= bound);
            if todo.len() < menu.choices.len() {
                shared.withheld.store(true, Relaxed);
            }
        }
        if let Visit::Woken { now, still } = visit {
            todo.retain(|&p| now.contains(&menu.choices[p].choice));
            sleep.retain(|s| still.contains(&s.choice));
        }
        todo.retain(|&p| !sleep.iter().any(|s| s.choice == menu.choices[p].choice));
        let Some(&first) = todo.front() else {
            add(&shared.progress.sleep_blocked, 1);
            add(&shared.progress.schedules, 1);
            self.give_up();
            return Ok(());
        };
        // Dynamic reduction begins with one thread. Not with one that has just yielded, or a spin loop would never see what it waits for.
        let yielded = (depth > 0 && menu.running.is_none()).then_some(via.thread);
        let thread_at = |p: usize| menu.choices[p].choice.thread;
        let other = todo.iter().map(|&p| thread_at(p)).find(|&t| Some(t) != yielded);
        let mut first = other.unwrap_or(thread_at(first));
        // Nor with another than the one that the path is there for: what it is to come before might be asleep and stay so.
        match way.first().map(|next| next.thread) {
            Some(next) if todo.iter().any(|&p| thread_at(p) == next) => first = next,
            _ => way.clear(),
        }
        if self.dpor.is_some() {
            todo.clear();
        }
        let mut node = Node::new(via, depth, menu, todo);
        node.parent = parent;
        node.id = id;
        node.reduced.sleep = sleep;
        node.so_far = so_far;
        if self.dpor.is_some() {
            node.request(first);
            node.reduced
                .ways
                .extend((!way.is_empty()).then_some((first, way)));
        }
        self.place(node)
    }

    /// Puts a node for the current state into the tree and the frontier.
    pub(crate) fn place(&mut self, mut node: Node) -> Done<S> {
        if node.parent.is_none() {
            node.prefix = self.prefix.as_slice().into();
        }
        let id = self.tree.insert(node);
        if let Some(dpor) = &mut self.dpor {
            dpor.placed(id);
        }
        if self.returns_to(id, 0) {
            let evict = self.frontier.newest_marks_first();
            let taken = self.marks.take(self.shared, self.system, id, evict);
            taken.map_err(|e| self.failure(e, Some(id), None))?;
        }
        self.mark_fork(id)?;
        self.at = Some(id);
        self.frontier.reached(&mut self.tree, id);
        self.audit(id)
    }

    pub(crate) fn menu(&mut self, arrival: &Arrival) -> Result<Menu, Failure<S::Error>> {
        let menu = self
            .system
            .enabled()
            .map_err(|e| self.arrival_failure(e, arrival))?;
        let menu = self.with_learned(menu);
        debug_assert!(
            menu.choices.is_sorted_by(|a, b| a.choice < b.choice),
            "choices come sorted"
        );
        if let Some(dpor) = &mut self.dpor {
            dpor.reached(&menu);
        }
        Ok(menu)
    }

    pub(crate) fn count_arrival(&self, arrival: &Arrival, id: Option<u128>, new: bool) {
        let progress = self.shared.progress;
        add(
            if new {
                &progress.states_new
            } else {
                &progress.states_revisited
            },
            1,
        );
        let (Some(observer), Some(id)) = (self.shared.hooks.observer, id) else {
            return;
        };
        if let Some(from) = arrival.parent.and_then(|parent| self.tree[parent].id) {
            observer.edge(from, arrival.via, id);
        }
        if new {
            observer.state(id, arrival.depth);
        }
    }

    pub(crate) fn check_clean(&self, arrival: &Arrival) {
        if self.shared.hooks.until_clean_end && !arrival.so_far.violated {
            self.shared.halt(Limit::Goal);
        }
    }

    /// The choices from the initial state to a node, and one more.
    pub(crate) fn path_to(&self, node: Option<NodeId>, then: Option<Choice>) -> Vec<Choice> {
        let mut path = node.map_or_else(|| self.prefix.clone(), |node| self.tree.path(node));
        path.extend(then);
        path
    }

    pub(crate) fn failure(
        &self,
        error: S::Error,
        node: Option<NodeId>,
        then: Option<Choice>,
    ) -> Failure<S::Error> {
        Failure::System {
            error,
            path: self.path_to(node, then),
        }
    }

    fn arrival_failure(&self, error: S::Error, arrival: &Arrival) -> Failure<S::Error> {
        self.failure(error, arrival.parent, arrival.parent.map(|_| arrival.via))
    }
}

/// Under a preemption bound, what a state can still lead to depends on who is running.
fn with_running(id: u128, menu: Option<&Menu>) -> u128 {
    let running = menu.and_then(|menu| menu.running);
    let spread = |t: u32| (u128::from(t) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    id ^ running.map_or(0, spread)
}
