//! What may replace the program, and under which name.

use crate::call::Call;
use crate::effect::{Effect, Outcome};
use crate::fs::MemoryHost;
use crate::memory::{GuestMemory, GuestMemoryExt};
use crate::model::Cx;
use crate::testing::{BASE, Kernel};
use crate::wait::Wake;
use syscalls::{Errno, Sysno};

const PATH: u64 = BASE;
const ARGV: u64 = BASE + 0x200;
const STRING: u64 = BASE + 0x300;

fn execve(kernel: &mut Kernel, path: &str) -> Outcome {
    let host = MemoryHost::default()
        .directory("/bin")
        .file("/bin/dash", 0o755, b"\x7fELF")
        .file("/bin/notes", 0o644, b"text")
        .file("/bin/garbage", 0o755, b"text")
        .file("/bin/script", 0o755, b"#! /bin/sh  -e -u \ntrue\n")
        .file("/bin/outer", 0o755, b"#!/bin/script\n")
        .file("/bin/lost", 0o755, b"#!/bin/none\n")
        .file("/bin/circle", 0o755, b"#!/bin/circle\n")
        .link("/bin/sh", "dash");
    let mut terminated = path.as_bytes().to_vec();
    terminated.push(0);
    kernel.mem.write(PATH, &terminated).unwrap();
    kernel.mem.write_u64(ARGV, STRING).unwrap();
    kernel.mem.write(STRING, b"sh\0").unwrap();
    let mut cx = Cx {
        model: &mut kernel.model,
        mem: &mut kernel.mem,
        host: &host,
        net: &mut kernel.net,
        tid: Kernel::MAIN,
        wake: Wake::Ready,
    };
    cx.execute(&Call::new(Sysno::execve, [PATH, ARGV, 0, 0, 0, 0]))
}

#[test]
fn a_program_keeps_the_name_it_was_asked_for() {
    let mut kernel = Kernel::new();
    for path in ["/bin/sh", "bin/sh", "/bin/../bin/sh"] {
        let Ok(Effect::Exec(exec)) = execve(&mut kernel, path) else {
            panic!("{path}")
        };
        assert_eq!(exec.path, b"/bin/sh");
        assert_eq!(exec.argv, [b"sh".to_vec()]);
        assert!(exec.envp.is_empty());
    }
}

#[test]
fn what_cannot_run_is_refused() {
    let mut kernel = Kernel::new();
    assert_eq!(execve(&mut kernel, "/bin/none"), Err(Errno::ENOENT));
    assert_eq!(execve(&mut kernel, "/bin/notes"), Err(Errno::EACCES));
    assert_eq!(execve(&mut kernel, "/bin/garbage"), Err(Errno::ENOEXEC));
    assert_eq!(execve(&mut kernel, "/bin"), Err(Errno::EACCES));
    assert_eq!(execve(&mut kernel, "/bin/sh/x"), Err(Errno::ENOTDIR));
    assert_eq!(execve(&mut kernel, "/bin/lost"), Err(Errno::ENOENT));
    assert_eq!(execve(&mut kernel, "/bin/circle"), Err(Errno::ELOOP));
}

#[test]
fn a_program_with_threads_may_be_replaced() {
    let mut kernel = Kernel::new();
    kernel.thread();
    assert!(matches!(execve(&mut kernel, "/bin/sh"), Ok(Effect::Exec(_))));
}

#[test]
fn the_interpreter_of_a_script_runs() {
    let mut kernel = Kernel::new();
    let Ok(Effect::Exec(exec)) = execve(&mut kernel, "/bin/script") else {
        panic!("it runs")
    };
    let words =
        |words: &[&str]| -> Vec<Vec<u8>> { words.iter().map(|word| word.as_bytes().to_vec()).collect() };
    assert_eq!(exec.path, b"/bin/sh");
    assert_eq!(exec.argv, words(&["/bin/sh", "-e -u", "/bin/script"]));
    assert_eq!(exec.script.as_deref(), Some(&b"/bin/script"[..]));
    let Ok(Effect::Exec(exec)) = execve(&mut kernel, "/bin/outer") else {
        panic!("it runs")
    };
    assert_eq!(
        exec.argv,
        words(&["/bin/sh", "-e -u", "/bin/script", "/bin/outer"])
    );
    assert_eq!(exec.script.as_deref(), Some(&b"/bin/outer"[..]));
}
