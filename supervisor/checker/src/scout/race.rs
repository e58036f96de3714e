//! Accesses that nothing orders, as people read of them.

use hooks::Place;
use serde::Serialize;
use session::Session;
use std::collections::HashMap;
use trace::{Violation, ViolationKind};

/// Frames that are kept of a stack.
const FRAMES: usize = 12;

/// Two accesses that nothing orders, or of which the second comes after the memory was freed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Race {
    /// The variable, or the address.
    pub object: String,
    pub accesses: [RacingAccess; 2],
    /// The memory was freed, and touched after that.
    #[serde(skip)]
    pub is_use_after_free: bool,
    /// There is no debug information that would tell an atomic access from a plain one.
    #[serde(skip)]
    pub may_be_atomic: bool,
}

impl Race {
    /// As a violation.
    pub fn violation(&self) -> Violation {
        let [one, other] = self
            .accesses
            .each_ref()
            .map(|access| format!("{} in {}", access.kind, access.at));
        Violation {
            kind: ViolationKind::Race,
            message: format!("unsynchronized accesses to {}: {one}; {other}", self.object),
            thread: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RacingAccess {
    /// `load`, `store` or `free`.
    pub kind: &'static str,
    /// Function, file and line, as far as they are known.
    pub at: String,
    /// The stack of one execution in which it was met, innermost frame first; just `at` where none was seen.
    pub stack: Vec<String>,
}

/// One of two accesses, as a walk sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Side {
    pub place: Place,
    pub writes: bool,
    pub frees: bool,
}

/// The stacks with which places were met.
#[derive(Default)]
pub struct Stacks {
    known: HashMap<Place, Vec<String>>,
}

impl Stacks {
    /// Remembers the stack of a thread that stands before an access, if none is known of it.
    pub fn see(&mut self, session: &Session, tid: u32, place: Place) {
        self.known.entry(place).or_insert_with(|| {
            let frames = session.explain().stack(tid);
            let is_inside = |frame: &&symbols::Frame| match place {
                Place::Instruction(_) | Place::Atomic(_) => false,
                Place::Call(address) | Place::Kernel(address) => frame.address != address,
            };
            let skipped = frames.iter().take_while(is_inside).count();
            let skipped = if skipped == frames.len() { 0 } else { skipped };
            frames[skipped..]
                .iter()
                .take(FRAMES)
                .map(session::place_of)
                .collect()
        });
    }

    pub fn knows(&self, place: Place) -> bool {
        self.known.contains_key(&place)
    }

    /// Puts the stacks where they belong.
    pub fn fill(&self, race: &mut Race, sides: &[Side; 2]) {
        for (access, side) in race.accesses.iter_mut().zip(sides) {
            if let Some(stack) = self.known.get(&side.place).filter(|stack| !stack.is_empty()) {
                access.stack.clone_from(stack);
            }
        }
    }
}

/// One side of a race in words.
pub fn access(session: &Session, side: &Side) -> RacingAccess {
    let at = session.explain().place(side.place.lookup());
    RacingAccess {
        kind: match side {
            Side { frees: true, .. } => "free",
            Side { writes: true, .. } => "store",
            _ => "load",
        },
        stack: vec![at.clone()],
        at,
    }
}
