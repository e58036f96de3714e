//! What a row of the table says of a call.

use super::arguments::{Arg, Kind};
use super::mappings::Memory;
use crate::buffers::Buffer;
use crate::call::Call;
use crate::effect::{Outcome, Prepared};
use crate::faults::Faults;
use crate::model::Cx;
use syscalls::{Errno, Sysno};

/// Performs a call on the model.
pub type Handler = fn(&mut Cx, &Call) -> Outcome;
/// Tells, when a thread parks before a call, whether it is visible, what it waits for, what it touches.
pub type Prepare = fn(&Cx, &Call) -> Prepared;

/// What becomes of a system call.
#[derive(Clone, Copy)]
pub enum Fate {
    /// Pure work on private memory or constant data: the filter lets it through without a stop.
    Allow,
    /// The supervisor sees it, then the kernel runs it.
    Pass,
    /// The model performs it.
    Model(Handler, Prepare),
    /// Answered with this error, which programs handle.
    Refuse(Errno),
    /// Cannot be modelled honestly: the run stops and says so.
    Fatal,
}

/// What a call touches beyond what is known when its thread parks before it ([`Prepared::touches`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// If it works on what is behind a descriptor: which one that is, for those among its arguments. Another thread may close the number
    /// and use it anew.
    Descriptors,
    /// The same, for descriptors that it names in memory, or that were named before.
    DescriptorTable,
    /// Closes its first argument.
    Closes,
    /// Makes its second argument what the first one is.
    Replaces,
    /// Makes a thread or a process, whose number is decided then.
    Creates,
    /// Ends the process.
    Ends,
    /// All there is.
    Everything,
}

/// A row of the table.
pub struct Row {
    pub sysno: Sysno,
    pub args: &'static [Arg],
    pub fate: Fate,
    pub why: &'static str,
    /// How the environment may make it fail, if it is asked to.
    pub faults: Faults,
    /// The memory that the kernel reads or fills for it.
    pub buffers: &'static [Buffer],
    pub reach: Reach,
    /// What it does to the mappings.
    pub memory: Memory,
    /// Does the thread let others go first, and nothing else?
    pub yields: bool,
}

pub(super) const fn row(sysno: Sysno, args: &'static [Arg], fate: Fate, why: &'static str) -> Row {
    Row {
        sysno,
        args,
        fate,
        why,
        faults: Faults::empty(),
        buffers: &[],
        reach: Reach::Descriptors,
        memory: Memory::Nothing,
        yields: false,
    }
}

impl Row {
    pub(super) const fn may_meet(self, faults: Faults) -> Self {
        Self { faults, ..self }
    }

    pub(super) const fn with(mut self, buffers: &'static [Buffer]) -> Self {
        self.buffers = buffers;
        self
    }

    pub(super) const fn reaching(self, reach: Reach) -> Self {
        Self { reach, ..self }
    }

    pub(super) const fn changing(self, memory: Memory) -> Self {
        Self { memory, ..self }
    }

    pub(super) const fn yielding(self) -> Self {
        Self { yields: true, ..self }
    }

    /// Which of its arguments are descriptors.
    pub fn descriptors(&self) -> impl Iterator<Item = usize> {
        let args = self.args.iter().enumerate();
        args.filter(|(_, arg)| matches!(arg.kind, Kind::Fd))
            .map(|(place, _)| place)
    }

    /// The call with the names of its arguments.
    pub fn signature(&self) -> String {
        let names: Vec<&str> = self.args.iter().map(|arg| arg.name).collect();
        format!("{}({})", self.sysno.name(), names.join(", "))
    }
}
