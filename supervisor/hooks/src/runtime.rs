//! Code that a program brings along but that is not its own: the runtime of Rust's standard library.
//!
//! It is linked into every Rust program, and what it does around a thread (names, identifiers, hooks, the handle's counter) takes two
//! dozen atomic instructions per thread. They are to a Rust program what the C library's internal locks are to one in C: no order of
//! them shows in what the program does, and parking at each would square the number of states. What people synchronise with
//! (`std::sync`, `Arc`, `park`, channels), and everything that is compiled into their own functions, stays.

use std::ops::Range;

use super::elf::{Module, symbol_range};

/// Paths, as `rustc` gives them, of functions whose atomic instructions, loads and stores are nobody's business.
const INTERNAL: [&str; 9] = [
    "std::thread::",
    "std::rt::",
    "std::sys::pal::",
    "std::sys::thread",
    "std::sys::env::",
    "std::panicking::",
    "std::panic::",
    "std::backtrace_rs::",
    "std::io::stdio::try_set_output_capture",
];

/// Who guards against overflows of the stack keeps a map of threads, whose functions are named after it only in their parameters.
const OVERFLOW: &str = "std::sys::pal::unix::stack_overflow::";

/// Types whose drop glue is the runtime's own.
const GLUE: &str = "core::ptr::drop_in_place";

/// The functions of the Rust runtime in this module, sorted, without overlaps worth mentioning.
pub(super) fn runtime_functions(module: &Module) -> Vec<Range<u64>> {
    let name = |symbol| module.elf.strtab.get_at(symbol).unwrap_or("");
    let mut ranges: Vec<Range<u64>> = module
        .static_functions()
        .filter(|symbol| is_internal(name(symbol.st_name)))
        .map(|symbol| symbol_range(&symbol))
        .collect();
    ranges.sort_by_key(|range| range.start);
    ranges
}

fn is_internal(symbol: &str) -> bool {
    if !symbol.starts_with("_R") && !symbol.starts_with("_ZN") {
        return false;
    }
    let Ok(demangled) = rustc_demangle::try_demangle(symbol) else {
        return false;
    };
    let path = format!("{demangled:#}");
    let path = path.trim_start_matches('<');
    if path.contains("park") {
        return false;
    }
    let subject = path
        .strip_prefix(GLUE)
        .map_or(path, |rest| rest.trim_start_matches([':', '<']));
    INTERNAL.iter().any(|prefix| subject.starts_with(prefix)) || path.contains(OVERFLOW)
}

#[cfg(test)]
mod tests {
    use super::is_internal;

    #[test]
    fn what_people_synchronise_with_stays() {
        for symbol in [
            "_ZN3std4sync4mpmc4list16Channel$LT$T$GT$4send17h0123456789abcdefE",
            "_ZN3std3sys4sync5mutex5futex5Mutex14lock_contended17h0123456789abcdefE",
            "_ZN3std6thread6Thread6unpark17h0123456789abcdefE",
            "_ZN5guest4main17h0123456789abcdefE",
            "pthread_create",
        ] {
            assert!(!is_internal(symbol), "{symbol}");
        }
    }

    #[test]
    fn the_runtime_is_known_by_its_paths() {
        for symbol in [
            "_ZN3std6thread8ThreadId3new17h0123456789abcdefE",
            "_ZN3std6thread6scoped9ScopeData29decrement_num_running_threads17h0123456789abcdefE",
            "_ZN4core3ptr51drop_in_place$LT$std..thread..scoped..ScopeData$GT$17h0123456789abcdefE",
            "_ZN3std2rt19lang_start_internal17h0123456789abcdefE",
        ] {
            assert!(is_internal(symbol), "{symbol}");
        }
    }
}
