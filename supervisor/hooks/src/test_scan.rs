//! The scan on real programs, checked against another disassembler.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::elf::Module;
use super::*;

/// Runs a tool from Debian, installing its package if it is missing.
pub(super) fn tool(name: &str, package: &str) -> Command {
    let is_there = |name: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        name.starts_with('/') && Path::new(name).exists()
            || std::env::split_paths(&path).any(|dir| dir.join(name).exists())
    };
    if !is_there(name) {
        let install = [
            "install",
            "-y",
            "--no-install-recommends",
            "-o",
            "DPkg::Lock::Timeout=300",
            package,
        ];
        let output = Command::new("apt-get")
            .args(install)
            .output()
            .expect("apt-get runs");
        assert!(
            is_there(name),
            "{name} is needed for this test: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Command::new(name)
}

pub(super) fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Compiles a C program into `dir`.
pub(super) fn compile(
    compiler: &str,
    package: &str,
    dir: &Path,
    name: &str,
    source: &str,
    flags: &[&str],
) -> PathBuf {
    let (file, program) = (dir.join(format!("{name}.c")), dir.join(name));
    std::fs::write(&file, source).expect("source is written");
    run(tool(compiler, package)
        .args(flags)
        .arg("-o")
        .arg(&program)
        .arg(&file)
        .args(["-pthread"]));
    program
}

/// Addresses of atomic instructions (first) and `pause` (second) as objdump sees them.
fn objdump_sites(path: &Path) -> (BTreeSet<u64>, BTreeSet<u64>) {
    let listing = run(tool("objdump", "binutils")
        .args(["-d", "-w", "--no-show-raw-insn"])
        .arg(path));
    let (mut atomics, mut pauses) = (BTreeSet::new(), BTreeSet::new());
    for line in listing.lines() {
        let Some((address, text)) = line.split_once(":\t") else {
            continue;
        };
        let Ok(address) = u64::from_str_radix(address.trim(), 16) else {
            continue;
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let mnemonic = words.iter().find(|word| !is_prefix(word)).copied().unwrap_or("");
        let is_fence =
            text.contains("$0x0,") && words.last().is_some_and(|operand| operand.ends_with("(%rsp)"));
        let is_locked =
            words.contains(&"lock") || (mnemonic.starts_with("xchg") && text.contains(['(', ':']));
        if is_locked && !is_fence && !mnemonic.is_empty() {
            atomics.insert(address);
        }
        if mnemonic == "pause" {
            pauses.insert(address);
        }
    }
    (atomics, pauses)
}

fn is_prefix(word: &str) -> bool {
    word.starts_with("rex")
        || matches!(
            word,
            "lock" | "data16" | "cs" | "ds" | "repz" | "xacquire" | "xrelease" | "addr32"
        )
}

fn own_sites(plan: &ModulePlan) -> (BTreeSet<u64>, BTreeSet<u64>) {
    let pick = |wanted: fn(&SiteKind) -> bool| {
        plan.sites
            .iter()
            .filter(|site| wanted(&site.kind))
            .map(|s| s.vaddr)
            .collect()
    };
    (
        pick(|kind| matches!(kind, SiteKind::Atomic(_))),
        pick(|kind| matches!(kind, SiteKind::Pause)),
    )
}

fn hex(addresses: impl IntoIterator<Item = u64>) -> Vec<String> {
    addresses
        .into_iter()
        .map(|address| format!("{address:#x}"))
        .collect()
}

/// The scan finds exactly what objdump finds, but for the insides of hooked functions and of Rust's runtime. Returns the number of atomics.
fn compare_with_objdump(path: &Path) -> usize {
    let bytes = std::fs::read(path).expect("module is readable");
    let plan = scan_bytes(&bytes, ModuleRole::Own, Preempt::Sync).expect("module scans");
    let module = Module::parse(&bytes).expect("module parses");
    let hooked = module.sync_functions();
    let runtime = super::runtime::runtime_functions(&module);
    let is_outside = |address: &u64| {
        let mut left_out = hooked.iter().map(|(range, _)| range).chain(&runtime);
        !left_out.any(|range| range.contains(address))
    };
    let (atomics, pauses) = own_sites(&plan);
    let (expected_atomics, expected_pauses) = objdump_sites(path);
    for (found, expected) in [(&atomics, expected_atomics), (&pauses, expected_pauses)] {
        let expected: BTreeSet<u64> = expected.into_iter().filter(is_outside).collect();
        let found: BTreeSet<u64> = found.iter().copied().filter(is_outside).collect();
        let missed = hex(expected.difference(&found).copied());
        let extra = hex(found.difference(&expected).copied());
        assert!(
            missed.is_empty() && extra.is_empty(),
            "{path:?}: missed {missed:?}, extra {extra:?}"
        );
    }
    atomics.len()
}

fn libc() -> &'static Path {
    Path::new("/lib/x86_64-linux-gnu/libc.so.6")
}

#[test]
fn system_programs_agree_with_objdump() {
    tool("xz", "xz-utils");
    tool("pigz", "pigz");
    tool("/usr/bin/python3.11", "python3.11-minimal");
    compare_with_objdump(Path::new("/usr/bin/xz"));
    compare_with_objdump(Path::new("/usr/bin/pigz"));
    assert!(compare_with_objdump(Path::new("/usr/bin/python3.11")) > 0);
    assert!(compare_with_objdump(libc()) > 100);
}

const C_PROGRAM: &str = r#"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
static atomic_int counter; static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static void *work(void *arg) {
    pthread_mutex_lock(&m); atomic_fetch_add(&counter, 1); pthread_mutex_unlock(&m);
    while (!atomic_load(&counter)) __builtin_ia32_pause();
    atomic_thread_fence(memory_order_seq_cst);
    return arg;
}
int main(void) { pthread_t t; pthread_create(&t, 0, work, 0); pthread_join(t, 0); printf("%d\n", counter); return 0; }
"#;

#[test]
fn static_programs_agree_with_objdump() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let musl = compile(
        "musl-gcc",
        "musl-tools",
        dir.path(),
        "musl",
        C_PROGRAM,
        &["-static", "-O2"],
    );
    assert!(compare_with_objdump(&musl) > 10);
    let stripped = dir.path().join("musl-stripped");
    run(tool("strip", "binutils").arg("-o").arg(&stripped).arg(&musl));
    compare_with_objdump(&stripped);

    let glibc = compile("gcc", "gcc", dir.path(), "glibc", C_PROGRAM, &["-static", "-O2"]);
    assert!(compare_with_objdump(&glibc) > 10);
    let plan = scan_module(&glibc, ModuleRole::Own, Preempt::Sync).expect("scans");
    let hooked: Vec<SyncFn> = sync_functions(&plan);
    assert!(
        hooked.contains(&SyncFn::MutexLock) && hooked.contains(&SyncFn::MutexUnlock),
        "{hooked:?}"
    );
    assert!(sync_functions(&scan_module(&musl, ModuleRole::Own, Preempt::Sync).expect("scans")).is_empty());
}

#[test]
fn rust_and_go_programs_agree_with_objdump() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let source = dir.path().join("main.rs");
    let text = "fn main() { let (s, r) = std::sync::mpsc::channel(); \
        std::thread::scope(|scope| { scope.spawn(move || s.send(std::sync::Arc::new(1))); println!(\"{:?}\", r.recv()); }); }";
    std::fs::write(&source, text).expect("source is written");
    let program = dir.path().join("rust");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    run(Command::new(rustc)
        .args(["-O", "--edition=2021", "-o"])
        .arg(&program)
        .arg(&source));
    assert!(compare_with_objdump(&program) > 10);

    let source = dir.path().join("main.go");
    let text = "package main\nfunc main() { c := make(chan int); go func() { c <- 1 }(); println(<-c) }\n";
    std::fs::write(&source, text).expect("source is written");
    let mut sites = Vec::new();
    for flags in ["-ldflags=", "-ldflags=-s -w"] {
        let program = dir.path().join("go");
        let mut go = tool("go", "golang-go");
        go.env("GOCACHE", dir.path().join("cache"))
            .env("GO111MODULE", "off")
            .env("HOME", dir.path());
        run(go.arg("build").arg(flags).arg("-o").arg(&program).arg(&source));
        assert!(compare_with_objdump(&program) > 100);
        sites.push(
            scan_module(&program, ModuleRole::Own, Preempt::Memory)
                .expect("scans")
                .sites
                .len(),
        );
    }
    assert!(sites[0] > 10_000);
    assert_eq!(
        sites[0], sites[1],
        "a stripped Go program shows the same loads and stores"
    );
}

fn sync_functions(plan: &ModulePlan) -> Vec<SyncFn> {
    let functions = plan.sites.iter().filter_map(|site| match site.kind {
        SiteKind::Sync(function) => Some(function),
        _ => None,
    });
    functions.collect()
}

#[test]
fn glibc_has_each_sync_function_once() {
    let plan = scan_module(libc(), ModuleRole::System, Preempt::Sync).expect("libc scans");
    let mut found = sync_functions(&plan);
    // Those of C11 go by the names of their counterparts.
    let of_c11 = [
        SyncFn::MutexLock,
        SyncFn::MutexTrylock,
        SyncFn::MutexTimedlock,
        SyncFn::MutexUnlock,
        SyncFn::CondWait,
        SyncFn::CondTimedwait,
        SyncFn::CondSignal,
        SyncFn::CondBroadcast,
        SyncFn::Once,
    ];
    let mut expected = [SyncFn::ALL, &of_c11].concat();
    assert_eq!(
        found.len(),
        expected.len(),
        "old versions of condition variable functions are left out: {found:?}"
    );
    found.sort_by_key(|function| *function as u8);
    expected.sort_by_key(|function| *function as u8);
    assert_eq!(found, expected);
    assert!(
        plan.sites
            .iter()
            .all(|site| matches!(site.kind, SiteKind::Sync(_)) || site.kind.is_emulated())
    );
    let plan = scan_module(libc(), ModuleRole::System, Preempt::Syscall).expect("libc scans");
    assert!(sync_functions(&plan).is_empty());
}

#[test]
fn random_instructions_are_found_in_libraries() {
    let source = "#include <immintrin.h>\n\
        int draw(unsigned long long *out, unsigned *seed) { return _rdrand64_step(out) + _rdseed32_step(seed); }\n\
        const unsigned char decoy[] = {0x0f, 0xc7, 0xf0};\nint main(void) { return 0; }\n";
    let dir = tempfile::tempdir().expect("temporary directory");
    let flags = ["-O2", "-mrdrnd", "-mrdseed", "-s"];
    let program = compile("gcc", "gcc", dir.path(), "random", source, &flags);
    let plan = scan_module(&program, ModuleRole::System, Preempt::Syscall).expect("scans");
    let found: Vec<RandomInsn> = plan
        .sites
        .iter()
        .filter_map(|site| match site.kind {
            SiteKind::Random(random) => Some(random),
            _ => None,
        })
        .collect();
    assert_eq!(found.len(), 2);
    assert!(found.iter().any(|random| !random.is_seed && random.width == 8));
    assert!(found.iter().any(|random| random.is_seed && random.width == 4));
    let own = scan_module(&program, ModuleRole::Own, Preempt::Sync).expect("scans");
    assert_eq!(
        own.sites
            .iter()
            .filter(|site| matches!(site.kind, SiteKind::Random(_)))
            .count(),
        2
    );
}

/// `cpuid` and the like, also in code that only calls lead to, as in libraries that are written in assembly.
#[test]
fn instructions_that_tell_the_core_are_found_in_libraries() {
    let source = "#include <cpuid.h>\n\
        asm(\".text\\nhidden: push %rbx\\n xor %eax, %eax\\n cpuid\\n pop %rbx\\n ret\\n\");\n\
        unsigned core(void) { unsigned a, b, c, d; __cpuid(1, a, b, c, d); asm volatile(\"call hidden\" ::: \"rax\", \"rcx\", \"rdx\"); return b; }\n\
        unsigned long number(void) { unsigned long n; asm volatile(\"rdpid %0\" : \"=r\"(n)); return n; }\n\
        unsigned limit(unsigned s) { unsigned n; asm volatile(\"lsl %1, %0\" : \"=r\"(n) : \"r\"(s)); return n; }\n\
        const unsigned char decoy[] = {0x0f, 0xa2, 0xf3};\nint main(void) { return 0; }\n";
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = compile(
        "gcc",
        "gcc",
        dir.path(),
        "core",
        source,
        &["-O2", "-mrdpid", "-s"],
    );
    for (role, mode) in [
        (ModuleRole::System, Preempt::Syscall),
        (ModuleRole::System, Preempt::Sync),
        (ModuleRole::Own, Preempt::Syscall),
        (ModuleRole::Own, Preempt::Sync),
    ] {
        let plan = scan_module(&program, role, mode).expect("scans");
        let count = |wanted: fn(&CoreInsn) -> bool| {
            let kinds = plan.sites.iter().filter_map(|site| match &site.kind {
                SiteKind::Core(instruction) => Some(instruction),
                _ => None,
            });
            kinds.filter(|instruction| wanted(instruction)).count()
        };
        assert_eq!(count(|i| matches!(i, CoreInsn::Cpuid)), 2, "{role:?} {mode:?}");
        assert_eq!(count(|i| matches!(i, CoreInsn::Rdpid { .. })), 1);
        assert_eq!(count(|i| matches!(i, CoreInsn::SegmentLimit { width: 4, .. })), 1);
    }
    // The dynamic loader looks at the processor before anything else runs.
    let loader = scan_module(
        Path::new("/lib64/ld-linux-x86-64.so.2"),
        ModuleRole::System,
        Preempt::Sync,
    )
    .expect("scans");
    assert!(
        loader
            .sites
            .iter()
            .any(|site| site.kind == SiteKind::Core(CoreInsn::Cpuid))
    );
}

/// Every memory operand in `code` that is not on the stack, as an access.
fn accesses_of(code: &[u8]) -> Vec<Access> {
    let mut decoder = iced_x86::Decoder::with_ip(64, code, 0x1000, iced_x86::DecoderOptions::NONE);
    let accesses = operand::accesses(
        &decoder.decode(),
        &mut iced_x86::InstructionInfoFactory::new(),
        false,
    );
    accesses
        .iter()
        .flat_map(|accesses| accesses.iter().copied())
        .collect()
}

#[test]
fn effective_addresses_follow_the_registers() {
    let mut regs = GpRegs {
        rip: 0x1000,
        fs_base: 0x7000_0000,
        ..GpRegs::default()
    };
    for (index, value) in regs.gpr.iter_mut().enumerate() {
        *value = 0x10_0000 * (index as u64 + 1);
    }
    regs.gpr[1] = 0x300;
    let (rcx, rdx, rdi, rsi) = (regs.gpr[1], regs.gpr[2], regs.gpr[7], regs.gpr[6]);
    let address = |code: &[u8]| accesses_of(code)[0].effective_address(&regs);
    assert_eq!(
        address(b"\xf0\x48\x0f\xb1\x54\x8f\x10"),
        rdi + rcx * 4 + 0x10,
        "lock cmpxchg [rdi+rcx*4+16], rdx"
    );
    assert_eq!(
        address(b"\xf0\xff\x05\x00\x01\x00\x00"),
        0x1000 + 7 + 0x100,
        "lock inc dword [rip+0x100]"
    );
    assert_eq!(
        address(b"\x64\x8b\x04\x25\xf0\xff\xff\xff"),
        0x7000_0000 - 0x10,
        "mov eax, fs:[-16]"
    );
    assert_eq!(
        address(b"\x67\x8b\x47\xff"),
        (rdi - 1) & 0xffff_ffff,
        "mov eax, [edi-1]"
    );
    assert_eq!(
        address(b"\xf0\x48\x0f\xab\x17"),
        rdi + rdx / 64 * 8,
        "lock bts [rdi], rdx"
    );
    let moved = accesses_of(b"\xf3\x48\xa5");
    assert_eq!(moved.len(), 2, "rep movsq reads and writes");
    let (write, read) = if moved[0].writes {
        (moved[0], moved[1])
    } else {
        (moved[1], moved[0])
    };
    assert_eq!(write.span(&regs), rdi..rdi + rcx * 8);
    assert_eq!(read.span(&regs), rsi..rsi + rcx * 8);
    regs.rflags = 1 << 10;
    assert_eq!(
        write.span(&regs),
        rdi + 8 - rcx * 8..rdi + 8,
        "with the direction flag it goes down"
    );
    assert!(
        accesses_of(b"\x48\x8b\x44\x24\x08").is_empty(),
        "mov rax, [rsp+8]"
    );
    assert!(accesses_of(b"\x50").is_empty(), "push rax");
    assert!(accesses_of(b"\x48\x8d\x47\x08").is_empty(), "lea rax, [rdi+8]");
    assert!(accesses_of(b"\x0f\x1f\x44\x00\x00").is_empty(), "nop [rax+rax]");
    assert_eq!(
        accesses_of(b"\xff\x37").len(),
        1,
        "push [rdi] reads one place that counts"
    );
    assert_eq!(accesses_of(b"\xff\x57\x18").len(), 1, "call [rdi+24] too");
    assert!(
        accesses_of(b"\x48\x01\x07")[0].reads && accesses_of(b"\x48\x01\x07")[0].writes,
        "add [rdi], rax"
    );
    assert_eq!(accesses_of(b"\x0f\x11\x07")[0].width, 16, "movups [rdi], xmm0");
}

#[test]
fn tables_between_functions_are_left_alone() {
    let libcrypto = Path::new("/usr/lib/x86_64-linux-gnu/libcrypto.so.3");
    tool(libcrypto.to_str().expect("is text"), "libssl3");
    let plan = scan_module(libcrypto, ModuleRole::Own, Preempt::Sync).expect("scans");
    assert_eq!(
        plan.swept, 0,
        "its hand-written assembly keeps tables in the code section"
    );
    assert!(own_sites(&plan).0.len() > 100);
}

/// A stripped program without unwind entries, of many functions with an atomic instruction in each; `table` stands in front of each.
fn swept_sites_with(table: &str) -> usize {
    let dir = tempfile::tempdir().expect("temporary directory");
    let functions = format!(".rept 64\n{table}\nlock incl (%rdi)\nret\n.endr\n");
    let source = format!(
        "__asm__(\".globl _start\\n_start: ret\\n{}\");",
        functions.replace('\n', "\\n")
    );
    let flags = ["-nostdlib", "-static", "-s", "-fno-asynchronous-unwind-tables"];
    let program = compile("gcc", "gcc", dir.path(), "tables", &source, &flags);
    let plan = scan_module(&program, ModuleRole::Own, Preempt::Sync).expect("scans");
    plan.swept
}

#[test]
fn code_that_is_mixed_with_tables_is_not_swept() {
    // `06` is no instruction in 64-bit mode; the rest of the table looks like an xchg and a return.
    assert_eq!(
        swept_sites_with(".balign 16\n.byte 6\n.balign 16\n.byte 0x87, 7, 0xc3"),
        0
    );
    assert_eq!(swept_sites_with(".balign 16"), 64);
}

#[test]
fn what_is_no_module_is_refused() {
    assert!(matches!(
        scan_module(Path::new("/nonexistent"), ModuleRole::Own, Preempt::Sync),
        Err(ScanError::Io { .. })
    ));
    assert!(matches!(
        scan_bytes(b"#!/bin/sh\n", ModuleRole::Own, Preempt::Sync),
        Err(ScanError::Elf(_))
    ));
    let mut bytes = std::fs::read("/bin/true").expect("readable");
    bytes[18] = 0xb7; // e_machine: AArch64
    assert!(matches!(
        scan_bytes(&bytes, ModuleRole::Own, Preempt::Sync),
        Err(ScanError::WrongMachine)
    ));
}

#[test]
fn damaged_files_do_not_panic() {
    let original = std::fs::read("/bin/true").expect("readable");
    let mut state = 1u64;
    for _ in 0..200 {
        let mut bytes = original.clone();
        for _ in 0..40 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let position = (state >> 20) as usize % if state & 1 == 0 { 1024 } else { bytes.len() };
            bytes[position] = (state >> 56) as u8;
        }
        let _ = scan_bytes(&bytes, ModuleRole::Own, Preempt::Memory);
        let _ = scan_bytes(&bytes[..bytes.len() / 2], ModuleRole::System, Preempt::Sync);
    }
}

#[test]
fn plans_are_kept_until_the_file_changes() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let path = dir.path().join("module");
    std::fs::copy("/bin/true", &path).expect("copied");
    let cache = PlanCache::new();
    let plan = || cache.plan(&path, ModuleRole::Own, Preempt::Sync).expect("scans");
    let first = plan();
    assert!(std::sync::Arc::ptr_eq(&first, &plan()));
    std::fs::copy("/bin/ls", &path).expect("copied");
    assert!(!std::sync::Arc::ptr_eq(&first, &plan()));
}
