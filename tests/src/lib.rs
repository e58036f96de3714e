//! The harness of the end-to-end tests: builds guest programs once, runs them natively and under
//! `tracefork`, and compares what came out.
//!
//! A guest is one small program in `tests/guests` that shows one behaviour. Its leading comment holds
//! directives (see [`directives`]) that say how to build it and how it ends. The native run is always the
//! judge: a guest is right if the supervised run has the same output, end and written files.
//!
//! To add a guest, add a file; the test targets find it by themselves.
#![forbid(unsafe_code)]

pub mod browser;
pub mod campaign;
pub mod combinations;
pub mod debian;
pub mod desyncs;
pub mod dice;
pub mod directives;
pub mod documents;
pub mod guests;
pub mod hostile;
pub mod networked;
pub mod observe;
pub mod process;
pub mod random_calls;
pub mod random_program;
pub mod random_protocol;
pub mod shell;
pub mod supervised;

pub use test_packages as packages;

/// The path of the `tracefork` command under test, for the integration test that uses it. A macro, because cargo
/// tells only the integration tests themselves.
#[macro_export]
macro_rules! command_under_test {
    () => {
        std::path::Path::new(env!("CARGO_BIN_EXE_tracefork-under-test"))
    };
}

/// The `main` of a suite of tests of the command: functions that are given it, each named after itself.
#[macro_export]
macro_rules! suite {
    ($($test:ident),* $(,)?) => {
        fn main() -> std::process::ExitCode {
            let tests: &[(&str, $crate::networked::Test)] = &[$((stringify!($test), $test)),*];
            $crate::networked::run_suite($crate::command_under_test!(), tests)
        }
    };
}

/// What a guest or program is given: its environment is the same natively and supervised, and does not
/// depend on who runs the tests.
pub const ENVIRONMENT: [(&str, &str); 5] = [
    ("PATH", packages::PATH),
    ("HOME", "/nonexistent"),
    ("LANG", "C.UTF-8"),
    ("LC_ALL", "C.UTF-8"),
    ("TZ", "UTC"),
];
