//! The views on small traces made by hand.

use super::*;
use hooks::Preempt;
use trace::{End, Finding, InputRecord, Operation, ProgramRecord, Step, Trace, Violation, ViolationKind};

const MUTEX: u64 = 0x4040;
const CONDITION: u64 = 0x4080;

fn call(thread: u32, number: i64, args: [u64; 6], result: Option<i64>) -> Step {
    step(
        thread,
        Operation::Call {
            number: number as u32,
            args,
            result,
        },
    )
}

fn sync(thread: u32, name: &str, object: u64) -> Step {
    step(
        thread,
        Operation::Sync {
            name: name.to_owned().into(),
            object,
        },
    )
}

fn step(thread: u32, operation: Operation) -> Step {
    Step {
        thread,
        operation,
        at: 0x1000,
        digest: 0,
        alternative: 0,
        arrived: None,
    }
}

fn trace(steps: Vec<Step>, end: End) -> Trace {
    Trace {
        program: ProgramRecord {
            path: b"/bin/guest".to_vec(),
            digest: [0; 32],
            argv: vec![b"guest".to_vec(), b"</script>\"{{title}}".to_vec()],
            env: Vec::new(),
        },
        config: syscall_model::Config::default(),
        preempt: Preempt::Sync,
        seed: 0,
        communication: Vec::new(),
        traffic: trace::Traffic::default(),
        inputs: InputRecord::default(),
        machine: trace::Machine::default(),
        watched: Default::default(),
        lent: None,
        residents: None,
        faults: 0,
        recover: Vec::new(),
        locations: steps
            .iter()
            .map(|_| "the_lock  main guest.c:3".to_owned())
            .collect(),
        steps,
        end,
        finding: Some(Finding {
            violation: Violation {
                kind: ViolationKind::Deadlock,
                message: "no thread can make progress; really".to_owned(),
                thread: None,
            },
            preemptions: 1,
            critical: Some(1),
        }),
    }
}

/// Thread 1 makes thread 2, which takes the lock first and ends; thread 1 waits for the lock and for the end.
fn two_threads() -> Trace {
    let futex = |result| call(1, libc::SYS_futex, [0x9000, 265, 2, 0, 0, 0], result);
    trace(
        vec![
            call(
                1,
                libc::SYS_clone,
                [libc::CLONE_THREAD as u64, 0, 0, 0, 0, 0],
                Some(2),
            ),
            step(2, Operation::Start),
            sync(2, "pthread_mutex_lock", MUTEX),
            sync(2, "pthread_mutex_unlock", MUTEX),
            sync(1, "pthread_mutex_lock", MUTEX),
            sync(1, "pthread_mutex_unlock", MUTEX),
            futex(None),
            call(2, libc::SYS_exit, [0; 6], None),
            step(1, Operation::Wake { result: 0 }),
        ],
        End::Exited(0),
    )
}

#[test]
fn locks_waits_and_causes_are_derived() {
    let view = View::of(&two_threads());
    let lanes: Vec<_> = view
        .lanes
        .iter()
        .map(|lane| (lane.thread, lane.from, lane.to))
        .collect();
    assert_eq!(lanes, [(1, 0, None), (2, 0, Some(7))]);
    let holds: Vec<_> = view
        .holds
        .iter()
        .map(|hold| (hold.thread, hold.lock.as_str(), hold.from, hold.to))
        .collect();
    assert_eq!(holds, [(2, "the_lock", 2, Some(3)), (1, "the_lock", 4, Some(5))]);
    let waits: Vec<_> = view
        .waits
        .iter()
        .map(|wait| (wait.thread, wait.from, wait.to))
        .collect();
    assert_eq!(waits, [(1, 2, Some(3)), (1, 6, Some(8))]);
    let edges: Vec<_> = view
        .edges
        .iter()
        .map(|edge| (edge.from, edge.to, edge.why))
        .collect();
    assert_eq!(edges, [(0, 1, "starts"), (3, 4, "lock"), (7, 8, "wakes")]);
}

#[test]
fn a_wait_for_a_condition_gives_the_mutex_back_meanwhile() {
    let futex = call(1, libc::SYS_futex, [CONDITION + 8, 393, 0, 0, 0, 0], None);
    let view = View::of(&trace(
        vec![
            sync(1, "pthread_mutex_lock", MUTEX),
            sync(1, "pthread_cond_wait", CONDITION),
            futex,
            sync(2, "pthread_mutex_lock", MUTEX),
            sync(2, "pthread_cond_signal", CONDITION),
            sync(2, "pthread_mutex_unlock", MUTEX),
            step(1, Operation::Wake { result: 0 }),
        ],
        End::Cut,
    ));
    let holds: Vec<_> = view
        .holds
        .iter()
        .map(|hold| (hold.thread, hold.from, hold.to))
        .collect();
    assert_eq!(holds, [(1, 0, Some(1)), (2, 3, Some(5)), (1, 6, None)]);
}

#[test]
fn in_a_deadlock_every_thread_that_is_left_waits_to_the_end() {
    let view = View::of(&trace(
        vec![
            sync(1, "pthread_mutex_lock", MUTEX),
            step(2, Operation::Start),
            sync(3, "sem_wait", 0x77),
            call(3, libc::SYS_exit, [0; 6], None),
        ],
        End::Deadlock,
    ));
    let waits: Vec<_> = view
        .waits
        .iter()
        .map(|wait| (wait.thread, wait.from, wait.to))
        .collect();
    assert_eq!(waits, [(1, 0, None), (2, 1, None)]);
}

#[test]
fn the_page_is_one_file_and_data_cannot_break_out() {
    let page = html(&View::of(&two_threads())).expect("a page");
    assert_eq!(
        page.matches("</script>").count(),
        2,
        "data and script end once each"
    );
    assert!(!page.contains("{{script}}") && !page.contains("{{data}}"));
    // Names of XML vocabularies are no addresses that anybody asks for.
    let addresses = page.replace("http://www.w3.org/", "").matches("://").count();
    assert_eq!(addresses, 0, "the page refers to something outside");
    let data = page.split_once("application/json\">").expect("data").1;
    let data = data.split_once("</script>").expect("its end").0;
    let data: serde_json::Value = serde_json::from_str(data).expect("JSON");
    assert_eq!(data["arguments"][0], "</script>\"{{title}}");
    assert_eq!(data["steps"].as_array().map(Vec::len), Some(9));
}

#[test]
fn vector_clocks_follow_the_causes() {
    let log = shiviz(&View::of(&two_threads()));
    assert!(
        log.contains("thread-2 {\"thread-1\":1,\"thread-2\":1}\n1 starts"),
        "{log}"
    );
    // The lock taken second knows of the first unlock, and the end of the wait of the thread's end.
    assert!(
        log.contains("thread-1 {\"thread-1\":2,\"thread-2\":3}\n4 pthread_mutex_lock"),
        "{log}"
    );
    assert!(
        log.contains("thread-1 {\"thread-1\":5,\"thread-2\":4}\n8 wakes"),
        "{log}"
    );
}

#[test]
fn mermaid_has_every_step_and_no_statement_breaks() {
    let text = mermaid(&View::of(&two_threads()));
    assert!(text.starts_with("sequenceDiagram\n    participant T1 as thread 1\n"));
    assert_eq!(text.matches("Note over").count(), 10);
    assert!(
        text.contains("T1->>T2: starts") && text.contains("! 1 starts"),
        "{text}"
    );
    assert!(text.contains("no thread can make progress#59; really"), "{text}");
}

#[test]
fn perfetto_gets_a_slice_per_step_and_pairs_of_everything_else() {
    let value = chrome_trace(&View::of(&two_threads()));
    let events = value["traceEvents"].as_array().expect("a list");
    let count = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    assert_eq!((count("X"), count("i")), (9, 1));
    assert_eq!((count("b"), count("e")), (4, 4));
    assert_eq!((count("s"), count("f")), (3, 3));
}
