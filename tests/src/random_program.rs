//! Small C programs of several threads, or of several processes, made from a seed: what they can do is unknown, but it must not
//! depend on how it is explored.
//!
//! Each thread does a few things out of a list (locks, also nested and so in danger of a deadlock; a condition variable, a semaphore, a
//! pipe, atomic instructions, prints) and folds what it sees into a number of its own; main prints all numbers at the end, so that
//! whatever order matters shows in the outcome. Shared cells are touched under their lock, but for two that no lock protects: threads are not switched at
//! those in `--preempt sync`, but the order in which they are reached must not be lost to a reduction.
//!
//! Processes do the same; what they share lies in memory that is mapped shared. They are waited for in order, or whoever comes first,
//! which shows in the outcome too.

use std::fmt::Write as _;

/// What a thread can do, in C, with the visible operations that it costs. `R` is the thread's number, `T` its index.
const ACTIONS: [(&str, u32); 18] = [
    (
        "lock(0); cell[0] = cell[0] * 3 + T + 1; R += cell[0]; unlock(0);",
        2,
    ),
    ("lock(1); cell[1] = cell[1] * 5 + T + 2; unlock(1);", 2),
    (
        "lock(0); lock(1); cell[1] += cell[0] + T; unlock(1); unlock(0);",
        4,
    ),
    (
        "lock(1); lock(0); cell[0] += cell[1] + 7 * T; unlock(0); unlock(1);",
        4,
    ),
    (
        "if (pthread_mutex_trylock(&locks[0]) == 0) { R += ++cell[0]; unlock(0); } else R += 100;",
        2,
    ),
    ("R = R * 3 + atomic_fetch_add(&number, T + 1);", 1),
    (
        "{ int old = 0; R += atomic_compare_exchange_strong(&number, &old, T + 5) ? 10 : old; }",
        1,
    ),
    ("sem_post(&semaphore);", 1),
    ("sem_wait(&semaphore); R += 3;", 1),
    ("R += sem_trywait(&semaphore) == 0 ? 20 : 40;", 1),
    ("put(T);", 1),
    ("R = R * 7 + get();", 1),
    ("printf(\"%d;\", T);", 1),
    ("plain = plain * 3 + T + 1;", 1),
    ("R = R * 5 + plain;", 1),
    ("if (said) R += 7 * said; else said = T + 1;", 1),
    (
        "lock(0); while (!flag) pthread_cond_wait(&condition, &locks[0]); R += cell[0]; unlock(0);",
        4,
    ),
    (
        "lock(0); flag = 1; cell[0] += T; pthread_cond_signal(&condition); unlock(0);",
        3,
    ),
];

/// What all share; for processes it must be in one place.
const PRELUDE: &str = r#"
#include "processes.h"

static struct {
    pthread_mutex_t locks[2];
    pthread_cond_t condition;
    sem_t semaphore;
    atomic_int number;
    int cell[2], flag, result[3];
    volatile int plain, said;
} *shared;
#define locks (shared->locks)
#define condition (shared->condition)
#define semaphore (shared->semaphore)
#define number (shared->number)
#define cell (shared->cell)
#define flag (shared->flag)
#define result (shared->result)
#define plain (shared->plain)
#define said (shared->said)
static int ends[2];

static void lock(int i) { OK(pthread_mutex_lock(&locks[i])); }
static void unlock(int i) { OK(pthread_mutex_unlock(&locks[i])); }
static void put(int value) { CHECK(write(ends[1], &(char){value}, 1) == 1); }
static int get(void) { char byte; CHECK(read(ends[0], &byte, 1) == 1); return byte; }

static void prepare(int processes) {
    pthread_mutexattr_t of_lock;
    pthread_condattr_t of_condition;
    shared = processes ? shared_memory(sizeof *shared) : calloc(1, sizeof *shared);
    OK(pthread_mutexattr_init(&of_lock));
    OK(pthread_condattr_init(&of_condition));
    OK(pthread_mutexattr_setpshared(&of_lock, processes ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE));
    OK(pthread_condattr_setpshared(&of_condition, processes ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE));
    OK(pthread_mutex_init(&locks[0], &of_lock));
    OK(pthread_mutex_init(&locks[1], &of_lock));
    OK(pthread_cond_init(&condition, &of_condition));
    CHECK(sem_init(&semaphore, processes, 0) == 0 && pipe(ends) == 0);
}
"#;

/// A stream of numbers that is the same everywhere (SplitMix64).
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Numbers {
        Numbers(seed)
    }

    /// The next one, less than `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % limit as u64) as usize
    }
}

/// The program with this number: every second one has processes. `size` bounds the visible operations of each thread.
pub fn source(seed: u64, size: u32) -> String {
    let mut numbers = Numbers::new(seed);
    let processes = seed.is_multiple_of(2);
    let threads = if numbers.below(4) == 0 { 3 } else { 2 };
    let size = if threads == 3 || processes {
        size.div_ceil(2)
    } else {
        size
    };
    let mut text = format!("// A random program, seed {seed}.{PRELUDE}");
    for thread in 0..threads {
        let _ = write!(
            text,
            "\nstatic void *thread{thread}(void *argument) {{\n    int R = 0;\n"
        );
        let mut left = size;
        while left > 0 {
            let (action, cost) = ACTIONS[numbers.below(ACTIONS.len())];
            left = left.saturating_sub(cost);
            let _ = writeln!(text, "    {}", action.replace('T', &thread.to_string()));
        }
        let _ = writeln!(text, "    result[{thread}] = R;\n    return argument;\n}}");
    }
    let _ = writeln!(text, "\nint main(void) {{\n    prepare({});", u8::from(processes));
    match processes {
        true => add_processes(&mut text, threads, numbers.below(2) == 0),
        false => add_threads(&mut text, threads),
    }
    text.push_str("    printf(\"%d %d %d %d %d: %d %d %d\\n\", cell[0], cell[1], number, plain, said, result[0], result[1], result[2]);\n}\n");
    text
}

fn add_threads(text: &mut String, threads: u32) {
    for thread in 0..threads {
        let _ = writeln!(text, "    pthread_t t{thread} = start(thread{thread}, NULL);");
    }
    for thread in 0..threads {
        let _ = writeln!(text, "    join(t{thread});");
    }
}

/// The first process works as well, so that parent and child meet.
fn add_processes(text: &mut String, processes: u32, in_order: bool) {
    for process in 1..processes {
        let _ = writeln!(text, "    pid_t p{process} = CHILD(thread{process}(NULL));");
    }
    text.push_str("    thread0(NULL);\n");
    for process in 1..processes {
        let _ = match in_order {
            true => writeln!(text, "    FINE(p{process});"),
            false => writeln!(
                text,
                "    result[0] = result[0] * 3 + (wait(NULL) == p{process});"
            ),
        };
    }
}
