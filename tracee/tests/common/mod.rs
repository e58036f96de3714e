//! What the tests of this crate share: tiny guests without a C library, so that the sequence of system calls is known,
//! and helpers to drive them.
#![allow(dead_code, reason = "each test binary uses its part")]

use nix::errno::Errno;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tracee::{Filter, Image, ImageOptions, Launch, Outcome, Resume, Stop, Stopped};

/// Prelude of freestanding guests.
const PRELUDE: &str = r#"
typedef unsigned long u64;
static inline long call6(long n, long a, long b, long c, long d, long e, long f) {
  long r; register long r10 asm("r10") = d; register long r8 asm("r8") = e; register long r9 asm("r9") = f;
  asm volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
    : "rcx", "r11", "memory");
  return r;
}
#define call(n) call6(n, 0, 0, 0, 0, 0, 0)
#define call1(n, a) call6(n, (long)(a), 0, 0, 0, 0, 0)
#define call3(n, a, b, c) call6(n, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define getpid() call(39)
#define getppid() call(110)
#define exit(code) do { call1(231, code); __builtin_unreachable(); } while (0)
void guest(u64 *stack);
asm(".globl _start\n_start: mov %rsp, %rdi\n and $-16, %rsp\n call guest\n hlt");
"#;

/// A compiled guest; its file lives as long as this.
pub struct Guest {
    dir: TempDir,
    path: PathBuf,
}

impl Guest {
    /// Compiles the body of `void guest(u64 *stack)` or, with more definitions, a whole file that has one.
    pub fn new(source: &str) -> Guest {
        let dir = tempfile::tempdir().expect("temporary directory");
        let (c, path) = (dir.path().join("guest.c"), dir.path().join("guest"));
        std::fs::write(&c, format!("{PRELUDE}\n{source}\n")).expect("writing the guest");
        let flags = [
            "-O1",
            "-mavx",
            "-static",
            "-nostdlib",
            "-ffreestanding",
            "-fno-stack-protector",
            "-no-pie",
        ];
        let status = Command::new("cc")
            .args(flags)
            .arg("-o")
            .arg(&path)
            .arg(&c)
            .status()
            .expect("running cc");
        assert!(status.success(), "the guest does not compile");
        Guest { dir, path }
    }

    /// Launched and prepared, with no system call allowed.
    pub fn start(&self) -> Stopped {
        self.start_with(&[], false).0
    }

    pub fn start_with(&self, allowed: &[i64], hide_tsc: bool) -> (Stopped, Image) {
        prepared(&launch(&self.path, &["guest"], allowed), hide_tsc)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
}

pub fn launch(program: impl Into<PathBuf>, argv: &[&str], allowed: &[i64]) -> Launch {
    Launch {
        program: program.into(),
        argv: argv.iter().map(Into::into).collect(),
        env: vec![("LANG".into(), "C".into())],
        cwd: "/".into(),
        filter: Filter::new(allowed.iter().map(|&nr| nr as u32)),
        core: None,
        hide_tsc: false,
        confine: true,
    }
}

pub fn prepared(launch: &Launch, hide_tsc: bool) -> (Stopped, Image) {
    let mut task = launch.spawn().expect("launch");
    assert_eq!(*task.stop(), Stop::Exec);
    let options = ImageOptions {
        random: [0x5a; 16],
        hide_tsc,
    };
    let image = task.prepare_image(&options).expect("prepare_image");
    (task, image)
}

/// Resumes and waits for the next stop.
pub fn next(task: Stopped) -> Stopped {
    match outcome(task, Resume::Cont) {
        Outcome::Stopped(stopped) => stopped,
        other => panic!("expected a stop, got {other:?}"),
    }
}

/// Resumes and waits for the end; any stop on the way is an error.
pub fn exit_code(task: Stopped) -> i32 {
    match outcome(task, Resume::Cont) {
        Outcome::Exited(code) => code,
        other => panic!("expected the end, got {other:?}"),
    }
}

pub fn outcome(task: Stopped, how: Resume) -> Outcome {
    task.resume(how, None)
        .expect("resume")
        .wait_ignoring_ticks()
        .expect("wait")
}

/// Runs on, answering nothing, to the entry of this call.
pub fn next_call(mut task: Stopped, wanted: i64) -> Stopped {
    loop {
        task = next(task);
        match *task.stop() {
            Stop::Seccomp { nr } if nr == wanted => return task,
            Stop::Seccomp { .. } => {}
            other => panic!("expected call {wanted}, got {other:?}"),
        }
    }
}

/// Runs to the end, with every call performed; returns the exit code and the numbers of the calls.
pub fn run_all(mut task: Stopped) -> (i32, Vec<i64>) {
    let mut calls = Vec::new();
    loop {
        match outcome(task, Resume::Cont) {
            Outcome::Stopped(stopped) => {
                let Stop::Seccomp { nr } = *stopped.stop() else {
                    panic!("{:?}", stopped.stop())
                };
                calls.push(nr);
                task = stopped;
            }
            Outcome::Exited(code) => return (code, calls),
            other => panic!("{other:?}"),
        }
    }
}

/// Is there still a process with this id, be it a zombie?
pub fn exists(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

pub const GETPID: i64 = libc::SYS_getpid;

/// Makes getpid, whose result is the exit code.
pub fn pid_as_exit_code() -> Guest {
    Guest::new("void guest(u64 *s) { int p = getpid(); exit(p); }")
}

pub fn mmap_args(addr: u64) -> [u64; 6] {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    [
        addr,
        4096,
        (libc::PROT_READ | libc::PROT_WRITE) as u64,
        flags as u64,
        u64::MAX,
        0,
    ]
}

/// Injects at the current stop and checks that nothing shows.
pub fn inject_unnoticed(task: &mut Stopped) {
    let before = *task.regs().unwrap();
    let xstate = task.xstate().unwrap();
    let stop = *task.stop();
    assert_eq!(task.inject(GETPID, [0; 6]).unwrap(), i64::from(task.pid()));
    assert_eq!(
        task.inject(libc::SYS_mmap, mmap_args(0x5000_0000)).unwrap(),
        0x5000_0000
    );
    let answers = task
        .inject_many(&[
            (libc::SYS_mmap, mmap_args(0x5000_0000)),
            (libc::SYS_close, [99, 0, 0, 0, 0, 0]),
        ])
        .unwrap();
    assert_eq!(answers, [-(Errno::EEXIST as i64), -(Errno::EBADF as i64)]);
    task.memory().write(0x5000_0000, b"mapped").unwrap();
    assert_eq!(*task.regs().unwrap(), before);
    assert_eq!(task.xstate().unwrap(), xstate);
    assert_eq!(*task.stop(), stop);
}
