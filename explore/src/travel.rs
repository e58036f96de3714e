//! Going to a state: from the nearest mark on the way, or from the initial state, and the rest of the way by executing it again.
//!
//! This is the expensive part of a search, so it is in one place: a worker never goes anywhere else than through here, and every step that is
//! executed again is counted here.

use crate::progress::add;
use crate::result::Failure;
use crate::tree::NodeId;
use crate::worker::{Done, Worker};
use crate::{Choice, System};

impl<S: System> Worker<'_, S> {
    /// To the initial state.
    pub(crate) fn go_home(&mut self) -> Done<S> {
        self.at = None;
        if let Some(origin) = &self.marks.origin {
            add(&self.shared.progress.marks_restored, 1);
            let rewound = self.system.rewind(origin);
            if rewound.map_err(|e| self.failure(e, None, None))? {
                return Ok(());
            }
            self.marks.forget_origin(self.shared, self.system);
        }
        add(&self.shared.progress.resets, 1);
        self.system.reset().map_err(|e| self.failure(e, None, None))?;
        let config = self.shared.config;
        let returns = config.strategy.is_walk()
            || (self.shared.plan.jobs > 1 && config.max_live_marks / 2 >= self.shared.plan.jobs);
        if returns {
            let taken = self.marks.take_origin(self.shared, self.system);
            taken.map_err(|e| self.failure(e, None, None))?;
        }
        Ok(())
    }

    /// To where a whole search or a walk begins. What all walks do alike, until there is something to choose, is done once.
    pub(crate) fn go_to_start(&mut self) -> Done<S> {
        if let Some((mark, path)) = &self.marks.fork {
            self.at = None;
            self.prefix.clone_from(path);
            add(&self.shared.progress.marks_restored, 1);
            let rewound = self.system.rewind(mark);
            if rewound.map_err(|e| self.failure(e, None, None))? {
                return Ok(());
            }
            self.marks.forget_fork(self.shared, self.system);
            self.go_home()?;
            return self.re_execute(&self.prefix.clone(), 0);
        }
        self.prefix.clone_from(&self.shared.hooks.start);
        self.go_home()?;
        self.re_execute(&self.prefix.clone(), 0)
    }

    /// Marks the first state in which a walk has something to choose.
    pub(crate) fn mark_fork(&mut self, id: NodeId) -> Done<S> {
        if !self.is_before_fork || self.tree[id].menu.choices.len() < 2 {
            return Ok(());
        }
        self.is_before_fork = false;
        // At the very beginning there is a mark already.
        if self.tree[id].parent.is_none() {
            return Ok(());
        }
        let path = self.tree.path(id);
        let taken = self.marks.take_fork(self.shared, self.system, path);
        taken.map_err(|e| self.failure(e, Some(id), None))
    }

    /// To the state of a node, where the next choice was taken out already.
    pub(crate) fn go_to(&mut self, target: NodeId) -> Done<S> {
        if self.at == Some(target) {
            return Ok(());
        }
        let returns = self.returns_to(target, 1);
        let mut start = self.nearest(target);
        match start {
            Some(node) if self.at == Some(node) => {}
            Some(node) => {
                let is_last = node == target && !returns;
                if !self.go_to_mark(node, is_last)? {
                    start = None;
                    self.go_home()?;
                }
            }
            None => self.go_home()?,
        }
        self.at = None;
        if start != Some(target) {
            let from = start.map_or(0, |node| self.tree[node].depth as usize);
            let path = self.path_to(Some(target), None);
            let from = self.mark_on_the_way(target, start, &path, from)?;
            self.re_execute(&path, from)?;
            self.check_identity(self.tree[target].id, Some(target))?;
        }
        self.at = Some(target);
        if returns {
            let evict = self.frontier.newest_marks_first();
            let taken = self.marks.take(self.shared, self.system, target, evict);
            taken.map_err(|e| self.failure(e, Some(target), None))?;
        }
        Ok(())
    }

    /// To the state of a node that has a mark, which is used up if it `is_last`. `false`: that is not possible any more, and the mark is gone.
    fn go_to_mark(&mut self, node: NodeId, is_last: bool) -> Result<bool, Failure<S::Error>> {
        add(&self.shared.progress.marks_restored, 1);
        let rewound = match self.marks.remove_if(self.shared, node, is_last) {
            Some(mark) => self.system.rewind_last(mark),
            None => match self.marks.get(node) {
                Some(mark) => self.system.rewind(mark),
                None => Ok(false),
            },
        };
        let is_there = rewound.map_err(|e| self.failure(e, Some(node), None))?;
        if !is_there {
            self.marks.forget(self.shared, self.system, node);
        }
        Ok(is_there)
    }

    /// In the order of preemptions the search goes from a node that was put off to its neighbours on the same path, so those that have something to do are
    /// marked in passing, as many as there can be marks. Returns how far it went.
    fn mark_on_the_way(
        &mut self,
        target: NodeId,
        start: Option<NodeId>,
        path: &[Choice],
        from: usize,
    ) -> Result<usize, Failure<S::Error>> {
        if !self.is_in_order() {
            return Ok(from);
        }
        let mut way = Vec::new();
        let mut next = self.tree[target].parent;
        while let Some(node) = next.filter(|_| next != start && way.len() < self.shared.config.max_live_marks)
        {
            way.push(node);
            next = self.tree[node].parent;
        }
        let mut at = from;
        for node in way.into_iter().rev() {
            if self.returns_to(node, 1) {
                let depth = self.tree[node].depth as usize;
                self.re_execute(&path[..depth], at)?;
                at = depth;
                let taken = self.marks.take(self.shared, self.system, node, true);
                taken.map_err(|e| self.failure(e, Some(node), None))?;
            }
        }
        Ok(at)
    }

    /// The nearest node on the way to a node that can be gone to at once.
    fn nearest(&self, target: NodeId) -> Option<NodeId> {
        let mut next = Some(target);
        while let Some(id) = next {
            if self.at == Some(id) || self.marks.get(id).is_some() {
                break;
            }
            next = self.tree[id].parent;
        }
        next
    }

    /// Whether a node is come back to after one more choice was taken, `taken` of them being out of `todo` already.
    pub(crate) fn returns_to(&self, id: NodeId, taken: usize) -> bool {
        let node = &self.tree[id];
        let open = node.todo.len() + taken + if self.dpor.is_some() { node.unplanned() } else { 0 };
        open > 1 && !self.shared.config.strategy.is_walk()
    }

    /// Executes a path, from the initial state to the current one and beyond, from its step `from` on.
    pub(crate) fn re_execute(&mut self, path: &[Choice], from: usize) -> Done<S> {
        for (step, &choice) in path.iter().enumerate().skip(from) {
            add(&self.shared.progress.reexecuted_steps, 1);
            let so_far = || path[..=step].to_vec();
            let report = self.system.step(choice);
            let report = report.map_err(|error| Failure::System {
                error,
                path: so_far(),
            })?;
            if report.end.is_some() {
                let detail = "the last step ended the path when it was executed again".to_owned();
                return Err(Failure::Desync {
                    path: so_far(),
                    detail,
                });
            }
        }
        Ok(())
    }

    /// Whether a path that was executed again, to a node or to the root of the tree, led to the same state.
    pub(crate) fn check_identity(&mut self, expected: Option<u128>, target: Option<NodeId>) -> Done<S> {
        let Some(expected) = expected else { return Ok(()) };
        let found = self
            .system
            .state_id()
            .map_err(|e| self.failure(e, target, None))?;
        if found == expected {
            return Ok(());
        }
        let detail = format!("state {expected:032x} became {found:032x} when its path was executed again");
        Err(Failure::Desync {
            path: self.path_to(target, None),
            detail,
        })
    }
}
