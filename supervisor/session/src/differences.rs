//! In what two states differ: for whoever asks why they were not one.
//!
//! Compared is what makes up the identity of a state, part by part: the kernel's side of it, the clock, what peers were told, registers, and memory, word by word,
//! which is named by variables and files.

use super::Session;
use super::times::{self, PAGE};
use crate::maps::read_maps;
use failure::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use syscall_model::Tid;
use syscall_model::clock::Nanos;
use syscall_model::processes::Pid;
use tracee::Regs;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// What a page is mapped for.
enum Mapped {
    Stack,
    /// With where the mapping begins.
    File(String, u64),
    Nameless,
}

/// Below the stack pointer a function may use this much.
const RED_ZONE: u64 = 128;

/// A state, for a comparison with a later one.
pub struct Portrait {
    now: Nanos,
    clock: u64,
    kernel: u128,
    peers: u128,
    registers: BTreeMap<Tid, Regs>,
    memory: BTreeMap<(Pid, u64), Box<[u8]>>,
}

impl Portrait {
    /// Bytes that it takes.
    pub fn size(&self) -> usize {
        self.memory.len() * PAGE
    }
}

impl Session {
    /// Where all threads stand: states that have this in common could be one.
    pub fn whereabouts(&self) -> u64 {
        let mut hasher = Xxh3::new();
        for (tid, context) in self.threads.iter() {
            (tid, context.regs.rip, context.regs.rsp).hash(&mut hasher);
        }
        self.ends.ended.hash(&mut hasher);
        self.network.state().id().hash(&mut hasher);
        hasher.finish()
    }

    /// The state as it is now.
    ///
    /// # Errors
    /// Its memory cannot be read.
    pub fn portrait(&self) -> Result<Portrait, Failure> {
        let mut clock = Xxh3::new();
        self.model.clock.hash(&mut clock);
        let mut memory = BTreeMap::new();
        let dead = self.dead_stacks();
        self.read_memory(|pid, at, bytes| {
            for (nth, page) in bytes.chunks(PAGE).enumerate() {
                let at = at + (nth * PAGE) as u64;
                let mut page: Box<[u8]> = page.into();
                let is_dead = |byte: u64| dead.iter().any(|(of, range)| *of == pid && range.contains(&byte));
                if dead
                    .iter()
                    .any(|(_, range)| range.start < at + PAGE as u64 && at < range.end)
                {
                    for (offset, byte) in page.iter_mut().enumerate() {
                        *byte = if is_dead(at + offset as u64) { 0 } else { *byte };
                    }
                }
                if page.iter().any(|&byte| byte != 0) {
                    memory.insert((pid, at), page);
                }
            }
        })?;
        Ok(Portrait {
            now: self.model.clock.now(),
            clock: clock.finish(),
            kernel: self.timeless_kernel(),
            peers: self.network.state().id(),
            registers: self
                .threads
                .iter()
                .map(|(&tid, context)| (tid, context.regs))
                .collect(),
            memory,
        })
    }

    /// Stacks below what threads use of them.
    fn dead_stacks(&self) -> Vec<(Pid, std::ops::Range<u64>)> {
        let mut dead = Vec::new();
        for (&tid, context) in self.threads.iter() {
            let space = self.spaces.of(&self.model, tid);
            let Some(task) = &space.task else { continue };
            let maps = read_maps(task.pid()).unwrap_or_default();
            let used = context.regs.rsp.saturating_sub(RED_ZONE);
            let stack = maps
                .iter()
                .find(|map| (map.start..map.end).contains(&context.regs.rsp));
            dead.extend(stack.map(|map| (space.id, map.start..used)));
        }
        dead
    }

    /// What differs between a state before and the one that is there now, by name.
    ///
    /// # Errors
    /// Its memory cannot be read.
    pub fn differences(&self, earlier: &Portrait) -> Result<BTreeSet<String>, Failure> {
        let now = self.portrait()?;
        let mut found = BTreeSet::new();
        let mut differ = |differs: bool, what: &str| {
            if differs {
                found.insert(what.to_owned());
            }
        };
        differ(earlier.clock != now.clock, "the clock");
        differ(
            earlier.kernel != now.kernel,
            "what the kernel keeps (descriptors, sockets, files)",
        );
        differ(earlier.peers != now.peers, "what was said to peers");
        differ(earlier.registers != now.registers, "registers");
        let keys: BTreeSet<_> = earlier.memory.keys().chain(now.memory.keys()).collect();
        for &(pid, at) in keys {
            let (before, after) = (earlier.memory.get(&(pid, at)), now.memory.get(&(pid, at)));
            if before == after {
                continue;
            }
            let place = self.mapping_at(pid, at);
            let elapsed = now.now.abs_diff(earlier.now);
            for (word, is_time) in times::changed(before.map(|b| &**b), after.map(|b| &**b), elapsed) {
                let name = self.name_of_word(pid, at + 8 * word as u64, &place);
                found.insert(if is_time {
                    format!("{name} (as a time does)")
                } else {
                    name
                });
            }
        }
        Ok(found)
    }

    /// A variable, or the part of memory that it is in.
    fn name_of_word(&self, pid: Pid, address: u64, place: &Mapped) -> String {
        if let Mapped::Stack = place {
            return "a stack".to_owned();
        }
        let tids = self.model.tids();
        let thread = tids
            .iter()
            .copied()
            .find(|&tid| self.spaces.of(&self.model, tid).id == pid);
        let named = thread.map(|tid| self.explain().object_name(tid, address));
        match (named, place) {
            (Some(name), _) if !name.starts_with("0x") => name,
            (_, Mapped::File(name, start)) => format!("data of {name}+{:#x}", address - start),
            _ => format!("allocated memory at {:#x}", address - address % PAGE as u64),
        }
    }

    fn mapping_at(&self, pid: Pid, address: u64) -> Mapped {
        let space = self.spaces.all().find(|space| space.id == pid);
        let task = space.and_then(|space| space.task.as_ref());
        let maps = task
            .and_then(|task| read_maps(task.pid()).ok())
            .unwrap_or_default();
        let Some(map) = maps.iter().find(|map| (map.start..map.end).contains(&address)) else {
            return Mapped::Nameless;
        };
        let mut stacks = self.threads.values().map(|context| context.regs.rsp);
        if stacks.any(|sp| (map.start..map.end).contains(&sp)) {
            return Mapped::Stack;
        }
        let file = map.path.as_ref().and_then(|path| path.file_name());
        file.map_or(Mapped::Nameless, |name| {
            Mapped::File(name.display().to_string(), map.start)
        })
    }

    /// The identity of what the kernel keeps.
    fn timeless_kernel(&self) -> u128 {
        let mut model = self.model.clone();
        model.without_times();
        let mut bytes = Bytes::default();
        model.hash(&mut bytes);
        xxh3_128(&bytes.0)
    }
}

#[derive(Default)]
struct Bytes(Vec<u8>);

impl Hasher for Bytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        xxh3_128(&self.0) as u64
    }
}
