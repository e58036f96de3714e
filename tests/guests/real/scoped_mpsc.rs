//! Scoped threads that borrow, an mpsc channel, a mutex, a condition variable, a barrier, an rwlock and parking, all of std.
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{mpsc, Arc, Barrier, Condvar, Mutex, OnceLock, RwLock};
use std::thread;
use std::time::{Duration, Instant};

static ONCE: OnceLock<String> = OnceLock::new();

fn sum_in_scope(numbers: &[u64]) -> u64 {
    let total = AtomicU64::new(0);
    thread::scope(|scope| {
        for chunk in numbers.chunks(250) {
            let total = &total;
            scope.spawn(move || total.fetch_add(chunk.iter().sum::<u64>(), Ordering::Relaxed));
        }
    });
    total.into_inner()
}

fn squares_by_channel() -> Vec<u64> {
    let (sender, receiver) = mpsc::channel();
    for worker in 0..4u64 {
        let sender = sender.clone();
        thread::spawn(move || (0..25).for_each(|i| sender.send((worker * 25 + i).pow(2)).expect("receiver lives")));
    }
    drop(sender);
    let mut got: Vec<u64> = receiver.iter().collect();
    got.sort_unstable();
    got
}

fn handshake() -> usize {
    let shared = Arc::new((Mutex::new(0), Condvar::new()));
    let barrier = Arc::new(Barrier::new(3));
    let threads: Vec<_> = (0..3)
        .map(|me| {
            let (shared, barrier) = (shared.clone(), barrier.clone());
            thread::spawn(move || {
                barrier.wait();
                let (turn, changed) = &*shared;
                let mut turn = turn.lock().expect("not poisoned");
                while *turn != me {
                    turn = changed.wait(turn).expect("not poisoned");
                }
                *turn += 1;
                changed.notify_all();
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().expect("no panic"));
    let turns = *shared.0.lock().expect("not poisoned");
    turns
}

fn main() {
    let numbers: Vec<u64> = (1..=1000).collect();
    println!("sum {}", sum_in_scope(&numbers));
    let squares = squares_by_channel();
    println!("{} squares, last {}", squares.len(), squares[99]);
    println!("turns {}", handshake());
    let table = RwLock::new(vec![1]);
    thread::scope(|scope| {
        scope.spawn(|| table.write().expect("not poisoned").push(2));
        scope.spawn(|| assert!(!table.read().expect("not poisoned").is_empty()));
    });
    println!("table {:?}", table.into_inner().expect("not poisoned"));
    let (sender, receiver) = mpsc::sync_channel::<u8>(0);
    let before = Instant::now();
    println!("timeout {:?}", receiver.recv_timeout(Duration::from_millis(2)));
    assert!(before.elapsed() >= Duration::from_millis(2));
    drop(sender);
    let parked = thread::spawn(|| {
        thread::park();
        ONCE.get_or_init(|| "initialised".to_owned()).len()
    });
    parked.thread().unpark();
    println!("once {}", parked.join().expect("no panic"));
    let panicked = thread::Builder::new().name("panicker".into()).spawn(|| {
        std::panic::set_hook(Box::new(|_| eprintln!("a panic, caught at join")));
        panic!("on purpose");
    });
    println!("panic seen {}", panicked.expect("starts").join().is_err());
}
