// The same classes in Rust: called with the name of a program and `bad` or `fine`. A panic ends the program with status 101.
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, RwLock};
use std::thread;

fn together(bodies: Vec<Box<dyn FnOnce() + Send>>) {
    let threads: Vec<_> = bodies.into_iter().map(thread::spawn).collect();
    for thread in threads {
        thread.join().expect("no thread panics");
    }
}

fn deposits(bad: bool) {
    let account = Arc::new(Mutex::new(0));
    let deposit = |account: Arc<Mutex<i32>>| -> Box<dyn FnOnce() + Send> {
        Box::new(move || {
            if bad {
                let balance = *account.lock().unwrap();
                *account.lock().unwrap() = balance + 1;
            } else {
                *account.lock().unwrap() += 1;
            }
        })
    };
    together(vec![deposit(account.clone()), deposit(account.clone())]);
    assert_eq!(*account.lock().unwrap(), 2);
}

fn counter(bad: bool) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let body = move || {
        if bad {
            COUNT.store(COUNT.load(Relaxed) + 1, Relaxed);
        } else {
            COUNT.fetch_add(1, Relaxed);
        }
    };
    together(vec![Box::new(body), Box::new(body)]);
    assert_eq!(COUNT.load(Relaxed), 2);
}

fn message(bad: bool) {
    static DATA: AtomicUsize = AtomicUsize::new(0);
    static READY: AtomicUsize = AtomicUsize::new(0);
    together(vec![
        Box::new(move || {
            if bad {
                READY.store(1, Release);
                DATA.store(42, Release);
            } else {
                DATA.store(42, Release);
                READY.store(1, Release);
            }
        }),
        Box::new(|| {
            if READY.load(Acquire) == 1 {
                assert_eq!(DATA.load(Acquire), 42);
            }
        }),
    ]);
}

fn upgrade(bad: bool) {
    let stock = Arc::new(RwLock::new(1));
    let sell = |stock: Arc<RwLock<i32>>| -> Box<dyn FnOnce() + Send> {
        Box::new(move || {
            if bad {
                let left = *stock.read().unwrap();
                if left > 0 {
                    let mut left = stock.write().unwrap();
                    *left -= 1;
                    assert!(*left >= 0);
                }
            } else {
                let mut left = stock.write().unwrap();
                if *left > 0 {
                    *left -= 1;
                }
            }
        })
    };
    together(vec![sell(stock.clone()), sell(stock)]);
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let bad = args[2] == "bad";
    let program = match args[1].as_str() {
        "deposits" => deposits,
        "counter" => counter,
        "message" => message,
        "upgrade" => upgrade,
        _ => std::process::exit(64),
    };
    program(bad);
}
