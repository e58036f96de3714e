//! Whatever a program does to its memory, a restore brings back every byte and every mapping, in any order, and the
//! program goes on from there as it did the first time.

mod common;

use checkpoint::{Backend, Error};
use common::{BOTH, Dump, Guest, Saved};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

const CHURN: &str = include_str!("guests/churn.c");

/// A state that was seen: where to go back to, and what must be there.
struct Seen {
    saved: Option<Saved>,
    dump: Dump,
    identity: u128,
}

fn pick(random: &mut ChaCha8Rng, n: usize) -> usize {
    random.next_u32() as usize % n
}

/// Marks every state of a run; then jumps among them and compares, also what comes after.
fn any_order(guest: &Guest, backend: Backend, seed: u64, extra: &[&str]) -> Vec<u128> {
    const STEPS: usize = 24;
    let text = seed.to_string();
    let args: Vec<&str> = ["24", &text].into_iter().chain(extra.iter().copied()).collect();
    let mut machine = guest.start(backend, &args);
    let mut seen = Vec::new();
    for step in 0..STEPS {
        if step > 0 {
            assert!(machine.step());
        }
        let identity = machine.identity();
        if step % 2 == 0 {
            machine.marks.unchanged();
        }
        seen.push(Seen {
            saved: Some(machine.mark()),
            dump: machine.dump(),
            identity,
        });
    }
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    for _ in 0..40 {
        let mut at = pick(&mut random, STEPS);
        let Some(saved) = seen[at].saved.take() else {
            continue;
        };
        let last = pick(&mut random, 8) == 0;
        machine.try_restore(&saved, last).expect("restore");
        if !last {
            seen[at].saved = Some(saved);
        }
        let mut ahead = pick(&mut random, 4);
        loop {
            let what = format!("{backend} seed {seed} step {at}");
            machine.dump().assert_same(&seen[at].dump, &what);
            if pick(&mut random, 2) == 0 {
                assert_eq!(machine.identity(), seen[at].identity, "{what}");
            }
            if ahead == 0 || at + 1 == STEPS {
                break;
            }
            (ahead, at) = (ahead - 1, at + 1);
            assert!(machine.step());
        }
    }
    let live = seen.iter().filter(|seen| seen.saved.is_some()).count() as u64;
    let stats = machine.marks.stats();
    assert_eq!(
        (stats.taken, stats.live, stats.live_max),
        (STEPS as u64, live, STEPS as u64)
    );
    for saved in seen.iter().filter_map(|seen| seen.saved.as_ref()) {
        machine.marks.forget(saved.mark);
    }
    assert_eq!(machine.marks.stats().live, 0);
    seen.iter().map(|seen| seen.identity).collect()
}

#[test]
fn every_byte_comes_back_in_any_order_and_both_backends_agree() {
    let guest = Guest::new(CHURN);
    // 105: a mapping that other branches cut into pieces is moved as a whole.
    for seed in [1, 2, 3, 4, 5, 105] {
        let [fork, rewind] = BOTH.map(|backend| any_order(&guest, backend, seed, &[]));
        assert_eq!(fork, rewind, "seed {seed}");
    }
}

#[test]
fn the_same_without_changes_of_mappings() {
    let guest = Guest::new(CHURN);
    for seed in 11..=14 {
        let [fork, rewind] = BOTH.map(|backend| any_order(&guest, backend, seed, &["quiet"]));
        assert_eq!(fork, rewind, "seed {seed}");
    }
}

#[test]
fn marks_are_gone_once_forgotten_or_used_up() {
    let guest = Guest::new(CHURN);
    for backend in BOTH {
        let mut machine = guest.start(backend, &["9", "1"]);
        let (a, b) = (machine.mark(), machine.mark());
        machine.marks.forget(a.mark);
        machine.marks.forget(a.mark);
        machine.try_restore(&b, true).unwrap();
        for saved in [&a, &b] {
            let error = machine.try_restore(saved, false).unwrap_err();
            assert!(
                matches!(error, Error::UnknownMark(mark) if mark == saved.mark),
                "{error}"
            );
        }
        // A mark of another checkpointer is not mistaken for one of this.
        let other = guest.start(backend, &["9", "1"]).mark();
        assert!(
            machine
                .try_restore(&other, false)
                .unwrap_err()
                .needs_reexecution()
        );
        // The task is none the worse for it.
        machine.steps(8);
        assert!(!machine.step());
    }
}

#[test]
fn a_file_of_a_vanished_mapping_is_mapped_again_or_the_caller_is_told() {
    let guest = Guest::new(
        r#"
        #include <fcntl.h>
        #include <string.h>
        #include <sys/mman.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        int main(int argc, char **argv) {
          int fd = open(argv[1], O_RDONLY);
          char *p = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
          close(fd);
          p[5000] = 'x';
          syscall(SYS_getppid);
          munmap(p, 8192);
          syscall(SYS_getppid);
          for (;;) syscall(SYS_getppid);
        }"#,
    );
    let file = guest.dir.path().join("mapped");
    std::fs::write(&file, vec![b'f'; 8192]).unwrap();
    for backend in BOTH {
        let mut machine = guest.start(backend, &[file.to_str().unwrap()]);
        let (saved, dump) = (machine.mark(), machine.dump());
        machine.step();
        machine.restore(&saved);
        machine.dump().assert_same(&dump, "mapped again");
    }
    let mut machine = guest.start(Backend::Rewind, &[file.to_str().unwrap()]);
    let saved = machine.mark();
    machine.step();
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, vec![b'g'; 8192]).unwrap();
    let error = machine.try_restore(&saved, false).unwrap_err();
    assert!(matches!(error, Error::Layout { .. }), "{error}");
    assert!(error.needs_reexecution());
}

/// As the dynamic linker does: first the whole library in one piece, which reaches beyond the end of its file, then data in its place.
#[test]
fn a_mapping_beyond_the_end_of_its_file_comes_back() {
    let guest = Guest::new(
        r#"
        #include <fcntl.h>
        #include <sys/mman.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        int main(int argc, char **argv) {
          int fd = open(argv[1], O_RDONLY);
          char *p = mmap(0, 8192, PROT_READ, MAP_PRIVATE, fd, 0);
          syscall(SYS_getppid);
          mmap(p + 4096, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 0);
          p[5000] = 'x';
          for (;;) syscall(SYS_getppid);
        }"#,
    );
    let file = guest.dir.path().join("mapped");
    std::fs::write(&file, b"short").unwrap();
    for backend in BOTH {
        let mut machine = guest.start(backend, &[file.to_str().unwrap()]);
        let saved = machine.mark();
        machine.step();
        let (after, dump) = (machine.mark(), machine.dump());
        machine.restore(&saved);
        machine.step();
        machine.dump().assert_same(&dump, "the first time");
        // And without a look in between.
        machine.restore(&saved);
        machine.restore(&after);
        machine.dump().assert_same(&dump, "the second time");
    }
}

#[test]
fn shared_memory_is_refused_and_the_task_lives_on() {
    let guest = Guest::new(
        r#"
        #include <sys/mman.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        int main(void) {
          syscall(SYS_getppid);
          char *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
          *p = 1;
          syscall(SYS_getppid);
          munmap(p, 4096);
          syscall(SYS_getppid);
          return 0;
        }"#,
    );
    for backend in BOTH {
        let mut machine = guest.start(backend, &[]);
        machine.mark();
        machine.step();
        let error = machine.try_mark().err().expect("a refusal");
        assert!(matches!(error, Error::SharedMapping { .. }), "{error}");
        machine.step();
        machine.mark();
        assert!(!machine.step());
    }
}

#[test]
fn an_exec_in_between_is_undone_by_fork_and_reported_by_rewind() {
    let guest = Guest::new(
        r#"
        #include <sys/syscall.h>
        #include <unistd.h>
        int main(int argc, char **argv) {
          syscall(SYS_getppid);
          if (argc == 1) execl("/proc/self/exe", "guest", "again", (char *)0);
          syscall(SYS_getppid);
          return 0;
        }"#,
    );
    for backend in BOTH {
        let mut machine = guest.start(backend, &[]);
        let (saved, dump) = (machine.mark(), machine.dump());
        machine.step();
        let (later, later_dump) = (machine.mark(), machine.dump());
        match (machine.try_restore(&saved, false), backend) {
            (Ok(()), Backend::Fork) => machine.dump().assert_same(&dump, "before the exec"),
            (Err(error @ Error::OtherImage { .. }), Backend::Rewind) => {
                assert!(error.needs_reexecution());
                machine.step();
            }
            (other, backend) => panic!("{backend}: {other:?}"),
        }
        machine.restore(&later);
        machine.dump().assert_same(&later_dump, "after the exec");
    }
}

#[test]
fn single_pages_of_much_memory_are_restored_exactly() {
    let guest = Guest::new(include_str!("guests/big.c"));
    let mut machine = guest.start(Backend::Rewind, &["8"]);
    let mut seen = Vec::new();
    for _ in 0..8 {
        seen.push((machine.mark(), machine.dump(), machine.identity()));
        machine.step();
    }
    for at in [6, 1, 7, 0, 4, 2, 5, 3, 0] {
        let (saved, dump, identity) = &seen[at];
        machine.restore(saved);
        machine.dump().assert_same(dump, "restored");
        assert_eq!(machine.identity(), *identity);
    }
    // From the start again, with writes to pages that restores left unprotected.
    for (_, dump, identity) in &seen[1..] {
        machine.step();
        machine.dump().assert_same(dump, "run again");
        assert_eq!(machine.identity(), *identity);
    }
}

#[test]
fn changes_of_code_by_the_supervisor_are_part_of_the_state() {
    let guest = Guest::new(
        r#"
        #include <sys/syscall.h>
        #include <unistd.h>
        void unused(void) { asm volatile(".skip 64, 0x90"); }
        int main(void) { for (;;) syscall(SYS_getppid, unused); }"#,
    );
    let mut seen = Vec::new();
    for backend in BOTH {
        let mut machine = guest.start(backend, &[]);
        let at = machine.argument() + 32;
        let (plain, plain_dump, before) = (machine.mark(), machine.dump(), machine.identity());
        machine.task().memory().write_forced(at, &[0xcc]).unwrap();
        machine.marks.layout_changed();
        let hooked = machine.identity();
        assert_ne!(hooked, before, "{backend}");
        let (with_hook, hooked_dump) = (machine.mark(), machine.dump());
        machine.restore(&plain);
        machine.dump().assert_same(&plain_dump, "without the hook");
        assert_eq!(machine.identity(), before, "{backend}");
        machine.restore(&with_hook);
        machine.dump().assert_same(&hooked_dump, "with the hook");
        assert_eq!(machine.identity(), hooked);
        seen.push((before, hooked));
    }
    assert_eq!(seen[0], seen[1]);
}
