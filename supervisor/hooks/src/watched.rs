//! What a search parks at beyond synchronisation and system calls: the loads, stores and library calls that walks have found to need it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::Range;

/// Parking points of [`Preempt::Auto`](crate::Preempt::Auto), and what else was learned about the memory that threads share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    /// Instructions that load or store.
    pub instructions: BTreeSet<u64>,
    /// Those of them that were seen to access a variable on the thread's own stack which another thread knows of.
    pub own_stack: BTreeSet<u64>,
    /// Calls of library functions that access memory for the program, by the place in its own code to which they return.
    pub calls: BTreeSet<u64>,
    /// Bytes that atomic instructions work on, or that debug information says are atomic: plain accesses to them are no data races.
    pub atomic: BTreeSet<u64>,
}

impl Watched {
    /// Is there anything to park at?
    pub fn is_empty(&self) -> bool {
        self.instructions.is_empty() && self.calls.is_empty()
    }

    /// How much there is to park at.
    pub fn len(&self) -> usize {
        self.instructions.len() + self.own_stack.len() + self.calls.len()
    }

    /// Is any byte of this memory known to be atomic?
    pub fn is_atomic(&self, span: &Range<u64>) -> bool {
        self.atomic.range(span.clone()).next().is_some()
    }

    /// Takes all that the other one has.
    pub fn merge(&mut self, other: Watched) {
        self.instructions.extend(other.instructions);
        self.own_stack.extend(other.own_stack);
        self.calls.extend(other.calls);
        self.atomic.extend(other.atomic);
    }
}

/// Where in the program an access to memory is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// By this instruction.
    Instruction(u64),
    /// By this atomic instruction, which is a parking point in any case.
    Atomic(u64),
    /// By a library function that returns to here in the program's own code.
    Call(u64),
    /// By the kernel, for a call that returns to here in the program's own code.
    Kernel(u64),
}

impl Place {
    /// The address, which for calls is the one behind them.
    pub fn address(self) -> u64 {
        match self {
            Place::Instruction(address)
            | Place::Atomic(address)
            | Place::Call(address)
            | Place::Kernel(address) => address,
        }
    }

    /// The address that belongs to the source line of the access.
    pub fn lookup(self) -> u64 {
        match self {
            Place::Instruction(address) | Place::Atomic(address) => address,
            Place::Call(address) | Place::Kernel(address) => address.saturating_sub(1),
        }
    }
}
