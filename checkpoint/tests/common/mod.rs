//! What the tests of this crate share: real C programs, stopped at each `getppid`, and full dumps of their memory to compare with.
#![allow(dead_code, reason = "each test binary uses its part")]

use checkpoint::{Backend, Checkpointer, MarkId, Result, ThreadStack, View};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tracee::{Filter, ImageOptions, Launch, Outcome, Regs, Resume, Stop, Stopped, XState};

pub const BOTH: [Backend; 2] = [Backend::Fork, Backend::Rewind];

/// A guest stops at this call: the boundary of a step.
pub const STEP: i64 = libc::SYS_getppid;

/// Calls that change the mappings, or drop memory.
const LAYOUT: [i64; 6] = [
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_brk,
    libc::SYS_madvise,
];

/// A compiled guest; its file lives as long as this.
pub struct Guest {
    pub dir: TempDir,
    pub path: PathBuf,
}

impl Guest {
    /// Compiles a C program.
    pub fn new(source: &str) -> Guest {
        let dir = tempfile::tempdir().expect("temporary directory");
        let (c, path) = (dir.path().join("guest.c"), dir.path().join("guest"));
        std::fs::write(&c, source).expect("writing the guest");
        let status = Command::new("cc")
            .args(["-O1", "-Wno-unused-result", "-pthread", "-Wl,-z,now", "-o"])
            .args([&path, &c])
            .status()
            .expect("running cc");
        assert!(status.success(), "the guest does not compile");
        Guest { dir, path }
    }

    /// Launched, and at the first step.
    pub fn start(&self, backend: Backend, args: &[&str]) -> Machine {
        Machine::launch(&self.path, backend, args)
    }
}

/// A task, its checkpoints, and what the caller of the crate has to keep itself.
pub struct Machine {
    pub task: Option<Stopped>,
    pub marks: Box<dyn Checkpointer>,
    /// Steps done: the result of the call that ended the last one, so that a guest can count without memory.
    pub count: i64,
}

/// A mark with registers.
pub struct Saved {
    pub mark: MarkId,
    pub regs: Regs,
    pub xstate: XState,
    pub count: i64,
}

impl Machine {
    pub fn launch(program: &Path, backend: Backend, args: &[&str]) -> Machine {
        let seen = LAYOUT.iter().chain(&[
            STEP,
            libc::SYS_set_tid_address,
            libc::SYS_rseq,
            libc::SYS_execve,
            libc::SYS_getrandom,
        ]);
        let seen: Vec<i64> = seen.copied().collect();
        let launch = Launch {
            program: program.to_owned(),
            argv: std::iter::once("guest")
                .chain(args.iter().copied())
                .map(Into::into)
                .collect(),
            env: vec![("LANG".into(), "C".into())],
            cwd: "/".into(),
            filter: Filter::new((0..450).filter(|&nr| !seen.contains(&i64::from(nr)))),
            // The dynamic loader keeps the answers of `cpuid`, which tell the core.
            core: Some(0),
            // And when it started.
            hide_tsc: true,
            confine: true,
        };
        let mut task = launch.spawn().expect("launch");
        prepare(&mut task);
        let marks = checkpoint::best(&mut task, backend).expect("a checkpointer");
        assert_eq!(marks.backend(), backend);
        let mut machine = Machine {
            task: Some(task),
            marks,
            count: 0,
        };
        assert!(machine.step(), "the guest ends before its first step");
        machine
    }

    /// Runs to the next step; `false` if the guest has ended, successfully.
    pub fn step(&mut self) -> bool {
        let mut task = self.task.take().expect("the guest has ended");
        if let Stop::Seccomp { nr: STEP } = *task.stop() {
            task.skip_call(self.count).expect("registers");
            self.count += 1;
        }
        loop {
            let running = task.resume(Resume::Cont, None).expect("resume");
            match running.wait_ignoring_ticks().expect("wait") {
                Outcome::Stopped(stopped) => task = stopped,
                Outcome::Exited(0) => return false,
                other => panic!("{other:?}"),
            }
            match *task.stop() {
                Stop::Seccomp { nr: STEP } => {
                    self.task = Some(task);
                    return true;
                }
                Stop::Seccomp { nr } if LAYOUT.contains(&nr) => task = self.layout_call(task, nr),
                // What these leave in memory differs from process to process.
                Stop::Seccomp {
                    nr: libc::SYS_set_tid_address,
                } => task.skip_call(1000).unwrap(),
                Stop::Seccomp { nr: libc::SYS_rseq } => task.skip_call(-i64::from(libc::ENOSYS)).unwrap(),
                Stop::Seccomp {
                    nr: libc::SYS_getrandom,
                } => {
                    let [buffer, len, ..] = task.regs().unwrap().args();
                    task.memory().write(buffer, &vec![0x5a; len as usize]).unwrap();
                    task.skip_call(len as i64).unwrap();
                }
                Stop::Seccomp { nr: libc::SYS_execve } => {}
                Stop::Exec => {
                    prepare(&mut task);
                    self.marks.layout_changed();
                }
                Stop::Signal {
                    signo: libc::SIGSEGV, ..
                } => no_time(&mut task),
                other => panic!("{other:?} at {:x?}", task.regs()),
            }
        }
    }

    /// Lets the task make a memory call and tells the checkpoints where it changed something, as far as that is known.
    fn layout_call(&mut self, task: Stopped, nr: i64) -> Stopped {
        let [start, len, third, ..] = task.regs().unwrap().args();
        let running = task.resume(Resume::Syscall, None).expect("resume");
        let task = match running.wait_ignoring_ticks().expect("wait") {
            Outcome::Stopped(task) => task,
            other => panic!("{other:?}"),
        };
        assert_eq!(*task.stop(), Stop::SyscallExit);
        let result = task.regs().unwrap().rax;
        match nr {
            libc::SYS_mmap if (result as i64) >= 0 => self.marks.layout_changed_in(result..result + len),
            libc::SYS_munmap | libc::SYS_mprotect => self.marks.layout_changed_in(start..start + len),
            libc::SYS_madvise if third as i32 == libc::MADV_DONTNEED => {
                self.marks.memory_dropped(start..start + len);
            }
            _ => self.marks.layout_changed(),
        }
        task
    }

    pub fn steps(&mut self, n: usize) {
        (0..n).for_each(|_| assert!(self.step()));
    }

    pub fn task(&mut self) -> &mut Stopped {
        self.task.as_mut().expect("the guest has ended")
    }

    /// First argument of the call that ended the step.
    pub fn argument(&mut self) -> u64 {
        self.task().regs().unwrap().rdi
    }

    pub fn mark(&mut self) -> Saved {
        self.try_mark().expect("mark")
    }

    pub fn try_mark(&mut self) -> Result<Saved> {
        let task = self.task.as_mut().expect("the guest has ended");
        let mark = self.marks.mark(task)?;
        Ok(Saved {
            mark,
            regs: *task.regs().unwrap(),
            xstate: task.xstate().unwrap(),
            count: self.count,
        })
    }

    pub fn restore(&mut self, saved: &Saved) {
        self.try_restore(saved, false).expect("restore");
    }

    pub fn try_restore(&mut self, saved: &Saved, last: bool) -> Result<()> {
        let task = self.task.as_mut().expect("the guest has ended");
        if last {
            self.marks.restore_last(task, saved.mark)?;
        } else {
            self.marks.restore(task, saved.mark)?;
        }
        task.set_regs(saved.regs);
        task.set_xstate(&saved.xstate).unwrap();
        self.count = saved.count;
        Ok(())
    }

    /// What counts: all but dead stack.
    pub fn view(&mut self) -> View {
        let regs = *self.task().regs().unwrap();
        View {
            threads: vec![ThreadStack {
                sp: regs.rsp,
                tls: regs.fs_base,
            }],
            exclude: Vec::new(),
            dead: vec![],
        }
    }

    pub fn identity(&mut self) -> u128 {
        let view = self.view();
        self.identity_of(&view)
    }

    pub fn identity_of(&mut self, view: &View) -> u128 {
        let task = self.task.as_mut().expect("the guest has ended");
        self.marks.identity(task, view).expect("identity")
    }

    pub fn dump(&mut self) -> Dump {
        Dump::of(self.task())
    }
}

/// Answers `rdtsc`.
fn no_time(task: &mut Stopped) {
    let mut code = [0; 2];
    let rip = task.regs().unwrap().rip;
    task.memory().read(rip, &mut code).unwrap();
    assert_eq!(code, [0x0f, 0x31], "a segmentation fault at {rip:#x}");
    task.update_regs(|regs| (regs.rax, regs.rdx, regs.rip) = (0, 0, rip + 2))
        .unwrap();
}

fn prepare(task: &mut Stopped) {
    let options = ImageOptions {
        random: [0x5a; 16],
        hide_tsc: true,
    };
    task.prepare_image(&options).expect("prepare_image");
}

/// All private memory of a task, read without the crate under test: mappings, and all pages that are not zero.
#[derive(PartialEq, Eq, Clone)]
pub struct Dump {
    mappings: Vec<(u64, u64, String, String)>,
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Dump {
    pub fn of(task: &Stopped) -> Dump {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", task.pid())).expect("maps");
        let mut dump = Dump {
            mappings: Vec::new(),
            pages: BTreeMap::new(),
        };
        for line in maps.lines() {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let (start, end) = fields[0].split_once('-').unwrap();
            let (start, end) = (address(start), address(end));
            let name = fields.get(5).copied().unwrap_or("");
            if name == "[vsyscall]" {
                continue;
            }
            dump.add_mapping(start, end, fields[1], name);
            for addr in (start..end).step_by(4096) {
                let mut page = vec![0; 4096];
                // Not behind the end of a file.
                if task.memory().read_forced(addr, &mut page).is_ok() && page.iter().any(|&byte| byte != 0) {
                    dump.pages.insert(addr, page);
                }
            }
        }
        dump
    }

    /// Areas that behave alike are one; the stack starts anywhere.
    fn add_mapping(&mut self, start: u64, end: u64, perms: &str, name: &str) {
        let start = if name == "[stack]" { 0 } else { start };
        let name = name.replace("[heap]", "");
        match self.mappings.last_mut() {
            Some(last) if last.1 == start && last.2 == perms && last.3 == name => last.1 = end,
            _ => self.mappings.push((start, end, perms.to_owned(), name)),
        }
    }

    /// Panics with the first difference.
    pub fn assert_same(&self, other: &Dump, what: &str) {
        assert_eq!(self.mappings, other.mappings, "{what}");
        let all = self.pages.keys().chain(other.pages.keys());
        for addr in all {
            let (a, b) = (self.pages.get(addr), other.pages.get(addr));
            let differ = || -> Vec<_> {
                let bytes = a.into_iter().flatten().zip(b.into_iter().flatten()).enumerate();
                bytes.filter(|(_, (a, b))| a != b).take(32).collect()
            };
            assert!(
                a == b,
                "{what}: page {addr:#x} differs (there: {} {}), at {:x?}",
                a.is_some(),
                b.is_some(),
                differ()
            );
        }
    }

    pub fn bytes(&self) -> usize {
        self.pages.len() * 4096
    }
}

fn address(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap()
}
