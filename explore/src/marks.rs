//! The marks of one worker, by node, within the budget that all workers share.

use crate::progress::add;
use crate::shared::Shared;
use crate::tree::NodeId;
use crate::{Choice, System};
use hashbrown::HashMap;
use std::collections::VecDeque;

pub(crate) struct Marks<S: System> {
    by_node: HashMap<NodeId, S::Mark>,
    /// Nodes with a mark, oldest first.
    order: VecDeque<NodeId>,
    /// The initial state, where it pays to keep it for good.
    pub origin: Option<S::Mark>,
    /// The first state of all walks in which there is something to choose, and the way there.
    pub fork: Option<(S::Mark, Vec<Choice>)>,
}

impl<S: System> Marks<S> {
    pub fn new() -> Self {
        Self {
            by_node: HashMap::new(),
            order: VecDeque::new(),
            origin: None,
            fork: None,
        }
    }

    pub fn get(&self, node: NodeId) -> Option<&S::Mark> {
        self.by_node.get(&node)
    }

    /// Marks the current state for a node, if the budget allows it. `evict`: the oldest mark may go for it. Depth first, the newest marks are
    /// needed soonest and most often; the older a mark, the more exploration there is before it is used again, so re-executing
    /// the way there instead weighs little.
    pub fn take(
        &mut self,
        shared: &Shared<'_, S>,
        system: &mut S,
        node: NodeId,
        evict: bool,
    ) -> Result<(), S::Error> {
        if self.by_node.contains_key(&node) {
            return Ok(());
        }
        if !shared.reserve_mark() {
            let Some(&oldest) = self.order.front().filter(|_| evict) else {
                return Ok(());
            };
            self.forget(shared, system, oldest);
            if !shared.reserve_mark() {
                return Ok(());
            }
        }
        if let Some(mark) = self.mark_reserved(shared, system)? {
            self.by_node.insert(node, mark);
            self.order.push_back(node);
        }
        Ok(())
    }

    /// Keeps the current state, which is the initial one, if the budget allows it.
    pub fn take_origin(&mut self, shared: &Shared<'_, S>, system: &mut S) -> Result<(), S::Error> {
        if self.origin.is_none() && shared.reserve_mark() {
            self.origin = self.mark_reserved(shared, system)?;
        }
        Ok(())
    }

    /// Keeps the current state for the walks to come, if the budget allows it.
    pub fn take_fork(
        &mut self,
        shared: &Shared<'_, S>,
        system: &mut S,
        path: Vec<Choice>,
    ) -> Result<(), S::Error> {
        if shared.reserve_mark()
            && let Some(mark) = self.mark_reserved(shared, system)?
        {
            self.fork = Some((mark, path));
        }
        Ok(())
    }

    fn mark_reserved(&mut self, shared: &Shared<'_, S>, system: &mut S) -> Result<Option<S::Mark>, S::Error> {
        let taken = system.mark();
        match &taken {
            Ok(Some(_)) => drop(add(&shared.progress.marks_taken, 1)),
            _ => shared.release_mark(),
        }
        taken
    }

    /// Takes a mark out, to be used up.
    pub fn remove(&mut self, shared: &Shared<'_, S>, node: NodeId) -> Option<S::Mark> {
        let mark = self.by_node.remove(&node)?;
        if let Some(i) = self.order.iter().rposition(|&n| n == node) {
            self.order.remove(i);
        }
        shared.release_mark();
        Some(mark)
    }

    /// Takes a mark out only on a condition.
    pub fn remove_if(&mut self, shared: &Shared<'_, S>, node: NodeId, condition: bool) -> Option<S::Mark> {
        if condition {
            self.remove(shared, node)
        } else {
            None
        }
    }

    pub fn forget(&mut self, shared: &Shared<'_, S>, system: &mut S, node: NodeId) {
        if let Some(mark) = self.remove(shared, node) {
            system.forget(mark);
        }
    }

    pub fn forget_all(&mut self, shared: &Shared<'_, S>, system: &mut S) {
        while let Some(&node) = self.order.back() {
            self.forget(shared, system, node);
        }
        self.forget_fork(shared, system);
        self.forget_origin(shared, system);
    }

    pub fn forget_origin(&mut self, shared: &Shared<'_, S>, system: &mut S) {
        if let Some(mark) = self.origin.take() {
            shared.release_mark();
            system.forget(mark);
        }
    }

    pub fn forget_fork(&mut self, shared: &Shared<'_, S>, system: &mut S) {
        if let Some((mark, _)) = self.fork.take() {
            shared.release_mark();
            system.forget(mark);
        }
    }
}
