//! Launching: what a program starts with, and how failures are told.

mod common;

use common::{Guest, exists, exit_code, launch, next, next_call, prepared, run_all};
use nix::errno::Errno;
use std::os::unix::fs::PermissionsExt;
use tracee::auxv::{AT_IGNORE, AT_RANDOM, AT_SYSINFO_EHDR};
use tracee::{Outcome, Resume, SpawnError, SpawnStep, Stop};

#[test]
fn a_dynamic_program_runs_to_its_end() {
    let (task, image) = prepared(&launch("/bin/true", &["true"], &[]), false);
    assert!(image.loader.is_some() && image.entry.is_some() && image.program_headers.is_some());
    let pid = task.pid();
    let (code, calls) = run_all(task);
    assert_eq!(code, 0);
    assert!(calls.contains(&libc::SYS_mmap) && calls.last() == Some(&libc::SYS_exit_group));
    assert!(!exists(pid), "a zombie is left");
}

#[test]
fn output_of_echo_can_be_captured_at_its_write() {
    let (task, _) = prepared(&launch("/bin/echo", &["echo", "hello", "there"], &[]), false);
    let task = next_call(task, libc::SYS_write);
    let [fd, addr, len, ..] = task.regs().unwrap().args();
    let mut text = vec![0; len as usize];
    task.memory().read(addr, &mut text).unwrap();
    assert_eq!((fd, text.as_slice()), (1, b"hello there\n".as_slice()));
    assert_eq!(run_all(task).0, 0);
}

#[test]
fn every_run_makes_the_same_calls_at_the_same_addresses() {
    let trace = || {
        let (mut task, image) = prepared(&launch("/bin/true", &["true"], &[]), false);
        let mut seen = Vec::new();
        loop {
            match task
                .resume(Resume::Cont, None)
                .unwrap()
                .wait_ignoring_ticks()
                .unwrap()
            {
                Outcome::Stopped(stopped) => {
                    let regs = *stopped.regs().unwrap();
                    seen.push((regs.call(), regs.rip, regs.rsp, regs.args()));
                    task = stopped;
                }
                Outcome::Exited(0) => return (image, seen),
                other => panic!("{other:?}"),
            }
        }
    };
    assert_eq!(trace(), trace());
}

#[test]
fn allowed_calls_do_not_stop() {
    let guest = Guest::new("void guest(u64 *s) { getpid(); getppid(); getpid(); exit(0); }");
    assert_eq!(run_all(guest.start()).1, [39, 110, 39, 231]);
    let (task, _) = guest.start_with(&[libc::SYS_getpid], false);
    assert_eq!(run_all(task).1, [110, 231]);
    let (task, _) = guest.start_with(
        &[libc::SYS_getpid, libc::SYS_getppid, libc::SYS_exit_group],
        false,
    );
    assert_eq!(exit_code(task), 0);
}

#[test]
fn the_image_is_prepared() {
    // Exits with 0 if the auxiliary vector has an ignored entry, no vDSO, and the chosen random bytes.
    let guest = Guest::new(
        "void guest(u64 *s) {
           u64 *p = s + 1 + *s + 1; while (*p) p++; p++;
           int ignored = 0, vdso = 0, random = 0;
           for (; p[0]; p += 2) {
             ignored |= p[0] == 1; vdso |= p[0] == 33;
             if (p[0] == 25) random = ((u64 *)p[1])[0] == 0x5a5a5a5a5a5a5a5a && ((u64 *)p[1])[1] == 0x5a5a5a5a5a5a5a5a;
           }
           exit(ignored && !vdso && random ? 0 : 1); }",
    );
    let (task, image) = guest.start_with(&[], false);
    assert!(image.stack.get(AT_SYSINFO_EHDR).is_some() && image.stack.get(AT_IGNORE).is_none());
    assert!(image.stack.get(AT_RANDOM).is_some());
    assert_eq!(
        (image.stack.argc, image.loader, image.entry),
        (1, None, Some(image.start))
    );
    let name = task.memory().read_u64(image.stack.argv).unwrap();
    assert_eq!(task.memory().read_cstr(name, 100).unwrap(), b"guest");
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", task.pid())).unwrap();
    assert!(!maps.contains("[vdso]") && !maps.contains("[vvar"), "{maps}");
    assert_eq!(run_all(task), (0, vec![231]));
}

#[test]
fn a_program_starts_with_default_signals_three_descriptors_and_its_own_session() {
    let (task, _) = prepared(&launch("/bin/true", &["true"], &[]), false);
    let proc = format!("/proc/{}", task.pid());
    let mut fds: Vec<_> = std::fs::read_dir(format!("{proc}/fd"))
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            (
                entry.file_name().into_string().unwrap(),
                std::fs::read_link(entry.path()).unwrap(),
            )
        })
        .collect();
    fds.sort();
    let expected: Vec<_> = ["0", "1", "2"]
        .map(|fd| (fd.to_owned(), "/dev/null".into()))
        .into();
    assert_eq!(fds, expected);
    let status = std::fs::read_to_string(format!("{proc}/status")).unwrap();
    for set in ["SigBlk", "SigIgn", "SigCgt"] {
        assert!(status.contains(&format!("{set}:\t0000000000000000")), "{status}");
    }
    assert!(status.contains("NoNewPrivs:\t1"));
    let stat = std::fs::read_to_string(format!("{proc}/stat")).unwrap();
    let after_name: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    assert_eq!(after_name[3], task.pid().to_string(), "session");
}

/// Set for the attempt in a mount namespace of its own.
const NO_NULL: &str = "TRACEE_TEST_NO_NULL";

/// A program can be launched where `/dev/null` cannot be opened: in a container without devices, or where somebody has
/// replaced it. On a mount without devices nobody may open it, root neither.
#[test]
fn a_launch_needs_no_device() {
    if std::env::var_os(NO_NULL).is_some() {
        let denied = std::fs::File::open("/dev/null").unwrap_err();
        assert_eq!(denied.raw_os_error(), Some(libc::EACCES));
        let (task, _) = prepared(&launch("/bin/true", &["true"], &[]), false);
        assert_eq!(
            std::fs::read_dir(format!("/proc/{}/fd", task.pid()))
                .unwrap()
                .count(),
            3
        );
        return;
    }
    let mount = "mount --bind /dev/null /dev/null && mount -o remount,bind,nodev /dev/null && exec \"$@\"";
    let namespace = if nix::unistd::geteuid().is_root() {
        "-m"
    } else {
        "-rm"
    };
    let output = std::process::Command::new("unshare")
        .args([namespace, "sh", "-c", mount, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "a_launch_needs_no_device"])
        .env(NO_NULL, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn a_second_exec_is_prepared_like_the_first() {
    let guest = Guest::new(
        r#"void guest(u64 *s) { u64 argv[] = {(u64)"true", 0}; call3(59, "/bin/true", argv, argv + 1); exit(9); }"#,
    );
    let mut task = next(next(guest.start()));
    assert_eq!(*task.stop(), Stop::Exec);
    let options = tracee::ImageOptions {
        random: [1; 16],
        hide_tsc: false,
    };
    task.prepare_image(&options).unwrap();
    assert_eq!(
        task.inject(libc::SYS_getpid, [0; 6]).unwrap(),
        i64::from(task.pid())
    );
    assert_eq!(run_all(task).0, 0);
}

#[track_caller]
fn fails(launch: &tracee::Launch, step: SpawnStep, errno: Errno) {
    match launch.spawn() {
        Err(SpawnError::Child { step: s, errno: e }) => assert_eq!((s, e), (step, errno)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn failures_in_the_child_are_told_with_step_and_errno() {
    let dir = tempfile::tempdir().unwrap();
    let text = dir.path().join("text");
    std::fs::write(&text, "not a program").unwrap();
    fails(
        &launch("/no/such/program", &["x"], &[]),
        SpawnStep::Exec,
        Errno::ENOENT,
    );
    fails(&launch("/usr", &["x"], &[]), SpawnStep::Exec, Errno::EACCES);
    fails(&launch(&text, &["x"], &[]), SpawnStep::Exec, Errno::EACCES);
    std::fs::set_permissions(&text, std::fs::Permissions::from_mode(0o755)).unwrap();
    fails(&launch(&text, &["x"], &[]), SpawnStep::Exec, Errno::ENOEXEC);
    let mut nowhere = launch("/bin/true", &["true"], &[]);
    nowhere.cwd = "/no/such/directory".into();
    fails(&nowhere, SpawnStep::WorkingDirectory, Errno::ENOENT);
    let mut nul = launch("/bin/true", &["tr\0ue"], &[]);
    assert!(matches!(nul.spawn(), Err(SpawnError::Nul { .. })));
    nul.argv.clear();
    nul.core = Some(1_000_000);
    assert!(matches!(nul.spawn(), Err(SpawnError::Supervisor { .. })));
}

#[test]
fn a_failed_exec_is_told_even_if_everything_is_allowed() {
    let all: Vec<i64> = (0..470).collect();
    fails(
        &launch("/no/such/program", &["x"], &all),
        SpawnStep::Exec,
        Errno::ENOENT,
    );
    assert_eq!(
        exit_code(launch("/bin/true", &["true"], &all).spawn().unwrap()),
        0
    );
}

#[test]
fn supervisor_and_program_share_the_chosen_core() {
    let mut launch = launch("/bin/true", &["true"], &[]);
    launch.core = Some(0);
    let task = launch.spawn().unwrap();
    for pid in [0, task.pid()] {
        let set = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(pid)).unwrap();
        let cores: Vec<_> = (0..64).filter(|&core| set.is_set(core).unwrap()).collect();
        assert_eq!(cores, [0]);
    }
}
