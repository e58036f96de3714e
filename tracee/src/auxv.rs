//! The initial stack of a program: argument, environment and auxiliary vectors.

use crate::error::{Error, Result};
use crate::memory::Memory;

/// End of the auxiliary vector.
pub const AT_NULL: u64 = 0;
/// An entry to be ignored.
pub const AT_IGNORE: u64 = 1;
/// Program headers of the program.
pub const AT_PHDR: u64 = 3;
/// Load address of the interpreter.
pub const AT_BASE: u64 = 7;
/// Entry point of the program.
pub const AT_ENTRY: u64 = 9;
/// Address of sixteen random bytes.
pub const AT_RANDOM: u64 = 25;
/// Address of the vDSO.
pub const AT_SYSINFO_EHDR: u64 = 33;

const WORD: u64 = 8;
/// Far more than the kernel lets `execve` put on a stack (pointers to 6 MB of strings).
const MAX_WORDS: u64 = 8 << 20;

/// One auxiliary entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Entry {
    /// `AT_*`
    pub kind: u64,
    /// Its value.
    pub value: u64,
    /// Where it lies in the task.
    pub addr: u64,
}

/// What the kernel put on the stack of a new image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitialStack {
    /// Number of arguments.
    pub argc: u64,
    /// Address of the argument pointers.
    pub argv: u64,
    /// Address of the environment pointers.
    pub envp: u64,
    /// The auxiliary vector, as the kernel made it.
    pub auxv: Vec<Entry>,
}

impl InitialStack {
    /// Reads it from the stack pointer that the image starts with.
    pub(crate) fn read(memory: Memory<'_>, pid: i32, rsp: u64) -> Result<Self> {
        let mut words = Words {
            memory,
            next: rsp,
            chunk: Vec::new(),
            used: 0,
            left: MAX_WORDS,
            pid,
        };
        let (_, argc) = words.take()?;
        let argv = rsp + WORD;
        let envp = argv + (argc + 1) * WORD;
        for _ in 0..argc {
            words.take()?;
        }
        if words.take()?.1 != 0 {
            return Err(Error::MalformedStack {
                pid,
                what: "argv does not end with a null pointer",
            });
        }
        while words.take()?.1 != 0 {}
        let mut auxv = Vec::new();
        loop {
            let (addr, kind) = words.take()?;
            let (_, value) = words.take()?;
            if kind == AT_NULL {
                return Ok(InitialStack {
                    argc,
                    argv,
                    envp,
                    auxv,
                });
            }
            auxv.push(Entry { kind, value, addr });
        }
    }

    /// The value of an auxiliary entry.
    pub fn get(&self, kind: u64) -> Option<u64> {
        self.entry(kind).map(|entry| entry.value)
    }

    pub(crate) fn entry(&self, kind: u64) -> Option<&Entry> {
        self.auxv.iter().find(|entry| entry.kind == kind)
    }
}

/// Reads words upwards, a chunk at a time; the stack ends somewhere above.
struct Words<'a> {
    memory: Memory<'a>,
    next: u64,
    chunk: Vec<u8>,
    used: usize,
    left: u64,
    pid: i32,
}

impl Words<'_> {
    /// The next word and its address.
    fn take(&mut self) -> Result<(u64, u64)> {
        const CHUNK: usize = 4096;
        if self.used + WORD as usize > self.chunk.len() {
            self.chunk.resize(CHUNK, 0);
            let got = self.memory.read_up_to(self.next, &mut self.chunk)?;
            self.chunk.truncate(got);
            self.used = 0;
        }
        let Some(bytes) = self.chunk[self.used..]
            .first_chunk::<8>()
            .filter(|_| self.left > 0)
        else {
            return Err(Error::MalformedStack {
                pid: self.pid,
                what: "vectors without an end",
            });
        };
        let found = (self.next, u64::from_le_bytes(*bytes));
        self.next += WORD;
        self.used += WORD as usize;
        self.left -= 1;
        Ok(found)
    }
}
