//! A call that moves one byte, whatever it is asked for: its length, or the lengths in its scatter list, are read as if they said so.

use crate::call::Call;
use crate::memory::{Fault, GuestMemory, GuestMemoryExt};
use std::collections::BTreeMap;
use syscalls::Sysno;

/// Guest memory in which some 64-bit words read as others.
pub struct Shortened<'m> {
    inner: &'m mut dyn GuestMemory,
    words: BTreeMap<u64, u64>,
    call: Call,
}

impl<'m> Shortened<'m> {
    pub fn new(inner: &'m mut dyn GuestMemory, call: &Call) -> Self {
        let mut call = *call;
        let mut words = BTreeMap::new();
        match call.sysno {
            Sysno::read
            | Sysno::pread64
            | Sysno::recvfrom
            | Sysno::write
            | Sysno::pwrite64
            | Sysno::sendto => {
                call.args[2] = call.args[2].min(1);
            }
            Sysno::recvmsg | Sysno::sendmsg => {
                let header = call.args[1];
                let list = inner.read_u64(header + 16).unwrap_or(0);
                let count = inner.read_u64(header + 24).unwrap_or(0);
                words = shorten(inner, list, count);
            }
            _ => words = shorten(inner, call.args[1], call.args[2]),
        }
        Self { inner, words, call }
    }

    /// The call to make on this memory.
    pub fn call(&self) -> Call {
        self.call
    }
}

/// The lengths of a scatter list such that it holds one byte.
fn shorten(mem: &dyn GuestMemory, list: u64, count: u64) -> BTreeMap<u64, u64> {
    let mut left = 1;
    let mut words = BTreeMap::new();
    for i in 0..count.min(1024) {
        let at = list + i * 16 + 8;
        let Ok(len) = mem.read_u64(at) else { break };
        words.insert(at, len.min(left));
        left -= len.min(left);
    }
    words
}

impl GuestMemory for Shortened<'_> {
    fn read(&self, addr: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.inner.read(addr, out)?;
        for (&at, word) in self
            .words
            .range(addr.saturating_sub(7)..addr.saturating_add(out.len() as u64))
        {
            for (i, byte) in word.to_le_bytes().into_iter().enumerate() {
                let place = (at + i as u64).checked_sub(addr);
                if let Some(out) = place.and_then(|place| out.get_mut(place as usize)) {
                    *out = byte;
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, addr: u64, data: &[u8]) -> Result<(), Fault> {
        self.inner.write(addr, data)
    }

    fn peek(&self, addr: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.inner.peek(addr, out)
    }

    fn poke(&mut self, addr: u64, data: &[u8]) -> Result<(), Fault> {
        self.inner.poke(addr, data)
    }
}
