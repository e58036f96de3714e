//! Pipes, slot by slot as the kernel keeps them.
//!
//! A pipe is a ring of page-sized slots. A write fills up the last slot only if its odd part fits there
//! whole, and takes fresh slots otherwise; so a pipe can be full with fewer than 65536 bytes in it, and a
//! write of at most one page is atomic. Programs that fill a pipe see this, so the model does the same.

use crate::fd::PollEvents;
use imbl::Vector;
use std::sync::Arc;
use syscalls::Errno;

const PAGE: usize = crate::memory::PAGE as usize;
const DEFAULT_SLOTS: usize = 16;
/// `/proc/sys/fs/pipe-max-size`.
const MAX_BYTES: usize = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Slot {
    /// Bytes of the page that were read already: that room is not used again.
    consumed: usize,
    bytes: Arc<Vec<u8>>,
    /// Written with `O_DIRECT`: read as one packet.
    packet: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pipe {
    slots: Vector<Slot>,
    capacity: usize,
    pub reader_open: bool,
    pub writer_open: bool,
}

impl Default for Pipe {
    fn default() -> Self {
        Self {
            slots: Vector::new(),
            capacity: DEFAULT_SLOTS,
            reader_open: true,
            writer_open: true,
        }
    }
}

impl Pipe {
    pub fn is_full(&self) -> bool {
        self.slots.len() >= self.capacity
    }

    /// How many bytes can be read, for `FIONREAD`.
    pub fn available(&self) -> usize {
        self.slots.iter().map(|slot| slot.bytes.len()).sum()
    }

    /// Takes what is there, at most `max` bytes and at most one packet; `EAGAIN` if nothing is and a
    /// writer may still come.
    pub fn read(&mut self, max: usize) -> Result<Vec<u8>, Errno> {
        let mut out = Vec::new();
        if max == 0 {
            return Ok(out);
        }
        if self.slots.is_empty() && self.writer_open {
            return Err(Errno::EAGAIN);
        }
        while out.len() < max
            && let Some(mut slot) = self.slots.pop_front()
        {
            let take = slot.bytes.len().min(max - out.len());
            out.extend_from_slice(&slot.bytes[..take]);
            if slot.packet {
                break;
            }
            if take < slot.bytes.len() {
                Arc::make_mut(&mut slot.bytes).drain(..take);
                slot.consumed += take;
                self.slots.push_front(slot);
            }
        }
        Ok(out)
    }

    /// What a read of at most `max` bytes would take, page by page.
    pub fn pieces(&self, max: usize) -> Vec<Vec<u8>> {
        let mut left = max;
        let mut pieces = Vec::new();
        for slot in &self.slots {
            let take = slot.bytes.len().min(left);
            if take == 0 {
                break;
            }
            pieces.push(slot.bytes[..take].to_vec());
            left -= take;
            if slot.packet {
                break;
            }
        }
        pieces
    }

    /// Takes pages that stay as they are: each needs a slot, however little is in it, and nothing is added to it later. How many bytes there was room for.
    pub fn lend(&mut self, pages: impl IntoIterator<Item = Vec<u8>>) -> Result<usize, Errno> {
        if !self.reader_open {
            return Err(Errno::EPIPE);
        }
        let mut taken = 0;
        for page in pages {
            if self.is_full() {
                return if taken > 0 { Ok(taken) } else { Err(Errno::EAGAIN) };
            }
            taken += page.len();
            self.slots.push_back(Slot {
                consumed: PAGE - page.len(),
                bytes: Arc::new(page),
                packet: false,
            });
        }
        Ok(taken)
    }

    /// Would a write of this many bytes go in, at least in part?
    pub fn has_room(&self, len: usize) -> bool {
        len == 0 || !self.is_full() || self.merges(len % PAGE)
    }

    /// Does the odd part of a write fit into the last slot?
    pub(crate) fn merges(&self, odd: usize) -> bool {
        let fits = |slot: &Slot| !slot.packet && slot.consumed + slot.bytes.len() + odd <= PAGE;
        odd > 0 && self.slots.last().is_some_and(fits)
    }

    /// Writes what fits; `EAGAIN` if that is nothing, `EPIPE` without a reader. A writer that waited and goes
    /// on (`resumed`) takes fresh slots only.
    pub fn write(&mut self, data: &[u8], packets: bool, resumed: bool) -> Result<usize, Errno> {
        if data.is_empty() {
            return Ok(0);
        }
        if !self.reader_open {
            return Err(Errno::EPIPE);
        }
        let mut written = 0;
        let odd = data.len() % PAGE;
        if !resumed
            && self.merges(odd)
            && let Some(last) = self.slots.back_mut()
        {
            Arc::make_mut(&mut last.bytes).extend_from_slice(&data[..odd]);
            written = odd;
        }
        while written < data.len() && !self.is_full() {
            let end = data.len().min(written + PAGE);
            self.slots.push_back(Slot {
                consumed: 0,
                bytes: Arc::new(data[written..end].to_vec()),
                packet: packets,
            });
            written = end;
        }
        if written == 0 {
            return Err(Errno::EAGAIN);
        }
        Ok(written)
    }

    pub fn poll_reader(&self) -> PollEvents {
        let mut events = PollEvents::empty();
        events.set(PollEvents::IN | PollEvents::RDNORM, !self.slots.is_empty());
        events.set(PollEvents::HUP, !self.writer_open);
        events
    }

    pub fn poll_writer(&self) -> PollEvents {
        let mut events = PollEvents::empty();
        events.set(PollEvents::OUT | PollEvents::WRNORM, !self.is_full());
        events.set(PollEvents::ERR, !self.reader_open);
        events
    }

    /// `F_GETPIPE_SZ`.
    pub fn size(&self) -> usize {
        self.capacity * PAGE
    }

    /// `F_SETPIPE_SZ`: rounds up to a power of two of pages.
    pub fn resize(&mut self, bytes: usize) -> Result<usize, Errno> {
        if bytes > 1 << 31 {
            return Err(Errno::EINVAL);
        }
        let rounded = bytes.max(PAGE).next_power_of_two();
        if rounded > MAX_BYTES {
            return Err(Errno::EPERM);
        }
        if rounded / PAGE < self.slots.len() {
            return Err(Errno::EBUSY);
        }
        self.capacity = rounded / PAGE;
        Ok(rounded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_writes_waste_the_rest_of_their_page() {
        let mut pipe = Pipe::default();
        let mut total = 0;
        while let Ok(n) = pipe.write(&[1; 3000], false, false) {
            total += n;
        }
        assert_eq!(total, 16 * 3000);
        // A small write still fits into the last page although poll shows no room.
        assert!(!pipe.poll_writer().contains(PollEvents::OUT));
        assert!(pipe.has_room(1000) && !pipe.has_room(1097));
        assert_eq!(pipe.write(&[2; 1000], false, false), Ok(1000));
        assert_eq!(pipe.write(&[2; 1000], false, false), Err(Errno::EAGAIN));
    }

    #[test]
    fn large_writes_go_in_partly_and_end_of_file_follows_the_data() {
        let mut pipe = Pipe::default();
        assert_eq!(pipe.write(&[1; 100_000], false, false), Ok(65536));
        assert_eq!(pipe.read(65535).map(|d| d.len()), Ok(65535));
        pipe.writer_open = false;
        assert_eq!(
            pipe.poll_reader(),
            PollEvents::IN | PollEvents::RDNORM | PollEvents::HUP
        );
        assert_eq!(pipe.read(10), Ok(vec![1]));
        assert_eq!(pipe.read(10), Ok(vec![]));
    }

    #[test]
    fn pages_that_are_lent_have_a_slot_each() {
        let mut pipe = Pipe::default();
        pipe.resize(2 * PAGE).unwrap();
        let pages = [vec![1; 3], vec![2; 4], vec![3; 5]];
        assert_eq!(pipe.lend(pages.clone()), Ok(7));
        assert_eq!(pipe.lend(pages.clone()), Err(Errno::EAGAIN));
        // Nothing is added to what was lent.
        assert!(!pipe.has_room(1));
        assert_eq!(pipe.pieces(5), [vec![1; 3], vec![2; 2]]);
        assert_eq!(pipe.read(3), Ok(vec![1; 3]));
        assert_eq!(pipe.lend(pages), Ok(3));
        pipe.reader_open = false;
        assert_eq!(pipe.lend([vec![1]]), Err(Errno::EPIPE));
    }

    #[test]
    fn packets_stay_apart() {
        let mut pipe = Pipe::default();
        pipe.write(b"first", true, false).unwrap();
        pipe.write(b"second", true, false).unwrap();
        assert_eq!(pipe.read(3), Ok(b"fir".to_vec()));
        assert_eq!(pipe.read(100), Ok(b"second".to_vec()));
    }
}
