//! Backtraces of real processes that have stopped themselves.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::*;

const C_PROGRAM: &str = r#"
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) int stop_here(int depth) { kill(getpid(), SIGSTOP); return depth; } // line 5
static inline __attribute__((always_inline)) int inlined(int depth) { return stop_here(depth) + 1; } // line 6
__attribute__((noinline)) int recurse(int depth) {
    if (depth == 0) return inlined(depth) + 1; // line 8
    return recurse(depth - 1) + 1; // line 9
}
__attribute__((noinline)) int compare(const void *a, const void *b) { return recurse(*(int *)a - *(int *)b + 3); }
int main(void) { int values[] = {1, 1}; qsort(values, 2, sizeof *values, compare); return 0; } // line 12
"#;

/// A child that is killed when the test ends, however it ends.
struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        // It may have died already; then there is nothing to do.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Stopped {
    /// Starts a program and waits until it has stopped itself.
    fn start(program: &Path) -> Stopped {
        use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
        let child = Command::new(program)
            .stdin(Stdio::null())
            .spawn()
            .expect("program starts");
        let pid = nix::unistd::Pid::from_raw(child.id() as i32);
        let child = Stopped(child);
        let status = waitpid(pid, Some(WaitPidFlag::WUNTRACED)).expect("child changes state");
        assert!(matches!(status, WaitStatus::Stopped(..)), "{status:?}");
        child
    }

    fn proc(&self, file: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{file}", self.0.id()))
    }

    fn mappings(&self, own: &Path) -> Vec<FileMapping> {
        let maps = std::fs::read_to_string(self.proc("maps")).expect("maps");
        let own = own.canonicalize().expect("exists");
        maps.lines()
            .filter_map(|line| parse_mapping(line, &own))
            .collect()
    }

    /// `/proc/pid/syscall` ends with the stack and instruction pointers of a stopped process. The frame pointer is not there,
    /// so the programs here are compiled to do without.
    fn regs(&self) -> UnwindRegs {
        let line = std::fs::read_to_string(self.proc("syscall")).expect("syscall");
        let mut words = line.split_whitespace().rev();
        let mut next = || {
            words
                .next()
                .and_then(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok())
        };
        let rip = next().expect("an instruction pointer");
        let rsp = next().expect("a stack pointer");
        UnwindRegs { rip, rsp, rbp: 0 }
    }

    fn memory(&self) -> impl FnMut(u64) -> Option<u64> + use<> {
        let file = File::open(self.proc("mem")).expect("mem");
        move |address| {
            let mut bytes = [0; 8];
            file.read_exact_at(&mut bytes, address).ok()?;
            Some(u64::from_le_bytes(bytes))
        }
    }
}

fn parse_mapping(line: &str, own: &Path) -> Option<FileMapping> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let path = PathBuf::from(fields.get(5).filter(|path| path.starts_with('/'))?);
    let (start, end) = fields[0].split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    Some(FileMapping {
        range: number(start)?..number(end)?,
        file_offset: number(fields[2])?,
        is_executable: fields[1].contains('x'),
        is_own: path == own,
        file: path.clone(),
        path,
    })
}

fn compile(dir: &Path, compiler: &str, file: &str, source: &str, flags: &[&str]) -> PathBuf {
    let (source_file, program) = (dir.join(file), dir.join(format!("{file}.out")));
    std::fs::write(&source_file, source).expect("source is written");
    let mut command = Command::new(compiler);
    let output = command
        .args(flags)
        .arg("-o")
        .arg(&program)
        .arg(&source_file)
        .output()
        .expect("compiler runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    program
}

fn names(frames: &[Frame]) -> Vec<&str> {
    frames
        .iter()
        .map(|frame| frame.function.as_deref().unwrap_or("?"))
        .collect()
}

#[test]
fn a_c_program_shows_its_calls() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let flag_sets: [&[&str]; 3] = [
        &["-g", "-O1", "-fno-optimize-sibling-calls"],
        &["-g", "-O0", "-fomit-frame-pointer", "-static"],
        &["-g", "-O1", "-no-pie", "-fno-optimize-sibling-calls"],
    ];
    for flags in flag_sets {
        let program = compile(dir.path(), "gcc", "calls.c", C_PROGRAM, flags);
        let child = Stopped::start(&program);
        let mut symbolizer = Symbolizer::new();
        symbolizer.set_mappings(child.mappings(&program));
        let frames = symbolizer.backtrace(child.regs(), child.memory(), |_| None, 64);
        let found = names(&frames);
        let expected = [
            "stop_here",
            "inlined",
            "recurse",
            "recurse",
            "recurse",
            "recurse",
            "compare",
            "main",
        ];
        let in_order = expected.iter().try_fold(found.iter(), |mut rest, name| {
            rest.find(|f| f == &name).map(|_| rest)
        });
        assert!(in_order.is_some(), "{flags:?}: {:?}", names(&frames));
        let line_of = |name: &str| {
            let frame = frames
                .iter()
                .find(|frame| frame.function.as_deref() == Some(name));
            frame
                .and_then(|frame| frame.source.clone())
                .and_then(|source| source.line)
        };
        assert_eq!(
            (line_of("stop_here"), line_of("inlined"), line_of("main")),
            (Some(5), Some(6), Some(12)),
            "{flags:?}"
        );
        assert_eq!(
            line_of("recurse"),
            Some(8),
            "the innermost one calls the inlined function"
        );
        assert!(
            frames[0]
                .function
                .as_deref()
                .is_some_and(|name| name.contains("kill")),
            "{:?}",
            frames[0]
        );
    }
}

#[test]
fn the_programs_frames_come_first() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = compile(
        dir.path(),
        "gcc",
        "calls.c",
        C_PROGRAM,
        &["-g", "-O1", "-fno-optimize-sibling-calls"],
    );
    let child = Stopped::start(&program);
    let mut symbolizer = Symbolizer::new();
    symbolizer.set_mappings(child.mappings(&program));
    let frames = symbolizer.backtrace(child.regs(), child.memory(), |_| None, 64);
    let text = format_backtrace(&frames);
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with("> #1   stop_here at ") && lines[0].ends_with("calls.c:5"),
        "{text}"
    );
    assert!(lines[1].ends_with("calls.c:6 (inlined)"), "{text}");
    let first_library = lines
        .iter()
        .position(|line| line.starts_with(' '))
        .expect("library frames are shown");
    assert!(lines[first_library].contains("kill"), "{text}");
    assert!(
        lines[first_library..].iter().all(|line| line.starts_with(' ')),
        "{text}"
    );
    assert!(lines.len() - first_library <= 5, "{text}");
}

#[test]
fn cpp_and_rust_names_are_readable() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let source = "#include <csignal>\n#include <unistd.h>\nnamespace ns { template <class T> struct Box { \
        __attribute__((noinline)) T stop(T value) { kill(getpid(), SIGSTOP); return value; } }; }\n\
        int main() { return ns::Box<int>().stop(0); }\n";
    let program = compile(dir.path(), "g++", "names.cc", source, &["-O1"]);
    let child = Stopped::start(&program);
    let mut symbolizer = Symbolizer::new();
    symbolizer.set_mappings(child.mappings(&program));
    let frames = symbolizer.backtrace(child.regs(), child.memory(), |_| None, 64);
    assert!(
        names(&frames)
            .iter()
            .any(|name| name.contains("ns::Box<int>::stop(int)")),
        "{:?}",
        names(&frames)
    );

    let source = "extern \"C\" { fn raise(signal: i32) -> i32; }\nmod inner { #[inline(never)] pub fn stop() -> i32 { \
        unsafe { 1 + super::raise(19) } } }\nfn main() { std::process::exit(inner::stop()) }\n";
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let program = compile(dir.path(), &rustc, "names.rs", source, &["-O", "--edition=2021"]);
    let child = Stopped::start(&program);
    symbolizer.set_mappings(child.mappings(&program));
    let frames = symbolizer.backtrace(child.regs(), child.memory(), |_| None, 64);
    assert!(
        names(&frames).contains(&"names::inner::stop"),
        "{:?}",
        names(&frames)
    );
}

#[test]
fn scratch_slots_and_bad_pointers_do_not_end_a_backtrace() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = compile(
        dir.path(),
        "gcc",
        "calls.c",
        C_PROGRAM,
        &["-g", "-O1", "-fno-optimize-sibling-calls"],
    );
    let child = Stopped::start(&program);
    let mut symbolizer = Symbolizer::new();
    symbolizer.set_mappings(child.mappings(&program));
    let regs = child.regs();
    let plain = symbolizer.backtrace(regs, child.memory(), |_| None, 64);
    let in_slot = UnwindRegs {
        rip: 0x1_0000,
        ..regs
    };
    let back = |address| (address == 0x1_0000).then_some(regs.rip);
    assert_eq!(symbolizer.backtrace(in_slot, child.memory(), back, 64), plain);

    // At the first instruction of a function the return address is on top of the stack, as it is here behind the system call.
    let at_null = UnwindRegs { rip: 0, ..regs };
    let from_null = symbolizer.backtrace(at_null, child.memory(), |_| None, 64);
    assert_eq!(
        (from_null[0].function.as_deref(), from_null[0].module.as_deref()),
        (None, None)
    );
    assert_eq!(names(&from_null[1..]), names(&plain[1..]));
    assert_eq!(symbolizer.unwind(regs, child.memory(), 3).len(), 3);
    assert_eq!(
        symbolizer.unwind(regs, |_| None, 64),
        vec![regs.rip],
        "an unreadable stack"
    );
    assert!(symbolizer.unwind(regs, child.memory(), 0).is_empty());
}

#[test]
fn what_is_not_known_is_shown_as_numbers() {
    let mut symbolizer = Symbolizer::new();
    assert_eq!(symbolizer.symbolise(0x1234).to_string(), "0x1234");
    let mapping = FileMapping {
        range: 0x1000..0x3000,
        file_offset: 0x5000,
        path: "/nonexistent/program".into(),
        file: "/nonexistent/program".into(),
        is_executable: true,
        is_own: true,
    };
    symbolizer.set_mappings(vec![mapping]);
    assert_eq!(symbolizer.symbolise(0x1234).to_string(), "program+0x5234");
    assert_eq!(
        format_backtrace(&[symbolizer.symbolise(0x1234), symbolizer.symbolise(0x9)]),
        "> #0   program+0x5234\n  #1   0x9\n"
    );
    assert_eq!(format_backtrace(&[]), "");
}
