//! A program that may be executed but not read: the kernel denies access to its memory, and that must be a clear error.
//! Root may read everything, so the attempt is made as somebody else.

mod common;

use common::{exists, launch};
use nix::errno::Errno;
use std::ffi::OsStr;
use std::fs::{Permissions, copy, set_permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;
use tracee::{Error, ImageOptions};

/// Set for the attempt: path of the program.
const ROLE: &str = "TRACEE_TEST_UNREADABLE";
const NOBODY: u32 = 65534;

fn attempt(program: &OsStr) {
    let mut task = launch(program, &["true"], &[])
        .spawn()
        .expect("execution is allowed");
    let options = ImageOptions {
        random: [0; 16],
        hide_tsc: false,
    };
    match task.prepare_image(&options) {
        Err(Error::Sys {
            errno: Errno::EPERM, ..
        }) => {}
        // In a user namespace of its own the program may read what its user owns, whatever the mode.
        Ok(_)
            if std::fs::metadata(program).is_ok_and(|file| file.uid() == nix::unistd::geteuid().as_raw()) => {
        }
        other => panic!("{other:?}"),
    }
    let pid = task.pid();
    drop(task);
    assert!(!exists(pid));
}

#[test]
fn an_unreadable_program_is_refused_with_a_clear_error() {
    if let Some(program) = std::env::var_os(ROLE) {
        return attempt(&program);
    }
    let dir = tempfile::tempdir().unwrap();
    let (program, test) = (dir.path().join("true"), dir.path().join("test"));
    copy("/bin/true", &program).unwrap();
    // The tests may lie where nobody else can go.
    copy(std::env::current_exe().unwrap(), &test).unwrap();
    set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    set_permissions(&test, Permissions::from_mode(0o755)).unwrap();
    set_permissions(&program, Permissions::from_mode(0o111)).unwrap();
    let mut command = Command::new(&test);
    command
        .args(["--exact", "an_unreadable_program_is_refused_with_a_clear_error"])
        .env(ROLE, &program);
    if nix::unistd::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}
