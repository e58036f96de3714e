//! What counts for the identity of a state, and what does not.

mod common;

use checkpoint::{Backend, Dead, ThreadStack, View};
use common::{BOTH, Dump, Guest, Machine};

/// Calls without a trace in memory, not even a return address in the red zone. The result of the one that ends a step is the
/// number of the step.
const PRELUDE: &str = r#"
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static inline long call(long nr, void *a, long b, long c, long d) {
  long result;
  register long r10 asm("r10") = d, r8 asm("r8") = -1, r9 asm("r9") = 0;
  asm volatile("syscall" : "=a"(result) : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
    : "rcx", "r11", "memory");
  return result;
}
static inline long step(void *a, void *b) { return call(SYS_getppid, a, (long)b, 0, 0); }
"#;

const TWICE: &str = r#"
static char bss[3 * 4096];
static char data[3 * 4096] = "data";
static void __attribute__((noinline)) deep(char c) { volatile char a[20000]; memset((char *)a, c, sizeof a); }
int main(void) {
  deep('a');
  for (;;)
    switch (step(bss + 5000, data + 5000)) {
    case 0: bss[5000] = 1; break;
    case 1: bss[5000] = 0; break;  // 2: as 0, though written
    case 2: data[5000] = 7; break;
    case 3: data[5000] = 0; break; // 4: as 0
    case 4: deep('x'); break;      // 5: as 0, but for dead stack
    case 5: deep('y'); break;      // 6: the same
    default: return 0;
    }
}"#;

fn guest(source: &str) -> Guest {
    Guest::new(&format!("{PRELUDE}{source}"))
}

#[test]
fn equal_memory_has_equal_identity_whatever_was_written_in_between() {
    let guest = guest(TWICE);
    let mut all = Vec::new();
    for backend in BOTH {
        let mut machine = guest.start(backend, &[]);
        let mut ids = vec![machine.identity()];
        while machine.step() {
            ids.push(machine.identity());
        }
        assert_ne!(ids[0], ids[1]);
        assert_ne!(ids[0], ids[3]);
        assert_ne!(ids[1], ids[3]);
        assert_eq!([ids[2], ids[4], ids[5], ids[6]], [ids[0]; 4], "{backend}");
        all.push(ids);
    }
    assert_eq!(all[0], all[1]);
}

#[test]
fn excluded_bytes_do_not_count_and_their_neighbours_do() {
    let guest = guest(TWICE);
    for backend in BOTH {
        let mut machine = guest.start(backend, &[]);
        let (bss, data) = (
            machine.task().regs().unwrap().rdi,
            machine.task().regs().unwrap().rsi,
        );
        let view = |machine: &mut Machine, shift: u64| {
            let mut view = machine.view();
            view.exclude
                .extend([bss + shift..bss + shift + 1, data + shift..data + shift + 1]);
            view
        };
        let (mut exact, mut beside) = (Vec::new(), Vec::new());
        for _ in 0..4 {
            let (at, next) = (view(&mut machine, 0), view(&mut machine, 1));
            exact.push(machine.identity_of(&at));
            beside.push(machine.identity_of(&next));
            machine.step();
        }
        assert_eq!(exact, [exact[0]; 4], "{backend}");
        assert_ne!(beside[0], beside[1]);
        assert_ne!(beside[0], beside[3]);
        assert_eq!(beside[0], beside[2]);
    }
}

/// Two threads, switched by hand: their stacks and thread pointers are told by the guest.
const THREAD: &str = r#"
int main(void) {
  // What a thread library makes: a guard, then the stack, with the thread's data at the upper end.
  char *at = mmap(0, 17 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  mprotect(at + 4096, 16 * 4096, PROT_READ | PROT_WRITE);
  char *stack = at + 4096, *sp = stack + 8 * 4096 + 100;
  for (;;)
    switch (step(sp, stack)) {
    case 0: sp[-129] = 1; stack[0] = 1; break; // 1: dead
    case 1: sp[-128] = 1; break;               // 2: red zone
    case 2: sp[-128] = 0; sp[2] = 1; break;    // 3: live
    case 3: sp[2] = 0; break;                  // 4: as 0
    default: return 0;
    }
}"#;

#[test]
fn memory_below_a_thread_stack_does_not_count() {
    let guest = guest(THREAD);
    for backend in BOTH {
        let mut machine = guest.start(backend, &[]);
        let (mut with, mut without) = (Vec::new(), Vec::new());
        loop {
            let regs = *machine.task().regs().unwrap();
            let (sp, stack) = (regs.rdi, regs.rsi);
            let mut view = machine.view();
            without.push(machine.identity_of(&view));
            view.threads.push(ThreadStack {
                sp,
                tls: stack + 15 * 4096,
            });
            with.push(machine.identity_of(&view));
            // Not a thread's stack: the thread pointer is elsewhere, or there are two of them on it.
            view.threads[1].tls = 0;
            assert_eq!(machine.identity_of(&view), *without.last().unwrap());
            view.threads[1].tls = stack + 15 * 4096;
            view.threads.push(view.threads[1]);
            assert_eq!(machine.identity_of(&view), *without.last().unwrap());
            if !machine.step() {
                break;
            }
        }
        assert_eq!([with[1], with[4]], [with[0]; 2], "{backend}");
        assert_ne!(with[2], with[0]);
        assert_ne!(with[3], with[0]);
        assert_ne!(without[1], without[0]);
        assert_ne!(without[4], without[0]);
    }
}

#[test]
fn a_dead_range_counts_again_once_it_is_written() {
    let guest = guest(THREAD);
    for backend in BOTH {
        let mut machine = guest.start(backend, &[]);
        machine.step();
        let (stack, whole) = (machine.task().regs().unwrap().rsi, 16 * 4096);
        let (plain, range) = (machine.identity(), stack..stack + whole);
        let digest = machine
            .marks
            .digest(machine.task.as_mut().unwrap(), range.clone())
            .unwrap();
        let dead = |machine: &mut Machine| View {
            dead: vec![Dead {
                range: range.clone(),
                digest,
            }],
            ..machine.view()
        };
        let view = dead(&mut machine);
        let ignored = machine.identity_of(&view);
        assert_ne!(ignored, plain);
        machine.steps(3);
        let view = dead(&mut machine);
        assert_eq!(
            machine.identity_of(&view),
            ignored,
            "{backend}: as it was when it died"
        );
        let saved = machine.mark();
        machine.task().memory().write(stack + 7, &[7]).unwrap();
        let view = dead(&mut machine);
        assert_ne!(machine.identity_of(&view), ignored, "written again");
        machine.restore(&saved);
        assert_eq!(machine.identity_of(&view), ignored);
    }
}

#[test]
fn identities_agree_between_processes_and_mappings_count() {
    let guest = guest(
        r#"
        int main(void) {
          char *p = (char *)0x10000000;
          for (;;)
            switch (step(0, 0)) {
            case 0: call(SYS_mmap, p, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED); break;
            case 1: call(SYS_mprotect, p, 4096, PROT_READ, 0); break;
            case 2: call(SYS_munmap, p, 8192, 0, 0); break; // 3: as 0
            default: return 0;
            }
        }"#,
    );
    let mut runs = Vec::new();
    let mut dumps: Vec<Dump> = Vec::new();
    for backend in [Backend::Fork, Backend::Rewind, Backend::Fork, Backend::Rewind] {
        let mut machine = guest.start(backend, &[]);
        dumps.push(machine.dump());
        let mut ids = vec![machine.identity()];
        while machine.step() {
            ids.push(machine.identity());
        }
        runs.push(ids);
    }
    dumps[0].assert_same(&dumps[1], "two runs");
    assert!(runs.iter().all(|run| *run == runs[0]), "{runs:x?}");
    let ids = &runs[0];
    assert_eq!(ids[0], ids[3]);
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[2] != ids[0]);
}

#[test]
fn memory_of_any_size_is_restored_and_told_apart() {
    let guest = Guest::new(include_str!("guests/big.c"));
    for megabytes in ["1", "16", "256"] {
        let mut seen = Vec::new();
        for backend in BOTH {
            let mut machine = guest.start(backend, &[megabytes]);
            let first = machine.identity();
            machine.marks.unchanged();
            let saved = machine.mark();
            machine.step();
            let second = machine.identity();
            let later = machine.mark();
            machine.step();
            let third = machine.identity();
            machine.restore(&saved);
            assert_eq!(machine.identity(), first, "{backend} {megabytes} MB");
            machine.restore(&later);
            assert_eq!(machine.identity(), second);
            machine.step();
            assert_eq!(machine.identity(), third);
            assert!(first != second && second != third);
            seen.push([first, second, third]);
        }
        assert_eq!(seen[0], seen[1], "{megabytes} MB");
    }
}
