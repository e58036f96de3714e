//! Strategies: which unexplored choice comes next. One file each, behind one trait; the engine is the same for all.

mod bfs;
mod by_preemptions;
mod dfs;
mod guided;
mod pct;
mod random;
mod straight;

use crate::pairs::Pairs;
use crate::tree::{NodeId, Tree};
use crate::{Config, Progress, Reduction, Strategy};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

/// The nodes that have something left to explore, in the order of a strategy.
pub(crate) trait Frontier {
    /// A new piece of work begins; for walks, the number of the walk.
    fn begin(&mut self, _walk: u64) {}

    /// A node with something to do was reached. The frontier holds it until it releases it.
    fn reached(&mut self, tree: &mut Tree, node: NodeId);

    /// Takes the next choice (a position in the node's menu) out of the `todo` of a node, releasing nodes that have nothing left.
    fn next(&mut self, tree: &mut Tree) -> Option<(NodeId, usize)>;

    /// A node to give away with all it has left to do: the shallowest, if something else remains to do here.
    fn spare(&mut self, tree: &Tree) -> Option<NodeId>;

    /// Takes out of a node that was spared what is to be given away.
    fn surrender(&mut self, tree: &mut Tree, node: NodeId) -> Vec<usize> {
        tree[node].todo.drain(..).collect()
    }

    /// The rank of what comes first of all that is put off until every worker is done with what ranks lower.
    fn put_off_until(&self) -> Option<u32> {
        None
    }

    /// Every worker is done with what ranks lower than this.
    fn go_on_to(&mut self, _rank: u32) {}

    /// Whether older marks may go in favour of newer ones: true if nodes are returned to in the reverse order of their discovery.
    fn newest_marks_first(&self) -> bool {
        false
    }
}

pub(crate) fn frontier<'a>(
    config: &Config,
    progress: &'a Progress,
    pairs: &'a Pairs,
) -> Box<dyn Frontier + 'a> {
    match config.strategy {
        Strategy::Dfs => {
            // The stack is the path that dynamic reduction looks at.
            let is_dynamic = config.plan().reduction == Reduction::Dpor;
            Box::new(dfs::Dfs::new(config.deepening.filter(|_| !is_dynamic)))
        }
        Strategy::ByPreemptions => Box::new(by_preemptions::ByPreemptions::new(config.deepening)),
        Strategy::Bfs => Box::new(bfs::Bfs::default()),
        Strategy::Straight { .. } => Box::new(straight::Straight::default()),
        Strategy::Random { .. } => Box::new(random::Random::new(config.seed)),
        Strategy::Walk { .. } => Box::new(guided::Guided::new(config.seed, pairs, progress)),
        Strategy::Pct { depth, steps, .. } => Box::new(pct::Pct::new(config.seed, depth, steps, progress)),
    }
}

/// The random numbers of one walk. Each walk has its own stream, so walks do not depend on which worker takes them.
struct Dice(ChaCha8Rng);

impl Dice {
    fn new(seed: u64, walk: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(walk);
        Self(rng)
    }

    /// A number below `n`, which must not be 0.
    fn below(&mut self, n: u64) -> u64 {
        // The bias of multiply-and-shift is below n / 2^64.
        ((u128::from(self.0.next_u64()) * u128::from(n)) >> 64) as u64
    }

    fn any(&mut self) -> u64 {
        self.0.next_u64()
    }
}
