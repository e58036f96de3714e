//! Captured standard output and error: part of the outcome of a path, never printed once per schedule.

use imbl::Vector;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// One stream: the pieces written so far. Pieces are shared between checkpoints.
#[derive(Clone, Debug, Default, Eq)]
pub struct Stream {
    pieces: Vector<Arc<[u8]>>,
    len: u64,
    /// Kept along, so that hashing a state does not read all output again.
    digest: u64,
}

impl PartialEq for Stream {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.digest == other.digest && self.bytes() == other.bytes()
    }
}

impl Hash for Stream {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.len.hash(state);
        self.digest.hash(state);
    }
}

impl Stream {
    pub fn write(&mut self, data: &[u8]) {
        // FNV-1a, byte by byte: the digest must not depend on how the bytes were cut into writes.
        for &byte in data {
            self.digest = (self.digest ^ u64::from(byte))
                .wrapping_mul(0x0000_0100_0000_01b3)
                .rotate_left(5);
        }
        self.len += data.len() as u64;
        self.pieces.push_back(data.into());
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.pieces
            .iter()
            .flat_map(|piece| piece.iter().copied())
            .collect()
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Output {
    pub stdout: Stream,
    pub stderr: Stream,
}

impl Output {
    pub fn write(&mut self, stream: u8, data: &[u8]) {
        match stream {
            2 => self.stderr.write(data),
            _ => self.stdout.write(data),
        }
    }
}
