//! The wall behind the filter: calls that would get to the kernel are refused there, in the task and in its copies. They are injected here, since no program can make them.

mod common;

use common::{Guest, next};
use nix::errno::Errno;
use std::os::unix::ffi::OsStrExt;
use tracee::{Stopped, check_return};

fn version() -> i64 {
    // SAFETY: a null pointer of size 0 is what this flag wants.
    unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0, 0, 1) }
}

fn open(task: &mut Stopped, path: &std::path::Path, flags: i32) -> Result<u64, Errno> {
    let mut name = path.as_os_str().as_bytes().to_vec();
    name.push(0);
    let loan = task.lend(&name).unwrap();
    let at = libc::AT_FDCWD as i64 as u64;
    let answer = task.inject(libc::SYS_openat, [at, loan.addr, flags as u64, 0o600, 0, 0]);
    task.take_back(loan).unwrap();
    check_return(answer.unwrap())
}

#[test]
fn the_task_may_read_and_execute_and_nothing_else() {
    let version = version();
    if version < 1 {
        eprintln!("this kernel has no Landlock");
        return;
    }
    let guest = Guest::new("void guest(u64 *s) { getpid(); exit(0); }");
    let mut task = next(guest.start());
    let mut copy = task.inject_fork().unwrap();
    let file = guest.dir().join("file");
    std::fs::write(&file, "kept").unwrap();
    for task in [&mut task, &mut copy] {
        assert!(open(task, &file, libc::O_RDONLY).is_ok());
        assert_eq!(open(task, &file, libc::O_WRONLY), Err(Errno::EACCES));
        let new = guest.dir().join("new");
        assert_eq!(
            open(task, &new, libc::O_WRONLY | libc::O_CREAT),
            Err(Errno::EACCES)
        );
        assert!(!new.exists());
        if version >= 6 {
            let me = u64::from(std::process::id());
            let answer = task.inject(libc::SYS_kill, [me, 0, 0, 0, 0, 0]).unwrap();
            assert_eq!(check_return(answer), Err(Errno::EPERM));
        }
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"kept");
}

/// Can somebody like us have a network namespace at all?
fn namespaces_are_to_be_had() -> bool {
    let flags = match nix::unistd::getuid().is_root() {
        true => "-n",
        false => "-Un",
    };
    let tried = std::process::Command::new("unshare")
        .args([flags, "true"])
        .status();
    tried.is_ok_and(|status| status.success())
}

#[test]
fn the_task_has_a_network_of_its_own() {
    if !namespaces_are_to_be_had() {
        eprintln!("there are no network namespaces for us");
        return;
    }
    let here = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    here.set_nonblocking(true).unwrap();
    let guest = Guest::new("void guest(u64 *s) { getpid(); exit(0); }");
    let mut task = next(guest.start());
    let mut copy = task.inject_fork().unwrap();
    let mut address = vec![2, 0];
    address.extend(here.local_addr().unwrap().port().to_be_bytes());
    address.extend([127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    for task in [&mut task, &mut copy] {
        // Landlock has nothing to say about datagrams.
        let args = [libc::AF_INET as u64, libc::SOCK_DGRAM as u64, 0, 0, 0, 0];
        let socket = check_return(task.inject(libc::SYS_socket, args).unwrap()).unwrap();
        let loan = task.lend(&address).unwrap();
        let args = [socket, loan.addr, 2, 0, loan.addr, address.len() as u64];
        let answer = task.inject(libc::SYS_sendto, args).unwrap();
        task.take_back(loan).unwrap();
        assert_eq!(check_return(answer), Err(Errno::ENETUNREACH));
    }
    let heard = here.recv(&mut [0; 16]).map_err(|error| error.kind());
    assert_eq!(heard, Err(std::io::ErrorKind::WouldBlock));
}
