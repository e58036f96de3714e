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
    g.model.process.owner.user = Ids::new(1000);
    g.model.process.owner.group = Ids::new(1000);
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
    let name = g.open("/proc/self/task/1000/comm", O_RDWR, 0).unwrap();
    assert_eq!(g.write(name, b"a name that is too long"), Ok(23));
    assert_eq!(g.contents("/proc/self/comm").unwrap(), b"a name that is \n");
    assert_eq!(g.open("/proc/self/stat", O_RDWR, 0), Err(Errno::EACCES));
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

fn names(g: &mut Guest<MemoryHost>, path: &str) -> Vec<String> {
    use syscall_model::GuestMemoryExt;
    let fd = g.open(path, O_RDONLY | O_DIRECTORY, 0).unwrap();
    let mut names = Vec::new();
    loop {
        // Small, so that listing takes several calls.
        let n = g.call(Sysno::getdents64, &[fd as u64, DATA, 64]).unwrap() as u64;
        if n == 0 {
            break;
        }
        let mut at = 0;
        while at < n {
            let head = g.memory.read_vec(DATA + at + 16, 3).unwrap();
            let len = u64::from(u16::from_le_bytes([head[0], head[1]]));
            let name = g.memory.read_cstr(DATA + at + 19, 256).unwrap();
            names.push(String::from_utf8(name).unwrap());
            at += len;
        }
    }
    g.close(fd).unwrap();
    names
}

fn pair(g: &mut Guest<MemoryHost>, sysno: Sysno, from: &str, to: &str) -> Result<i64, Errno> {
    let (from, to) = (g.path(0, from), g.path(1, to));
    g.call(sysno, &[from, to])
}

fn one(g: &mut Guest<MemoryHost>, sysno: Sysno, path: &str, argument: u64) -> Result<i64, Errno> {
    let path = g.path(0, path);
    g.call(sysno, &[path, argument])
}

#[test]
fn directories_list_both_layers_in_order() {
    let mut g = guest();
    one(&mut g, Sysno::unlink, "/etc/loop", 0).unwrap();
    one(&mut g, Sysno::mkdir, "/etc/aaa", 0o755).unwrap();
    assert_eq!(
        names(&mut g, "/etc"),
        [".", "..", "aaa", "link", "motd", "secret", "up"]
    );
    assert_eq!(one(&mut g, Sysno::rmdir, "/etc", 0), Err(Errno::ENOTEMPTY));
    assert_eq!(g.open("/etc/loop", O_RDONLY, 0), Err(Errno::ENOENT));
}

#[test]
fn a_host_directory_moves_with_all_it_holds() {
    let mut g = guest();
    one(&mut g, Sysno::chdir, "/etc", 0).unwrap();
    pair(&mut g, Sysno::rename, "/etc", "/home/moved").unwrap();
    assert_eq!(g.contents("/home/moved/motd").unwrap(), b"hello, world\n");
    assert_eq!(g.contents("motd").unwrap(), b"hello, world\n");
    assert_eq!(g.stat("/etc"), Err(Errno::ENOENT));
    let n = g.call(Sysno::getcwd, &[DATA, 100]).unwrap();
    use syscall_model::GuestMemoryExt;
    assert_eq!(g.memory.read_cstr(DATA, 100).unwrap(), b"/home/moved");
    assert_eq!(n, 12);
    assert_eq!(
        pair(&mut g, Sysno::rename, "/home", "/home/moved/in"),
        Err(Errno::EINVAL)
    );
    assert_eq!(g.contents("../../home/moved/link").unwrap(), b"hello, world\n");
}

#[test]
fn unlinked_files_live_while_they_are_open() {
    let mut g = guest();
    let pristine = g.model.clone();
    let fd = g.open("/tmp/gone", O_CREAT | O_RDWR, 0o600).unwrap();
    g.write(fd, b"still here").unwrap();
    one(&mut g, Sysno::unlink, "/tmp/gone", 0).unwrap();
    assert_eq!(g.stat("/tmp/gone"), Err(Errno::ENOENT));
    g.call(Sysno::lseek, &[fd as u64, 0, 0]).unwrap();
    assert_eq!(g.read(fd, 100).unwrap(), b"still here");
    g.close(fd).unwrap();
    assert_ne!(g.model, pristine, "the directory's times have changed");
}

#[test]
fn hard_links_share_contents() {
    let mut g = guest();
    pair(&mut g, Sysno::link, "/etc/motd", "/tmp/other").unwrap();
    let fd = g.open("/tmp/other", O_WRONLY | O_APPEND, 0).unwrap();
    g.write(fd, b"more").unwrap();
    assert_eq!(g.contents("/etc/motd").unwrap(), b"hello, world\nmore");
    one(&mut g, Sysno::unlink, "/etc/motd", 0).unwrap();
    assert_eq!(g.contents("/tmp/other").unwrap(), b"hello, world\nmore");
}

#[test]
fn descriptors_are_duplicated_and_flagged() {
    let mut g = guest();
    let fd = g.open("/etc/motd", O_RDONLY, 0).unwrap() as u64;
    let copy = g.call(Sysno::dup, &[fd]).unwrap() as i32;
    g.read(copy, 7).unwrap();
    assert_eq!(g.read(fd as i32, 5).unwrap(), b"world", "one offset for both");
    assert_eq!(g.call(Sysno::dup2, &[fd, 9]), Ok(9));
    assert_eq!(g.call(Sysno::dup2, &[9, 9]), Ok(9));
    assert_eq!(g.call(Sysno::dup3, &[9, 9, 0]), Err(Errno::EINVAL));
    assert_eq!(g.call(Sysno::fcntl, &[fd, libc::F_SETFD as u64, 1]), Ok(0));
    assert_eq!(g.call(Sysno::fcntl, &[fd, libc::F_GETFD as u64, 0]), Ok(1));
    assert_eq!(g.call(Sysno::fcntl, &[fd, libc::F_DUPFD as u64, 20]), Ok(20));
    assert_eq!(g.call(Sysno::ioctl, &[1, libc::TCGETS, DATA]), Err(Errno::ENOTTY));
    assert_eq!(g.call(Sysno::close_range, &[3, 30, 0]), Ok(0));
    assert_eq!(g.model.files.iter().count(), 3);
}

#[test]
fn flock_waits_for_another_description_only() {
    let mut g = guest();
    let one = g.open("/etc/motd", O_RDWR, 0).unwrap() as u64;
    let two = g.open("/etc/motd", O_RDWR, 0).unwrap() as u64;
    let (ex, nb) = (libc::LOCK_EX as u64, libc::LOCK_NB as u64);
    assert_eq!(g.call(Sysno::flock, &[one, ex]), Ok(0));
    assert_eq!(g.call(Sysno::flock, &[one, ex]), Ok(0));
    assert_eq!(g.call(Sysno::flock, &[two, ex | nb]), Err(Errno::EAGAIN));
    let waits = g.effect(Sysno::flock, [two, ex, 0, 0, 0, 0]).unwrap();
    let Effect::Block(wait) = waits else {
        panic!("{waits:?}")
    };
    g.model.thread_mut(1000).wait = Some(wait);
    assert!(!g.model.runnable(1000));
    g.model.close(one as i32).unwrap();
    assert!(g.model.runnable(1000));
}

#[test]
fn sealed_memory_files_refuse_writes() {
    let mut g = guest();
    let name = g.path(0, "name");
    let fd = g
        .call(Sysno::memfd_create, &[name, libc::MFD_ALLOW_SEALING as u64])
        .unwrap();
    g.write(fd as i32, b"fixed").unwrap();
    let seals = (libc::F_SEAL_WRITE | libc::F_SEAL_SHRINK) as u64;
    assert_eq!(
        g.call(Sysno::fcntl, &[fd as u64, libc::F_ADD_SEALS as u64, seals]),
        Ok(0)
    );
    assert_eq!(g.write(fd as i32, b"x"), Err(Errno::EPERM));
    assert_eq!(g.call(Sysno::ftruncate, &[fd as u64, 0]), Err(Errno::EPERM));
}

#[test]
fn truncated_bytes_do_not_come_back() {
    let mut g = guest();
    let fd = g.open("/etc/motd", O_RDWR, 0).unwrap() as u64;
    assert_eq!(g.call(Sysno::ftruncate, &[fd, 3]), Ok(0));
    assert_eq!(g.call(Sysno::ftruncate, &[fd, 6]), Ok(0));
    assert_eq!(g.read(fd as i32, 10).unwrap(), b"hel\0\0\0");
}

#[test]
fn data_moves_between_descriptions() {
    let mut g = guest();
    let from = g.open("/etc/motd", O_RDONLY, 0).unwrap() as u64;
    let to = g.open("/tmp/copy", O_CREAT | O_RDWR, 0o644).unwrap() as u64;
    assert_eq!(g.call(Sysno::copy_file_range, &[from, 0, to, 0, 5, 0]), Ok(5));
    assert_eq!(g.call(Sysno::sendfile, &[to, from, 0, 100]), Ok(8));
    assert_eq!(g.call(Sysno::sendfile, &[to, from, 0, 100]), Ok(0));
    assert_eq!(g.contents("/tmp/copy").unwrap(), b"hello, world\n");
    g.memory.write(DATA, &7_u64.to_le_bytes()).unwrap();
    assert_eq!(g.call(Sysno::sendfile, &[1, from, DATA, 5]), Ok(5));
    assert_eq!(g.model.output.stdout.bytes(), b"world");
    assert_eq!(
        g.call(Sysno::splice, &[from, 0, to, 0, 5, 0]),
        Err(Errno::EINVAL),
        "no pipe"
    );
}

#[test]
fn splice_and_tee_go_through_pipes() {
    use syscall_model::GuestMemoryExt;
    let mut g = guest();
    let pipe = |g: &mut Guest<MemoryHost>| {
        g.call(Sysno::pipe, &[DATA]).unwrap();
        let ends = (
            g.memory.read_u32(DATA).unwrap(),
            g.memory.read_u32(DATA + 4).unwrap(),
        );
        (u64::from(ends.0), u64::from(ends.1))
    };
    let (first, second) = (pipe(&mut g), pipe(&mut g));
    let from = g.open("/etc/motd", O_RDONLY, 0).unwrap() as u64;
    assert_eq!(g.call(Sysno::splice, &[from, 0, first.1, 0, 5, 0]), Ok(5));
    assert_eq!(g.call(Sysno::tee, &[first.0, second.1, 100, 0]), Ok(5));
    assert_eq!(g.read(first.0 as i32, 10).unwrap(), b"hello");
    assert_eq!(g.call(Sysno::splice, &[second.0, 0, 1, 0, 100, 0]), Ok(5));
    assert_eq!(g.model.output.stdout.bytes(), b"hello");
    let empty = g.effect(Sysno::splice, [second.0, 0, 1, 0, 100, 0]).unwrap();
    assert!(matches!(empty, Effect::Block(_)));
}

/// Maps as the supervisor would: the bytes are put where the model says.
fn map_shared(g: &mut Guest<MemoryHost>, fd: u64, at: u64) -> Result<(), Effect> {
    use syscall_model::effect::MapSource;
    let prot = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let flags = (libc::MAP_SHARED | libc::MAP_FIXED) as u64;
    match g.effect(Sysno::mmap, [at, 8192, prot, flags, fd, 0]).unwrap() {
        Effect::MapFile(map) => {
            let bytes = match map.source {
                MapSource::Bytes(bytes) => bytes,
                MapSource::Host(path) => {
                    let mut bytes = vec![0; 8192];
                    let file = g.host.open(path.as_os_str().as_encoded_bytes()).unwrap();
                    file.read_at(&mut bytes, 0).unwrap();
                    bytes
                }
            };
            g.memory.write(map.addr, &bytes).unwrap();
            Ok(())
        }
        other => Err(other),
    }
}

#[test]
fn shared_mappings_and_files_show_the_same_bytes() {
    use syscall_model::GuestMemoryExt;
    let (mut g, at) = (guest(), support::BASE + 0x20000);
    let fd = g.open("/etc/motd", O_RDWR, 0).unwrap();
    map_shared(&mut g, fd as u64, at).unwrap();
    g.memory.write(at + 7, b"there").unwrap();
    assert_eq!(g.read(fd, 100).unwrap(), b"hello, there\n");
    g.call(Sysno::lseek, &[fd as u64, 0, 0]).unwrap();
    g.write(fd, b"HELLO").unwrap();
    assert_eq!(g.memory.read_vec(at, 12).unwrap(), b"HELLO, there");
    map_shared(&mut g, fd as u64, at + 0x4000).unwrap();
    assert_eq!(g.memory.read_vec(at + 0x4000, 12).unwrap(), b"HELLO, there");
    assert_eq!(
        g.effect(Sysno::munmap, [at + 0x4000, 8192, 0, 0, 0, 0]),
        Ok(Effect::Kernel)
    );
    g.close(fd).unwrap();
    g.memory.write(at, b"J").unwrap();
    assert_eq!(
        g.effect(Sysno::munmap, [at, 8192, 0, 0, 0, 0]),
        Ok(Effect::Kernel)
    );
    g.memory.write(at, b"X").unwrap();
    assert_eq!(g.contents("/etc/motd").unwrap(), b"JELLO, there\n");
}
