//! Where a thread can park without entering the kernel: code analysis for parking points.
//!
//! Everything here is pure. It works on the bytes of ELF files, on register values that the caller hands in and on a
//! [`ReadMemory`] reader; nothing traces a process or writes to one. The supervisor does that with what it gets from here:
//!
//! * [`scan_module`] (or [`PlanCache`], which remembers) lists the [`Site`]s of one module: the instructions that must be
//!   hooked for a given [`Preempt`] mode.
//! * [`displace()`] relocates the instruction under a hook into a scratch slot, and [`ScratchLayout`] decides where slots are.
//! * [`sync_op`] says which object a hooked pthread function works on, and [`would_block`] whether it could go ahead.
//!
//! A hook replaces one byte (`int3`), so a site never disturbs the instruction after it, and a jump into the middle of
//! a hooked instruction (over a `lock` prefix, say) still works.
#![forbid(unsafe_code)]

mod cache;
mod displace;
mod elf;
mod formats;
mod functions;
mod insn;
mod library;
mod locks;
mod operand;
mod runtime;
mod scan;
mod scratch;
mod sync;
mod watched;

#[cfg(test)]
mod test_execute;
#[cfg(test)]
mod test_locks;
#[cfg(test)]
mod test_scan;

pub use cache::PlanCache;
pub use displace::{DisplaceError, Displaced, displace};
pub use elf::parse as parse_elf;
pub use library::{LibraryEntries, LibraryFn, filled};
pub use locks::{Blocked, mutex_holder, plain_mutex_holder, would_block};
pub use operand::{Access, Accesses, GpRegs, Gpr, MemoryOperand, Segment};
pub use scan::{scan_bytes, scan_module};
pub use scratch::{Evicted, PAGE, Placement, ScratchArea, ScratchError, ScratchLayout};
pub use sync::{OnLock, ReadMemory, Streams, SyncFn, SyncOp, Timeout, library_object, sync_op};
pub use watched::{Place, Watched};

use std::path::PathBuf;

/// How often a thread parks (`--preempt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Preempt {
    /// Before visible system calls only: no hooks but those that determinism needs.
    Syscall,
    /// Also before synchronisation that never reaches the kernel when uncontended.
    Sync,
    /// Also before every load and store that may touch memory shared between threads.
    Memory,
    /// As [`Preempt::Sync`], and before those loads and stores that were found to need it.
    Auto,
}

/// Whose code a module holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ModuleRole {
    /// The checked program, or a library the user counts as part of it: its atomic instructions are parking points.
    Own,
    /// The C library and other libraries of the system: only their synchronisation functions are.
    System,
}

/// A random number instruction, which the supervisor emulates so that runs repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RandomInsn {
    /// `rdseed` rather than `rdrand`. Both set the carry flag on success and clear the other arithmetic flags.
    pub is_seed: bool,
    /// The destination register.
    pub dest: Gpr,
    /// Bytes written: 2, 4 (the upper half of the register is zeroed) or 8.
    pub width: u8,
}

/// An instruction that tells on which core it is executed, which must be the same in every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CoreInsn {
    /// `cpuid`: it faults where the processor can be told so, but not all can.
    Cpuid,
    /// `rdpid`: the number of the core, and of its node.
    Rdpid {
        /// The destination register, all 64 bits of it.
        dest: Gpr,
    },
    /// `lsl` with a selector in a register: the limit of one segment holds the number of the core.
    SegmentLimit {
        /// The register with the selector.
        selector: Gpr,
        /// The destination register.
        dest: Gpr,
        /// Bytes written: 2, 4 (the upper half of the register is zeroed) or 8.
        width: u8,
    },
}

/// Why an instruction is hooked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteKind {
    /// The entry of a pthread function of glibc.
    Sync(SyncFn),
    /// An atomic read-modify-write instruction: `lock`-prefixed, or `xchg` with memory, which locks by itself.
    Atomic(Access),
    /// `pause`: the body of a spin loop, a hint to let somebody else go.
    Pause,
    /// A plain load or store; one instruction may make two accesses (`movs`, `cmps`).
    Memory(Accesses),
    /// `rdrand` or `rdseed`.
    Random(RandomInsn),
    /// The entry of a library function that accesses memory for the program.
    Library(LibraryFn),
    /// It depends on the core.
    Core(CoreInsn),
    /// The entry of `pthread_join`, where loads and stores are watched: a thread that has ended already is not waited for by any call, and all that
    /// it did comes before this.
    Join,
}

impl SiteKind {
    /// Is the instruction emulated, so that what it gives is the same in every run, whoever executes it?
    pub fn is_emulated(&self) -> bool {
        matches!(self, SiteKind::Random(_) | SiteKind::Core(_))
    }
}

/// One instruction to hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Link-time address; add the load bias of the module for the run-time address.
    pub vaddr: u64,
    /// Length of the instruction.
    pub len: u8,
    /// Why it is hooked.
    pub kind: SiteKind,
}

/// All sites of one module, sorted by address, each address once.
#[derive(Clone, Debug, Default)]
pub struct ModulePlan {
    /// The sites.
    pub sites: Vec<Site>,
    /// The lowest and one past the highest link-time address of the module's segments: what a scratch slot must reach.
    pub span: std::ops::Range<u64>,
    /// Sites that only an uncertain sweep (no symbol, no unwind entry, no direct call leads there) has found.
    pub swept: usize,
    /// Link-time addresses of the C library's standard streams, if this module has them.
    pub streams: Option<Streams>,
    /// The same for the variable in which glibc counts threads.
    pub thread_count: Option<u64>,
    /// What it tells of library functions that access memory, where loads and stores are looked for.
    pub library: LibraryEntries,
}

impl ModulePlan {
    /// The site at a link-time address.
    pub fn site_at(&self, vaddr: u64) -> Option<&Site> {
        let index = self.sites.binary_search_by_key(&vaddr, |site| site.vaddr).ok()?;
        Some(&self.sites[index])
    }
}

/// Of a program or library.
pub const LARGEST_MODULE: u64 = 2 << 30;

/// Why a module could not be scanned.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// The file could not be read.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The module's path.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// Nothing that large is read into memory.
    #[error("larger than {} MiB, which is the limit for programs and libraries", LARGEST_MODULE >> 20)]
    TooLarge,
    /// The file is not a well-formed ELF file.
    #[error("not a well-formed ELF file: {0}")]
    Elf(#[from] goblin::error::Error),
    /// An ELF file, but not for this machine.
    #[error("not a 64-bit x86 ELF file")]
    WrongMachine,
}
