//! Measuring on a machine that does other things too: many short samples, those that are to be compared in turns, medians.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::Result;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// One sample: seconds per operation.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub elapsed: f64,
    /// Of the processor: on a loaded machine this tells more than what has elapsed.
    pub busy: f64,
}

/// Something that can be measured again and again.
pub type Sampler<'a> = Box<dyn FnMut() -> Result<Cost> + 'a>;

/// Takes so many samples of each, in turns, so that whatever else the machine does meets all alike; the medians.
pub fn in_turns<const N: usize>(rounds: usize, mut samplers: [Sampler; N]) -> Result<[Cost; N]> {
    let mut samples: [Vec<Cost>; N] = std::array::from_fn(|_| Vec::with_capacity(rounds));
    for _ in 0..rounds {
        for (sampler, samples) in samplers.iter_mut().zip(&mut samples) {
            samples.push(sampler()?);
        }
    }
    Ok(samples.map(|samples| Cost {
        elapsed: median(samples.iter().map(|cost| cost.elapsed).collect()),
        busy: median(samples.iter().map(|cost| cost.busy).collect()),
    }))
}

/// What `work` costs for each of `operations`.
pub fn timed(operations: u64, work: impl FnOnce() -> Result<()>) -> Result<Cost> {
    let busy = busy()?;
    let started = Instant::now();
    work()?;
    let elapsed = started.elapsed();
    Ok(Cost::per(operations, elapsed, self::busy()?.saturating_sub(busy)))
}

impl Cost {
    pub fn per(operations: u64, elapsed: Duration, busy: Duration) -> Self {
        let operations = operations as f64;
        Self {
            elapsed: elapsed.as_secs_f64() / operations,
            busy: busy.as_secs_f64() / operations,
        }
    }

    /// What is left when a part of it is measured alone.
    pub fn without(self, part: Cost) -> Self {
        Self {
            elapsed: self.elapsed - part.elapsed,
            busy: self.busy - part.busy,
        }
    }
}

/// Processor time of this process and of all its children, those that have ended and those that live.
pub fn busy() -> Result<Duration> {
    let mut all = Duration::ZERO;
    for who in [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN] {
        let usage = getrusage(who)?;
        all += duration(usage.user_time()) + duration(usage.system_time());
    }
    for thread in fs::read_dir("/proc/self/task")? {
        // Threads and children may end while one looks.
        let children = fs::read_to_string(thread?.path().join("children")).unwrap_or_default();
        all += children.split_whitespace().map(busy_task).sum::<Duration>();
    }
    Ok(all)
}

/// Processor time of a task: the first number of its `schedstat`.
fn busy_task(pid: &str) -> Duration {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    let nanoseconds = text
        .split_whitespace()
        .next()
        .and_then(|number| number.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

fn duration(time: TimeVal) -> Duration {
    let microseconds = time.tv_sec() * 1_000_000 + time.tv_usec();
    Duration::from_micros(microseconds.unsigned_abs())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}
