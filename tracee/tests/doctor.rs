//! The machine that runs the tests passes the doctor's required checks, and the doctor leaves nothing behind.
//! A test binary of its own: it looks at all children of the process.

use tracee::doctor::probe;

#[test]
fn everything_required_works_and_no_child_is_left() {
    let checks = probe();
    for check in &checks {
        eprintln!("{:<16} {:<5} {}", check.name, check.ok, check.detail);
        assert!(!check.hint.is_empty() && !check.detail.is_empty(), "{check:?}");
    }
    let failed: Vec<_> = checks
        .iter()
        .filter(|check| check.required && !check.ok)
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
    let children = nix::sys::wait::waitpid(None, Some(nix::sys::wait::WaitPidFlag::__WALL));
    assert_eq!(children, Err(nix::errno::Errno::ECHILD));
}
