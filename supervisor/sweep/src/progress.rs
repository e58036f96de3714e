//! How a sweep is going, on standard error: a line for every scenario that has ended, and, on a terminal, one below them for those that run.

use super::record::{Record, Status};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

pub struct Progress {
    bar: Option<ProgressBar>,
    is_quiet: bool,
    total: usize,
    done: usize,
    failed: usize,
    running: Vec<String>,
}

impl Progress {
    pub fn start(total: usize, wanted: bool) -> Progress {
        let live = std::io::stderr().is_terminal() && wanted;
        let bar = live.then(|| {
            let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr());
            // Only a wrong template can fail, and then the plain one is as good.
            if let Ok(style) = ProgressStyle::with_template("{spinner} {pos}/{len} {elapsed}  {wide_msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Progress {
            bar,
            is_quiet: !wanted,
            total,
            done: 0,
            failed: 0,
            running: Vec::new(),
        }
    }

    pub fn started(&mut self, id: &str) {
        self.running.push(id.to_owned());
        self.show();
    }

    /// `None`: it was interrupted.
    pub fn ended(&mut self, id: &str, record: Option<&Record>) {
        self.running.retain(|running| running != id);
        if let Some(record) = record {
            self.done += 1;
            self.failed += usize::from(record.status == Status::Failed);
            let width = self.total.to_string().len();
            let why = record
                .reason
                .as_ref()
                .map_or_else(|| record.verdict(), Clone::clone);
            let again = if record.resumed { ", from before" } else { "" };
            self.line(&format!(
                "[{:width$}/{}] {:<5} {id}: {why} ({:.1} s{again})",
                self.done,
                self.total,
                record.status.word(),
                record.time_s
            ));
        }
        self.show();
    }

    /// A line for the reader, above the one that moves.
    pub fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{text}")),
            None if self.is_quiet => {}
            None => eprintln!("{text}"),
        }
    }

    fn show(&self) {
        let Some(bar) = &self.bar else { return };
        bar.set_position(self.done as u64);
        let failed = match self.failed {
            0 => String::new(),
            n => format!("{n} failed; "),
        };
        bar.set_message(format!("{failed}{}", self.running.join(" · ")));
    }

    pub fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
