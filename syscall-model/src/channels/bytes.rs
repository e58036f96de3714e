//! A queue of bytes that is cheap to clone: chunks are shared between checkpoints.
//!
//! Two queues with the same contents are equal and hash alike however they were cut into chunks, so that
//! `write("ab")` and `write("a"); write("b")` lead to the same state.

use imbl::Vector;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

#[derive(Clone, Debug, Default)]
pub struct ByteQueue {
    chunks: Vector<Arc<[u8]>>,
    /// Bytes of the first chunk that are gone.
    skip: usize,
    len: usize,
}

impl ByteQueue {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn push(&mut self, data: &[u8]) {
        if !data.is_empty() {
            self.chunks.push_back(Arc::from(data));
            self.len += data.len();
        }
    }

    /// The first bytes, at most `max`, which stay.
    pub fn peek(&self, max: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(max.min(self.len));
        for chunk in self.slices() {
            let take = chunk.len().min(max - out.len());
            out.extend_from_slice(&chunk[..take]);
            if out.len() == max {
                break;
            }
        }
        out
    }

    /// Takes the first bytes, at most `max`.
    pub fn take(&mut self, max: usize) -> Vec<u8> {
        let out = self.peek(max);
        self.discard(out.len());
        out
    }

    fn discard(&mut self, count: usize) {
        self.len -= count;
        self.skip += count;
        while let Some(first) = self.chunks.front()
            && self.skip >= first.len()
        {
            self.skip -= first.len();
            self.chunks.pop_front();
        }
    }

    fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let skips = std::iter::once(self.skip).chain(std::iter::repeat(0));
        self.chunks.iter().zip(skips).map(|(chunk, skip)| &chunk[skip..])
    }

    fn bytes(&self) -> impl Iterator<Item = &u8> {
        self.slices().flatten()
    }
}

impl PartialEq for ByteQueue {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.bytes().eq(other.bytes())
    }
}

impl Eq for ByteQueue {}

impl Hash for ByteQueue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.len);
        // A hasher may tell one write of four bytes from two of two, so the blocks must not depend on the
        // chunks.
        let mut block = [0; 256];
        let mut filled = 0;
        for &byte in self.bytes() {
            block[filled] = byte;
            filled += 1;
            if filled == block.len() {
                state.write(&block);
                filled = 0;
            }
        }
        state.write(&block[..filled]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::DefaultHasher;

    fn hash(queue: &ByteQueue) -> u64 {
        let mut hasher = DefaultHasher::new();
        queue.hash(&mut hasher);
        hasher.finish()
    }

    #[test]
    fn contents_alone_identify_a_queue() {
        let (mut one, mut two) = (ByteQueue::default(), ByteQueue::default());
        one.push(b"abcdef");
        two.push(b"xxab");
        two.push(b"cd");
        two.push(b"ef");
        assert_eq!(two.take(2), b"xx");
        assert_eq!(one, two);
        assert_eq!(hash(&one), hash(&two));
        assert_eq!(two.take(3), b"abc");
        assert_ne!(one, two);
        assert_eq!(two.peek(10), b"def");
        assert_eq!(two.take(10), b"def");
        assert!(two.is_empty());
    }
}
