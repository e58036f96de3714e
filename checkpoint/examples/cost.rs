//! What checkpoints cost, as ratios of what the machine charges for its own operations, measured in the same run.
//!
//! `cargo run -p checkpoint --release --example cost`
//!
//! The guest touches a given amount of memory, then changes three pages per step. One explored transition is: restore a mark,
//! run to the next stop, compute the identity, mark. Compared with a bare stop at a filtered call, and with fork, exit and wait of the
//! same process.

use checkpoint::{Backend, Checkpointer, MarkId, ThreadStack, View};
use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use tracee::{Filter, ImageOptions, Launch, Outcome, Regs, Resume, Stop, Stopped};

const GUEST: &str = r#"
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv) {
  size_t len = atol(argv[1]) << 20;
  char *p = mmap(0, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (size_t i = 0; i < len; i += 4096) *(size_t *)(p + i) = i + 1;
  for (size_t i = 0;; i++) {
    syscall(SYS_getppid);
    for (size_t k = 0; k < 3; k++) p[(i * 7 + k * 31) * 4096 % len] = i;
    if (argc > 2) mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
}"#;

const ROUNDS: u32 = 300;

type Anyhow<T> = Result<T, Box<dyn Error>>;

fn main() -> Anyhow<()> {
    let dir = std::env::temp_dir().join(format!("checkpoint-cost-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let result = measure(&dir);
    std::fs::remove_dir_all(&dir)?;
    result
}

fn measure(dir: &Path) -> Anyhow<()> {
    let (source, program) = (dir.join("guest.c"), dir.join("guest"));
    std::fs::write(&source, GUEST)?;
    let compiled = Command::new("cc")
        .arg("-O1")
        .arg("-o")
        .args([&program, &source])
        .status()?;
    if !compiled.success() {
        return Err("cc failed".into());
    }
    println!(
        "microseconds; in brackets: as a multiple of the bare stop, and of fork+exit+wait of the same process\n"
    );
    println!(
        "{:>6} {:>7} {:>10}  {:>22} {:>22} {:>22} {:>22}",
        "MB",
        "stop",
        "fork+exit",
        "rewind: transition",
        "of it identity",
        "fork: restore+run",
        "rewind: with mmap"
    );
    for megabytes in ["1", "16", "256"] {
        let stop = bare_stop(&program, megabytes)?;
        let fork = fork_exit_wait(&program, megabytes)?;
        let (transition, identity) = rewind(&program, megabytes)?;
        let with_mmap = explored(&program, &[megabytes, "map"], true)?;
        let templates = templates(&program, megabytes)?;
        let ratio = |time: f64| format!("{time:.1} [{:.1} {:.2}]", time / stop, time / fork);
        println!(
            "{megabytes:>6} {stop:>7.1} {fork:>10.1}  {:>22} {:>22} {:>22} {:>22}",
            ratio(transition),
            ratio(identity),
            ratio(templates),
            ratio(with_mmap)
        );
    }
    Ok(())
}

/// Microseconds per round.
fn timed(rounds: u32, mut round: impl FnMut() -> Anyhow<()>) -> Anyhow<f64> {
    let start = Instant::now();
    for _ in 0..rounds {
        round()?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(rounds))
}

fn launch(program: &Path, args: &[&str]) -> Anyhow<Stopped> {
    let launch = Launch {
        program: program.to_owned(),
        argv: std::iter::once("guest")
            .chain(args.iter().copied())
            .map(Into::into)
            .collect(),
        env: vec![],
        cwd: "/".into(),
        filter: Filter::new((0..450).filter(|&nr| nr != libc::SYS_getppid as u32)),
        core: Some(0),
        hide_tsc: false,
        confine: true,
    };
    let mut task = launch.spawn()?;
    let options = ImageOptions {
        random: [1; 16],
        hide_tsc: false,
    };
    task.prepare_image(&options)?;
    next(task)
}

/// Runs to the next stop.
fn next(mut task: Stopped) -> Anyhow<Stopped> {
    if let Stop::Seccomp { .. } = task.stop() {
        task.skip_call(0)?;
    }
    match task.resume(Resume::Cont, None)?.wait_ignoring_ticks()? {
        Outcome::Stopped(task) => Ok(task),
        other => Err(format!("{other:?}").into()),
    }
}

fn bare_stop(program: &Path, megabytes: &str) -> Anyhow<f64> {
    let mut task = Some(next(launch(program, &[megabytes])?)?);
    timed(10 * ROUNDS, || {
        task = Some(next(task.take().ok_or("no task")?)?);
        Ok(())
    })
}

fn fork_exit_wait(program: &Path, megabytes: &str) -> Anyhow<f64> {
    let mut task = launch(program, &[megabytes])?;
    timed(ROUNDS / 3, || {
        task.inject_fork()?.kill();
        Ok(())
    })
}

/// A task that goes back and forth.
struct Search {
    task: Option<Stopped>,
    marks: Box<dyn Checkpointer>,
    regs: Regs,
}

impl Search {
    fn new(program: &Path, args: &[&str], backend: Backend) -> Anyhow<(Search, MarkId)> {
        let mut task = launch(program, args)?;
        let mut marks = checkpoint::best(&mut task, backend)?;
        let mark = marks.mark(&mut task)?;
        let regs = *task.regs()?;
        let task = Some(task);
        Ok((Search { task, marks, regs }, mark))
    }

    fn view(&self) -> View {
        let (sp, tls) = (self.regs.rsp, self.regs.fs_base);
        View {
            threads: vec![ThreadStack { sp, tls }],
            ..View::default()
        }
    }

    fn restore(&mut self, mark: MarkId) -> Anyhow<()> {
        let task = self.task.as_mut().ok_or("no task")?;
        self.marks.restore(task, mark)?;
        task.set_regs(self.regs);
        Ok(())
    }

    fn run(&mut self) -> Anyhow<()> {
        self.task = Some(next(self.task.take().ok_or("no task")?)?);
        Ok(())
    }
}

/// A whole explored transition; `maps` if the guest changes its mappings in it.
fn explored(program: &Path, args: &[&str], maps: bool) -> Anyhow<f64> {
    let (mut search, origin) = Search::new(program, args, Backend::Rewind)?;
    let view = search.view();
    timed(ROUNDS * 4, || {
        search.run()?;
        if maps {
            search.marks.layout_changed();
        }
        let task = search.task.as_mut().ok_or("no task")?;
        search.marks.identity(task, &view)?;
        search.marks.unchanged();
        let mark = search.marks.mark(task)?;
        search.marks.unchanged();
        search.restore(origin)?;
        search.marks.forget(mark);
        Ok(())
    })
}

/// A whole explored transition, and the identity alone.
fn rewind(program: &Path, megabytes: &str) -> Anyhow<(f64, f64)> {
    let transition = explored(program, &[megabytes], false)?;
    let (mut search, _) = Search::new(program, &[megabytes], Backend::Rewind)?;
    let view = search.view();
    let run_and_identity = timed(ROUNDS * 4, || {
        search.run()?;
        let task = search.task.as_mut().ok_or("no task")?;
        search.marks.identity(task, &view)?;
        Ok(())
    })?;
    let run = timed(ROUNDS * 4, || search.run())?;
    Ok((transition, run_and_identity - run))
}

fn templates(program: &Path, megabytes: &str) -> Anyhow<f64> {
    let (mut search, origin) = Search::new(program, &[megabytes], Backend::Fork)?;
    timed(ROUNDS / 3, || {
        search.restore(origin)?;
        search.run()
    })
}
