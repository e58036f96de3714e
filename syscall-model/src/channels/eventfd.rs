//! Event counters.

use crate::fd::PollEvents;
use syscalls::Errno;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EventFd {
    pub counter: u64,
    /// `EFD_SEMAPHORE`: a read takes one instead of all.
    pub semaphore: bool,
}

impl EventFd {
    pub fn read(&mut self, max: usize) -> Result<Vec<u8>, Errno> {
        if max < 8 {
            return Err(Errno::EINVAL);
        }
        if self.counter == 0 {
            return Err(Errno::EAGAIN);
        }
        let taken = if self.semaphore { 1 } else { self.counter };
        self.counter -= taken;
        Ok(taken.to_le_bytes().to_vec())
    }

    pub fn write(&mut self, data: &[u8]) -> Result<usize, Errno> {
        // Exactly eight bytes since Linux 6.9.
        let value: [u8; 8] = data.try_into().map_err(|_| Errno::EINVAL)?;
        let value = u64::from_le_bytes(value);
        if value == u64::MAX {
            return Err(Errno::EINVAL);
        }
        if !self.has_room(value) {
            return Err(Errno::EAGAIN);
        }
        self.counter += value;
        Ok(8)
    }

    /// The counter never reaches its maximum.
    pub fn has_room(&self, value: u64) -> bool {
        u64::MAX - self.counter > value
    }

    pub fn poll(&self) -> PollEvents {
        let mut events = PollEvents::empty();
        events.set(PollEvents::IN, self.counter > 0);
        events.set(PollEvents::OUT, self.counter < u64::MAX - 1);
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_semaphore_is_taken_one_by_one() {
        let mut fd = EventFd {
            counter: 2,
            semaphore: true,
        };
        assert_eq!(fd.read(8), Ok(1_u64.to_le_bytes().to_vec()));
        assert_eq!(fd.read(8), Ok(1_u64.to_le_bytes().to_vec()));
        assert_eq!(fd.read(8), Err(Errno::EAGAIN));
        assert_eq!(fd.read(7), Err(Errno::EINVAL));
    }

    #[test]
    fn the_counter_does_not_overflow() {
        let mut fd = EventFd {
            counter: 0,
            semaphore: false,
        };
        assert_eq!(fd.write(&u64::MAX.to_le_bytes()), Err(Errno::EINVAL));
        assert_eq!(fd.write(&(u64::MAX - 1).to_le_bytes()), Ok(8));
        assert_eq!(fd.write(&1_u64.to_le_bytes()), Err(Errno::EAGAIN));
        assert_eq!(fd.poll(), PollEvents::IN);
        assert_eq!(fd.write(&[0; 16]), Err(Errno::EINVAL));
    }
}
