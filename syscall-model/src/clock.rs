//! The virtual clock: it stands still while any thread can run.
//!
//! Time passes only when every thread waits; it then jumps to the earliest deadline, so that sleeps cost
//! nothing and two runs of one schedule read the same times. A thread that polls the clock in a loop would
//! wait for ever on a clock that stands still: after [`Clock::PATIENCE`] readings in a row without a
//! visible operation each further reading moves the clock, by little at first, for programs that work and look
//! now and then whether they should give up, and by [`Clock::TICK`] in the end. The same goes for threads that look for an
//! event again and again without waiting for it ([`Clock::idle_tick`]); the supervisor knows when they do.

/// Nanoseconds on the virtual monotonic clock.
pub type Nanos = u64;

/// 2030-01-01 00:00:00 UTC: later than any file a user has, so that nothing lies in the future.
pub const DEFAULT_EPOCH_SECONDS: u64 = 1_893_456_000;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Clock {
    monotonic: Nanos,
    epoch: Nanos,
    /// `clock_settime` and `settimeofday` are refused, so the distance between the clocks is constant.
    readings: u32,
    /// How long these readings have moved it.
    polled: Nanos,
    /// How long it has moved on for programs that only look for something, and find nothing.
    idle: Nanos,
}

impl Clock {
    pub const PATIENCE: u32 = 64;
    pub const TICK: Nanos = 1_000_000;
    const SHORTEST_TICK: Nanos = 10_000;
    /// The monotonic clock of a machine that has been up for a while; some programs take 0 for "unset".
    const UPTIME: Nanos = 1_000_000_000_000;

    pub fn new(epoch_seconds: u64) -> Self {
        Self {
            monotonic: Self::UPTIME,
            epoch: epoch_seconds * 1_000_000_000 - Self::UPTIME,
            readings: 0,
            polled: 0,
            idle: 0,
        }
    }

    /// The monotonic time, for deadlines; does not count as a reading.
    pub fn now(&self) -> Nanos {
        self.monotonic
    }

    /// The wall-clock time in nanoseconds since 1970; does not count as a reading.
    pub fn realtime(&self) -> Nanos {
        self.epoch + self.monotonic
    }

    /// The monotonic time at which the wall clock shows `realtime`.
    pub fn monotonic_of_realtime(&self, realtime: Nanos) -> Nanos {
        realtime.saturating_sub(self.epoch)
    }

    /// Since the program began: what the clocks of processor time show.
    pub fn since_start(&self) -> Nanos {
        self.monotonic - Self::UPTIME
    }

    /// The guest looks at the clock.
    pub fn read(&mut self) {
        self.readings = self.readings.saturating_add(1);
        if self.readings > Self::PATIENCE {
            let tick = (self.polled / 1024).clamp(Self::SHORTEST_TICK, Self::TICK);
            self.polled += tick;
            self.monotonic += tick;
        }
    }

    /// A visible operation happened: whoever reads the clock now is not merely polling it.
    pub fn visible_operation(&mut self) {
        (self.readings, self.polled) = (0, 0);
    }

    /// How long nothing has happened but looks that found nothing.
    pub fn idle(&self) -> Nanos {
        self.idle
    }

    /// When everybody only looks for something, and has done so a few times, time passes by this much: little at first, as
    /// little as that takes; and more the longer nothing happens, so that a program which looks for hours gets through them. If it
    /// `recurs`, the looks change nothing at all, and it is only time that it can wait for.
    pub fn idle_tick(&self, recurs: bool) -> Nanos {
        const SECOND: Nanos = 1_000_000_000;
        match recurs {
            true => Self::TICK.max(self.idle / 4),
            false => (self.idle / 256).clamp(Self::TICK, SECOND),
        }
    }

    /// Time has passed while everybody only looked.
    pub fn idled(&mut self, since: Nanos) {
        self.idle += self.monotonic - since;
    }

    /// Something has happened.
    pub fn progressed(&mut self) {
        self.idle = 0;
    }

    /// Jumps forward to `deadline`; never back.
    pub fn advance_to(&mut self, deadline: Nanos) {
        self.monotonic = self.monotonic.max(deadline);
    }
}
