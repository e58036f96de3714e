//! Which memory the kernel reads or fills for a call: a column of the table.

use crate::call::Call;
use crate::memory::GuestMemory;
use std::ops::Range;

/// An argument that points to memory which the kernel accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    arg: usize,
    length: Length,
    is_filled: bool,
}

/// How much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// As many bytes as this argument says.
    Argument(usize),
    /// As many as the call returns.
    Result,
    /// So many.
    Bytes(u64),
    /// A string with its end.
    Text,
    /// As many as the call returns, in the pieces of an array of as many `struct iovec` as this argument says.
    Vector(usize),
    /// The same, with the array in a `struct msghdr`.
    Messages,
}

/// The kernel reads it.
pub const fn reads(arg: usize, length: Length) -> Buffer {
    Buffer {
        arg,
        length,
        is_filled: false,
    }
}

/// The kernel fills it.
pub const fn fills(arg: usize, length: Length) -> Buffer {
    Buffer {
        arg,
        length,
        is_filled: true,
    }
}

/// Paths are not longer, and vectors have not more pieces.
const MOST: u64 = 4096;
const PIECES: u64 = 1024;

impl Buffer {
    /// Which argument it is.
    pub fn argument(&self) -> usize {
        self.arg
    }

    /// The stretches of memory, and whether they are filled.
    pub fn spans(&self, call: &Call, result: i64, memory: &dyn GuestMemory) -> Vec<(Range<u64>, bool)> {
        let address = call.args[self.arg];
        if address == 0 {
            return Vec::new();
        }
        let returned = u64::try_from(result).unwrap_or(0);
        let whole = |len: u64| vec![(address..address.saturating_add(len), self.is_filled)];
        match self.length {
            Length::Argument(arg) => whole(call.args[arg].min(1 << 20)),
            Length::Result => whole(returned),
            Length::Bytes(bytes) => whole(bytes),
            Length::Text => whole(text_len(address, memory)),
            Length::Vector(count) => self.pieces(address, call.args[count], returned, memory),
            Length::Messages => {
                // `msg_iov` and `msg_iovlen`, behind the name and its length.
                let (Some(vector), Some(count)) = (word(address + 16, memory), word(address + 24, memory))
                else {
                    return Vec::new();
                };
                self.pieces(vector, count, returned, memory)
            }
        }
    }

    fn pieces(
        &self,
        vector: u64,
        count: u64,
        mut left: u64,
        memory: &dyn GuestMemory,
    ) -> Vec<(Range<u64>, bool)> {
        let mut spans = Vec::new();
        for index in 0..count.min(PIECES) {
            let at = vector.saturating_add(index * 16);
            let (Some(base), Some(len)) = (word(at, memory), word(at + 8, memory)) else {
                break;
            };
            let len = len.min(left);
            left -= len;
            spans.push((base..base.saturating_add(len), self.is_filled));
        }
        spans
    }
}

fn word(address: u64, memory: &dyn GuestMemory) -> Option<u64> {
    let mut bytes = [0; 8];
    memory.read(address, &mut bytes).ok()?;
    Some(u64::from_le_bytes(bytes))
}

fn text_len(address: u64, memory: &dyn GuestMemory) -> u64 {
    let has_more = |at: &u64| {
        let mut byte = [0];
        memory.read(*at, &mut byte).is_ok() && byte[0] != 0
    };
    (address..address.saturating_add(MOST))
        .take_while(has_more)
        .count() as u64
        + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Fault;
    use syscalls::Sysno;

    struct Bytes(Vec<u8>);

    impl GuestMemory for Bytes {
        fn read(&self, addr: u64, out: &mut [u8]) -> Result<(), Fault> {
            let start = addr as usize;
            let bytes = self.0.get(start..start + out.len()).ok_or(Fault(addr))?;
            out.copy_from_slice(bytes);
            Ok(())
        }

        fn write(&mut self, addr: u64, _: &[u8]) -> Result<(), Fault> {
            Err(Fault(addr))
        }

        fn peek(&self, addr: u64, out: &mut [u8]) -> Result<(), Fault> {
            self.read(addr, out)
        }

        fn poke(&mut self, addr: u64, _: &[u8]) -> Result<(), Fault> {
            Err(Fault(addr))
        }
    }

    #[test]
    fn a_vector_is_filled_as_far_as_the_result_goes() {
        let mut bytes = vec![0; 64];
        for (at, value) in [(16, 0x1000_u64), (24, 10), (32, 0x2000), (40, 10)] {
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        let call = Call::new(Sysno::readv, [3, 16, 2, 0, 0, 0]);
        let spans = fills(1, Length::Vector(2)).spans(&call, 13, &Bytes(bytes));
        assert_eq!(spans, [(0x1000..0x100a, true), (0x2000..0x2003, true)]);
    }

    #[test]
    fn a_path_ends_with_its_text() {
        let call = Call::new(Sysno::open, [1, 0, 0, 0, 0, 0]);
        let spans = reads(0, Length::Text).spans(&call, 3, &Bytes(b"\0/etc\0rest".to_vec()));
        assert_eq!(spans, [(1..6, false)]);
    }
}
