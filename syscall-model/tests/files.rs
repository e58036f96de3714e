//! Files over a made-up host: one behaviour per test.

mod support;

use libc::{O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY};
use support::{DATA, Guest};
use syscall_model::fs::{Host, MemoryHost};
use syscall_model::process::Ids;
use syscall_model::{Effect, Errno, GuestMemory, Sysno};

fn host() -> MemoryHost {
    MemoryHost::default()
        .directory("/etc")
        .directory("/tmp")
        .directory("/dev")
        .directory("/home")
        .device("/dev/null", 1, 3)
        .device("/dev/zero", 1, 5)
        .device("/dev/full", 1, 7)
        .device("/dev/urandom", 1, 9)
        .device("/dev/tty", 5, 0)
        .link("/dev/stdin", "/proc/self/fd/0")
        .link("/dev/stdout", "/proc/self/fd/1")
        .link("/dev/fd", "/proc/self/fd")
        .file("/etc/motd", 0o644, b"hello, world\n")
        .file("/etc/secret", 0o600, b"for root")
        .link("/etc/link", "motd")
        .link("/etc/loop", "loop")
        .link("/etc/up", "../tmp")
}

fn guest() -> Guest<MemoryHost> {
    Guest::new(host(), "/tmp")
}

#[test]
fn reads_host_files_at_a_moving_offset() {
    let mut g = guest();
    let fd = g.open("/etc/motd", O_RDONLY, 0).unwrap();
    assert_eq!(fd, 3);
    assert_eq!(g.read(fd, 5).unwrap(), b"hello");
    assert_eq!(g.read(fd, 100).unwrap(), b", world\n");
    assert_eq!(g.read(fd, 100).unwrap(), b"");
    assert_eq!(g.call(Sysno::lseek, &[fd as u64, 7, 0]), Ok(7));
    assert_eq!(g.read(fd, 3).unwrap(), b"wor");
    assert_eq!(g.write(fd, b"x"), Err(Errno::EBADF));
    g.close(fd).unwrap();
    assert_eq!(g.close(fd), Err(Errno::EBADF));
}

#[test]
fn writes_stay_in_the_overlay_and_reach_every_open_description() {
    let mut g = guest();
    let reader = g.open("/etc/motd", O_RDONLY, 0).unwrap();
    let writer = g.open("/etc/link", O_RDWR, 0).unwrap();
    let before = g.model.clone();
    g.write(writer, b"HELLO").unwrap();
    assert_eq!(g.read(reader, 12).unwrap(), b"HELLO, world");
    assert_eq!(g.host.open(b"/etc/motd").unwrap().read_at(&mut [0; 5], 0), Ok(5));
    g.model = before;
    assert_eq!(
        g.read(reader, 5).unwrap(),
        b"hello",
        "going back forgets the write"
    );
}

#[test]
fn created_files_have_mode_owner_and_contents() {
    let mut g = guest();
    let fd = g.open("new", O_CREAT | O_WRONLY, 0o666).unwrap();
    g.write(fd, b"abc").unwrap();
    g.write(fd, b"def").unwrap();
    assert_eq!(g.stat("/tmp/new").unwrap(), (libc::S_IFREG | 0o644, 6));
    assert_eq!(g.contents("/tmp/../tmp/./new").unwrap(), b"abcdef");
    assert_eq!(
        g.open("new", O_CREAT | O_EXCL | O_WRONLY, 0o666),
        Err(Errno::EEXIST)
    );
    let fd = g.open("new", O_WRONLY | O_TRUNC | O_APPEND, 0).unwrap();
    g.write(fd, b"x").unwrap();
    assert_eq!(g.contents("new").unwrap(), b"x");
}

#[test]
fn paths_fail_as_the_kernel_says() {
    let mut g = guest();
    for (path, flags, errno) in [
        ("/nothing", O_RDONLY, Errno::ENOENT),
        ("", O_RDONLY, Errno::ENOENT),
        ("/nothing/below", O_CREAT | O_WRONLY, Errno::ENOENT),
        ("/etc/motd/below", O_RDONLY, Errno::ENOTDIR),
        ("/etc/motd/", O_RDONLY, Errno::ENOTDIR),
        ("/etc/loop", O_RDONLY, Errno::ELOOP),
        ("/etc/link", O_RDONLY | O_NOFOLLOW, Errno::ELOOP),
        ("/etc", O_WRONLY, Errno::EISDIR),
        ("/etc/new/", O_CREAT | O_WRONLY, Errno::EISDIR),
        ("/etc/motd", O_RDONLY | O_DIRECTORY, Errno::ENOTDIR),
        ("/dev/tty", O_RDWR, Errno::ENXIO),
    ] {
        assert_eq!(g.open(path, flags, 0o644), Err(errno), "{path}");
    }
    assert!(
        g.open("/etc/up/../etc/motd", O_RDONLY, 0).is_ok(),
        "`..` of a link's target"
    );
}

#[test]
fn other_users_may_not_read_secrets() {
    let mut g = guest();
    g.model.process.user = Ids::new(1000);
    g.model.process.group_ids = Ids::new(1000);
    assert_eq!(g.open("/etc/secret", O_RDONLY, 0), Err(Errno::EACCES));
    assert_eq!(g.open("/etc/new", O_CREAT | O_WRONLY, 0o644), Err(Errno::EACCES));
    assert!(g.open("/etc/motd", O_RDONLY, 0).is_ok());
}

#[test]
fn devices_and_standard_streams() {
    let mut g = guest();
    let null = g.open("/dev/null", O_RDWR, 0).unwrap();
    assert_eq!(g.write(null, b"gone"), Ok(4));
    assert_eq!(g.read(null, 10).unwrap(), b"");
    let zero = g.open("/dev/zero", O_RDONLY, 0).unwrap();
    assert_eq!(g.read(zero, 3).unwrap(), [0; 3]);
    let full = g.open("/dev/full", O_WRONLY, 0).unwrap();
    assert_eq!(g.write(full, b"x"), Err(Errno::ENOSPC));
    let random = g.open("/dev/urandom", O_RDONLY, 0).unwrap();
    let first = g.read(random, 16).unwrap();
    assert_ne!(first, g.read(random, 16).unwrap());
    assert_eq!(g.read(0, 4).unwrap(), b"from");
    assert_eq!(g.contents("/dev/stdin").unwrap(), b"from stdin\n");
    let out = g.open("/dev/stdout", O_WRONLY, 0).unwrap();
    g.write(1, b"one ").unwrap();
    g.write(out, b"two").unwrap();
    assert_eq!(g.model.output.stdout.bytes(), b"one two");
    assert_eq!(g.call(Sysno::lseek, &[1, 0, 1]), Err(Errno::ESPIPE));
}

#[test]
fn proc_shows_the_virtual_process() {
    let mut g = guest();
    assert_eq!(g.contents("/proc/self/comm").unwrap(), b"guest\n");
    assert_eq!(g.contents("/proc/1000/task/1000/comm").unwrap(), b"guest\n");
    assert_eq!(g.open("/proc/1", O_RDONLY, 0), Err(Errno::ENOENT));
    assert_eq!(g.open("/proc/self/maps", O_RDONLY, 0), Err(Errno::ENOENT));
    let cpus = g.contents("/proc/cpuinfo").unwrap();
    assert_eq!(String::from_utf8(cpus).unwrap().matches("processor").count(), 2);
}

#[test]
fn mappings_come_from_the_host_until_the_file_changes() {
    use syscall_model::effect::MapSource;
    let mut g = guest();
    let fd = g.open("/etc/motd", O_RDWR, 0).unwrap();
    let args = [
        0,
        4096,
        libc::PROT_READ as u64,
        libc::MAP_PRIVATE as u64,
        fd as u64,
        0,
    ];
    let source = |g: &mut Guest<MemoryHost>| match g.effect(Sysno::mmap, args).unwrap() {
        Effect::MapFile(map) => map.source,
        other => panic!("{other:?}"),
    };
    assert_eq!(source(&mut g), MapSource::Host("/etc/motd".into()));
    g.write(fd, b"J").unwrap();
    assert_eq!(source(&mut g), MapSource::Bytes(b"Jello, world\n".to_vec()));
}

#[test]
fn bad_buffers_are_faults() {
    let mut g = guest();
    let fd = g.open("/etc/motd", O_RDONLY, 0).unwrap();
    assert_eq!(g.call(Sysno::read, &[fd as u64, 8, 4]), Err(Errno::EFAULT));
    assert_eq!(g.call(Sysno::write, &[1, 8, 4]), Err(Errno::EFAULT));
    assert_eq!(g.call(Sysno::open, &[8, 0, 0]), Err(Errno::EFAULT));
    g.memory.write(DATA, &[0; 8]).unwrap();
}
