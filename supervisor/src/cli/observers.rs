//! Who sees the transitions of a search: the picture of the graph, and what looks for livelocks.

use explore::{Choice, Observer, Ways};
use views::Graph;

/// Who sees the transitions of a search.
pub(super) struct Observers<'a> {
    pub graph: Option<&'a Graph>,
    pub ways: Option<&'a Ways>,
}

impl<'a> Observers<'a> {
    pub fn any(&self) -> bool {
        self.all().next().is_some()
    }

    fn all(&self) -> impl Iterator<Item = &'a dyn Observer> {
        let graph = self.graph.map(|graph| graph as &dyn Observer);
        graph
            .into_iter()
            .chain(self.ways.map(|ways| ways as &dyn Observer))
    }
}

impl Observer for Observers<'_> {
    fn state(&self, id: u128, depth: u32) {
        self.all().for_each(|observer| observer.state(id, depth));
    }

    fn edge(&self, from: u128, choice: Choice, to: u128) {
        self.all().for_each(|observer| observer.edge(from, choice, to));
    }
}
