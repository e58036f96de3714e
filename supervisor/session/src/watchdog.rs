//! The last resort against a wait that does not end.
//!
//! Whatever waits, for the program or for a peer, looks at the limits of the command by itself, and then the command ends in good order, with a
//! verdict. This is for the wait that nobody thought of: if the time is over and a step still goes on after a while, the command ends without one. The program and all
//! peers end with it: the kernel sees to that.

use crate::Bounds;
use failure::{ExitCode, Failure};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tracee::Ticker;

/// How long a step may go on when the time is over.
const GRACE: Duration = Duration::from_millis(1500);
const LOOK: Duration = Duration::from_millis(100);

/// The steps under way, each with a number that changes when it ends; 0 between two of them.
static STEPS: Mutex<Vec<Weak<AtomicU64>>> = Mutex::new(Vec::new());
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// One execution, seen from here.
#[derive(Debug)]
pub struct Entry(Arc<AtomicU64>);

impl Default for Entry {
    fn default() -> Self {
        let step = Arc::new(AtomicU64::new(0));
        let mut steps = STEPS.lock().unwrap_or_else(PoisonError::into_inner);
        steps.retain(|step| step.strong_count() > 0);
        steps.push(Arc::downgrade(&step));
        Self(step)
    }
}

impl Entry {
    pub fn begins(&self) {
        self.0.store(NUMBERS.fetch_add(1, Relaxed), Relaxed);
    }

    pub fn ends(&self) {
        self.0.store(0, Relaxed);
    }
}

/// What keeps an execution from going on for ever: its entry here, and the timer that interrupts tasks which compute for long.
pub(crate) struct Guards {
    entry: Entry,
    _ticker: Ticker,
}

impl Guards {
    pub(crate) fn new(ticker: Ticker) -> Self {
        Self {
            entry: Entry::default(),
            _ticker: ticker,
        }
    }

    pub(crate) fn step_begins(&self) {
        self.entry.begins();
    }

    pub(crate) fn step_ends(&self) {
        self.entry.ends();
    }
}

/// Watches until it is dropped.
#[must_use = "it watches until it is dropped"]
pub struct Watchdog {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Sees to it that the command ends when the time is over; `last_words` is for whoever waits for a result.
///
/// # Errors
/// There is no thread to watch from.
pub fn watch(bounds: Bounds, last_words: impl Fn(&Failure) + Send + 'static) -> Result<Watchdog, Failure> {
    let over = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&over);
    let watching = move || {
        // The number of a step that went on when the time was over, and since when it is known.
        let mut stuck: Option<(u64, Instant)> = None;
        while !seen.load(Relaxed) {
            std::thread::park_timeout(LOOK);
            if !bounds.is_over() {
                continue;
            }
            stuck = match stuck {
                Some((step, since)) if is_under_way(step) => Some((step, since)),
                _ => oldest().map(|step| (step, Instant::now())),
            };
            if stuck.is_some_and(|(_, since)| since.elapsed() > GRACE) && !seen.load(Relaxed) {
                end(&last_words);
            }
        }
    };
    let thread = std::thread::Builder::new().spawn(watching);
    Ok(Watchdog {
        over,
        thread: Some(thread.map_err(|error| Failure::no_thread(&error))?),
    })
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A watchdog that panicked guards nothing, and nothing depends on it.
            let _ = thread.join();
        }
    }
}

fn steps() -> Vec<u64> {
    let steps = STEPS.lock().unwrap_or_else(PoisonError::into_inner);
    steps
        .iter()
        .filter_map(Weak::upgrade)
        .map(|step| step.load(Relaxed))
        .filter(|&number| number != 0)
        .collect()
}

fn is_under_way(number: u64) -> bool {
    steps().contains(&number)
}

fn oldest() -> Option<u64> {
    steps().into_iter().min()
}

fn end(last_words: &impl Fn(&Failure)) -> ! {
    let failure = Failure::new(
        ExitCode::Limit,
        "the time limit was reached while a step was still waiting: stopped without a verdict",
    )
    .hint("a peer or a file system that does not answer? -v shows the last operation");
    last_words(&failure);
    anstream::eprintln!("tracefork: {failure}");
    std::process::exit(i32::from(ExitCode::Limit as u8))
}
