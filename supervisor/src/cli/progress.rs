//! How a search is going, on standard error: a line that is rewritten on a terminal, plain lines now and then elsewhere.

use super::check::ProgressArg;
use explore::{Counters, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
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
            // A terminal that cannot rewrite a line (`TERM=dumb`) is given lines like a file.
            let bar = is_terminal.then(bar).filter(|bar| !bar.is_hidden());
            let period = if bar.is_some() { ON_TERMINAL } else { ELSEWHERE };
            while stopped.recv_timeout(period) == Err(RecvTimeoutError::Timeout) {
                show(bar.as_ref(), line(&progress.snapshot(), started.elapsed()));
            }
            match bar {
                // Leaves an empty line for what comes next.
                Some(bar) => bar.finish_and_clear(),
                None => show(None, line(&progress.snapshot(), started.elapsed())),
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

/// A line that is rewritten.
fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    // Only a wrong template can fail, and then the plain one is as good.
    match ProgressStyle::with_template("{msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn show(bar: Option<&ProgressBar>, line: String) {
    match bar {
        Some(bar) => bar.set_message(line),
        // Progress that cannot be shown is not worth an error.
        None => drop(writeln!(std::io::stderr(), "{line}")),
    }
}

fn line(counters: &Counters, elapsed: Duration) -> String {
    let states = counters.states_new + counters.states_revisited;
    let rate = counters.transitions as f64 / elapsed.as_secs_f64().max(0.001);
    let pairs = match counters.pairs {
        0 => String::new(),
        pairs => format!(" pairs={pairs}"),
    };
    format!(
        "states={states} unique={} depth={} transitions/s={rate:.0} checkpoints={}{pairs} elapsed={:.1}s",
        counters.states_new,
        counters.max_depth,
        counters.marks_live,
        elapsed.as_secs_f64()
    )
}
