//! The readers of glibc's locks, on locks of a real process in every state that can be reached.

use super::test_scan::{compile, run};
use super::*;

const OBJECT: u64 = 0x1000;
const TIMESPEC: u64 = 0x9000;

/// An object's bytes at [`OBJECT`] and a timespec at [`TIMESPEC`].
struct Dump {
    object: Vec<u8>,
    timespec: [u8; 16],
}

impl ReadMemory for Dump {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        let (base, bytes) = if address >= TIMESPEC {
            (TIMESPEC, &self.timespec[..])
        } else {
            (OBJECT, &self.object[..])
        };
        let start = address.checked_sub(base)? as usize;
        buffer.copy_from_slice(bytes.get(start..start + buffer.len())?);
        Some(())
    }
}

/// One line of the test program.
struct State {
    name: String,
    function: SyncFn,
    tid: u32,
    memory: Dump,
    /// What the timed variant returned.
    result: i32,
}

fn parse(line: &str) -> State {
    let fields: Vec<&str> = line.split(' ').collect();
    let digits = fields[3].as_bytes().chunks(2);
    let bytes =
        digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("text"), 16).expect("hex"));
    State {
        name: fields[0].to_owned(),
        function: SyncFn::from_symbol(fields[1]).expect("a hooked function"),
        tid: fields[2].parse().expect("a tid"),
        memory: Dump {
            object: bytes.collect(),
            timespec: [0; 16],
        },
        result: fields[4].parse().expect("a result"),
    }
}

fn states() -> Vec<State> {
    let dir = tempfile::tempdir().expect("temporary directory");
    let program = compile(
        "gcc",
        "gcc",
        dir.path(),
        "locks",
        include_str!("test_locks.c"),
        &["-O1", "-w"],
    );
    run(&mut std::process::Command::new(program))
        .lines()
        .map(parse)
        .collect()
}

#[test]
fn would_block_says_what_the_call_does() {
    let states = states();
    assert!(states.len() > 100, "only {} states", states.len());
    let mut waiting = 0;
    for state in states.iter().filter(|state| !state.function.is_cond()) {
        let op = sync_op(
            state.function,
            [OBJECT, 0, 0, 0, 0, 0],
            Streams::default(),
            &state.memory,
        );
        let answer = would_block(&op, state.tid, &state.memory);
        let blocks = state.result == libc::ETIMEDOUT;
        waiting += usize::from(blocks);
        // A writer that others can see before it waits is let go (see `rwlock_write`).
        let is_visible_writer = state.function == SyncFn::RwlockWrlock
            && state.name.starts_with("kind2")
            && state.name.contains("-read-by-");
        let expected = blocks && !is_visible_writer;
        assert_eq!(
            answer != Blocked::No,
            expected,
            "{} {:?}: {answer:?}, it returned {}",
            state.name,
            op.function,
            state.result
        );
        check_owner(state, answer);
    }
    assert!(waiting > 30, "only {waiting} states block");
}

fn check_owner(state: &State, answer: Blocked) {
    let holds = state.name.contains("-held-by-caller") || state.name.contains("-written-by-caller");
    match answer {
        Blocked::HeldBy(owner) => assert_eq!(owner == state.tid, holds, "{}", state.name),
        Blocked::Held => assert_eq!(state.function, SyncFn::SpinLock, "{}", state.name),
        _ => {}
    }
}

#[test]
fn a_waiting_writer_is_told_from_readers() {
    let states = states();
    let answer = |name: &str, function: SyncFn| {
        let is_wanted = |state: &&State| state.name == name && state.function == function;
        let state = states.iter().find(is_wanted).expect("the state exists");
        would_block(
            &sync_op(function, [OBJECT; 6], Streams::default(), &state.memory),
            state.tid,
            &state.memory,
        )
    };
    assert_eq!(
        answer("kind0-read-by-other", SyncFn::RwlockWrlock),
        Blocked::Readers
    );
    assert_eq!(
        answer("kind0-read-with-waiting-writer", SyncFn::RwlockWrlock),
        Blocked::WriterWaiting
    );
    assert_eq!(
        answer("kind0-read-with-waiting-writer", SyncFn::RwlockRdlock),
        Blocked::No
    );
    assert_eq!(
        answer("kind2-read-with-waiting-writer", SyncFn::RwlockRdlock),
        Blocked::WriterWaiting
    );
}

#[test]
fn timeouts_are_found_with_their_clock() {
    let memory = Dump {
        object: vec![0; 64],
        timespec: [0; 16],
    };
    let args = [OBJECT, 1, TIMESPEC, 0xdead, 0, 0];
    let op = sync_op(SyncFn::MutexClocklock, args, Streams::default(), &memory);
    assert_eq!(
        op.timeout,
        Some(Timeout {
            address: TIMESPEC,
            clock: 1
        })
    );
    let op = sync_op(
        SyncFn::SemTimedwait,
        [OBJECT, TIMESPEC, 0, 0, 0, 0],
        Streams::default(),
        &memory,
    );
    assert_eq!(
        op.timeout,
        Some(Timeout {
            address: TIMESPEC,
            clock: 0
        })
    );
    let op = sync_op(
        SyncFn::CondClockwait,
        [OBJECT, 0x2000, 1, TIMESPEC, 0, 0],
        Streams::default(),
        &memory,
    );
    assert_eq!(
        (op.mutex, op.timeout),
        (
            Some(0x2000),
            Some(Timeout {
                address: TIMESPEC,
                clock: 1
            })
        )
    );
    for state in states().iter().filter(|state| state.function.is_cond()) {
        let op = sync_op(
            state.function,
            [OBJECT, 0x2000, TIMESPEC, 0, 0, 0],
            Streams::default(),
            &state.memory,
        );
        assert_eq!(
            op.timeout.map(|timeout| timeout.clock as i32),
            Some(state.result),
            "{}",
            state.name
        );
    }
}

#[test]
fn what_cannot_wait_or_be_read_is_let_go() {
    let mut memory = Dump {
        object: vec![0; 64],
        timespec: [0; 16],
    };
    let zero = sync_op(
        SyncFn::SemTimedwait,
        [OBJECT, TIMESPEC, 0, 0, 0, 0],
        Streams::default(),
        &memory,
    );
    assert_eq!(would_block(&zero, 1, &memory), Blocked::Zero);
    memory.timespec[8..].copy_from_slice(&1_000_000_000u64.to_le_bytes());
    assert_eq!(
        would_block(&zero, 1, &memory),
        Blocked::No,
        "an invalid timeout is an error, not a wait"
    );
    let nowhere = sync_op(
        SyncFn::MutexLock,
        [0x10, 0, 0, 0, 0, 0],
        Streams::default(),
        &memory,
    );
    assert_eq!(would_block(&nowhere, 1, &memory), Blocked::No);
}
