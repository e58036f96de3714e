// Message passing by Rust's atomics, with data that the compiler does not check.
// options: --races
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

struct Slot {
    is_full: AtomicBool,
    content: UnsafeCell<i32>,
}

// SAFETY: the flag orders the accesses to the content.
unsafe impl Sync for Slot {}

fn main() {
    let slot = Arc::new(Slot { is_full: AtomicBool::new(false), content: UnsafeCell::new(0) });
    let other = Arc::clone(&slot);
    let thread = std::thread::spawn(move || {
        // SAFETY: nobody reads before the flag is set.
        unsafe { *other.content.get() = 7 };
        other.is_full.store(true, Ordering::Release);
    });
    if slot.is_full.load(Ordering::Acquire) {
        // SAFETY: nobody writes after the flag is set.
        assert_eq!(unsafe { *slot.content.get() }, 7);
    }
    thread.join().expect("it does not panic");
}
