//! How a search is going, on standard error: a line that is rewritten on a terminal, plain lines now and then elsewhere.

use super::check::ProgressArg;
use explore::{Counters, Progress};
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const ON_TERMINAL: Duration = Duration::from_millis(250);
const ELSEWHERE: Duration = Duration::from_secs(10);

/// A running display. Dropping it without [`Display::finish`] ends it too.
pub struct Display(Option<(Sender<()>, JoinHandle<()>)>);

impl Display {
    pub fn start(progress: Arc<Progress>, when: ProgressArg, quiet: bool) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let wanted = match when {
            ProgressArg::Never => false,
            ProgressArg::Always => true,
            ProgressArg::Auto => is_terminal && !quiet,
        };
        if !wanted {
            return Self(None);
        }
        let (stop, stopped) = channel::<()>();
        let display = move || {
            let started = Instant::now();
            let period = if is_terminal { ON_TERMINAL } else { ELSEWHERE };
            while stopped.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                show(&progress.snapshot(), started.elapsed(), is_terminal);
            }
            if is_terminal {
                // Leaves an empty line for what comes next.
                let _ = write!(std::io::stderr(), "\r\x1b[K");
            } else {
                show(&progress.snapshot(), started.elapsed(), false);
            }
        };
        // A search that cannot be watched is still a search.
        let thread = std::thread::Builder::new().spawn(display).ok();
        Self(thread.map(|thread| (stop, thread)))
    }

    pub fn finish(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some((stop, thread)) = self.0.take() {
            drop(stop);
            // A display that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        self.end();
    }
}

fn show(counters: &Counters, elapsed: Duration, is_terminal: bool) {
    let states = counters.states_new + counters.states_revisited;
    let rate = counters.transitions as f64 / elapsed.as_secs_f64().max(0.001);
    let pairs = match counters.pairs {
        0 => String::new(),
        pairs => format!(" pairs={pairs}"),
    };
    let line = format!(
        "states={states} unique={} depth={} transitions/s={rate:.0} checkpoints={}{pairs} elapsed={:.1}s",
        counters.states_new,
        counters.max_depth,
        counters.marks_live,
        elapsed.as_secs_f64()
    );
    let mut out = std::io::stderr();
    // Progress that cannot be shown is not worth an error.
    let _ = if is_terminal {
        write!(out, "\r\x1b[K{line}").and_then(|()| out.flush())
    } else {
        writeln!(out, "{line}")
    };
}
