//! The allocator of the whole command: the system's, which ends the process in words when there is no memory left.
//!
//! Rust itself aborts then, which looks like a crash of ours (exit code 134, a backtrace that cannot be printed). Nothing can be kept at that point: whatever would be
//! written needs memory, too. The traced tasks die with the process.

use std::alloc::{GlobalAlloc, Layout, System};

/// The exit code for a limit that was reached.
const LIMIT: i32 = 3;

const MESSAGE: &[u8] =
    b"tracefork: out of memory, and nothing that was found could be kept\n  hint: the memory of a process is limited (ulimit -v, \
a container) or used up; give it more, or end the search before that: --memory-limit\n";

/// The system's allocator.
#[derive(Clone, Copy, Debug)]
pub struct Heap;

fn given(block: *mut u8) -> *mut u8 {
    if block.is_null() {
        // SAFETY: `write` reads so many bytes of a constant, and neither call allocates or returns into anything that could.
        unsafe {
            libc::write(libc::STDERR_FILENO, MESSAGE.as_ptr().cast(), MESSAGE.len());
            libc::_exit(LIMIT);
        }
    }
    block
}

// SAFETY: every request goes to the system's allocator as it is, and what that gives is passed on unchanged.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as promised by the caller.
        given(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as promised by the caller.
        given(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as promised by the caller.
        given(unsafe { System.realloc(block, layout, size) })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(block, layout) };
    }
}
