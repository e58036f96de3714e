//! Timers with a descriptor. Nothing fires: expirations are counted from the virtual clock when somebody
//! looks.

use crate::clock::Nanos;
use crate::fd::PollEvents;
use syscalls::Errno;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TimerFd {
    pub clock: i32,
    /// The first expiration that was not read yet, on the monotonic clock; `None` when disarmed.
    first: Option<Nanos>,
    /// 0 for a single expiration.
    pub interval: Nanos,
}

impl TimerFd {
    pub fn new(clock: i32) -> Self {
        Self {
            clock,
            first: None,
            interval: 0,
        }
    }

    pub fn arm(&mut self, first: Option<Nanos>, interval: Nanos) {
        self.first = first;
        self.interval = interval;
    }

    /// Expirations that were not read yet.
    pub fn expirations(&self, now: Nanos) -> u64 {
        match self.first {
            Some(first) if first <= now => match self.interval {
                0 => 1,
                interval => 1 + (now - first) / interval,
            },
            _ => 0,
        }
    }

    /// The latest expiration that was not read yet: what an edge-triggered watcher compares with.
    pub fn latest(&self, now: Nanos) -> Option<Nanos> {
        let count = self.expirations(now);
        (count > 0).then(|| self.first.unwrap_or(0) + (count - 1) * self.interval)
    }

    /// As if it were armed for the beginning of time, unless it has expired.
    pub fn without_time(&mut self, now: Nanos) {
        if self.expirations(now) == 0 {
            self.first = self.first.map(|_| 0);
        }
    }

    /// The first expiration after now.
    pub fn next(&self, now: Nanos) -> Option<Nanos> {
        let first = self.first?;
        if first > now {
            return Some(first);
        }
        (self.interval > 0).then(|| first + self.expirations(now) * self.interval)
    }

    pub fn read(&mut self, max: usize, now: Nanos) -> Result<Vec<u8>, Errno> {
        if max < 8 {
            return Err(Errno::EINVAL);
        }
        let count = self.expirations(now);
        if count == 0 {
            return Err(Errno::EAGAIN);
        }
        self.first = self.next(now);
        Ok(count.to_le_bytes().to_vec())
    }

    pub fn poll(&self, now: Nanos) -> PollEvents {
        if self.expirations(now) > 0 {
            PollEvents::IN
        } else {
            PollEvents::empty()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expirations_add_up_until_they_are_read() {
        let mut timer = TimerFd::new(libc::CLOCK_MONOTONIC);
        timer.arm(Some(100), 10);
        assert_eq!(timer.read(8, 99), Err(Errno::EAGAIN));
        assert_eq!(timer.expirations(125), 3);
        assert_eq!(timer.latest(125), Some(120));
        assert_eq!(timer.next(125), Some(130));
        assert_eq!(timer.read(8, 125), Ok(3_u64.to_le_bytes().to_vec()));
        assert_eq!(timer.read(8, 125), Err(Errno::EAGAIN));
        timer.arm(Some(5), 0);
        assert_eq!(timer.read(8, 125), Ok(1_u64.to_le_bytes().to_vec()));
        assert_eq!(timer.next(125), None);
    }
}
