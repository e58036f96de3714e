//! A new program in the same process.
//!
//! The kernel loads it, from a file of this machine. A program that was written or changed in the overlay
//! has no such file and cannot be run; nor can a process with several threads replace itself, because the
//! kernel has only one of them.

use crate::call::Call;
use crate::effect::{Effect, Exec, Outcome, Prepared};
use crate::fs::{NodeId, flush_all};
use crate::handlers::paths;
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use crate::object::{Object, Touch};
use syscalls::Errno;

/// As the kernel: one string, and all of them with the default stack limit.
const MAX_STRING: usize = 128 << 10;
const MAX_STRINGS: usize = 2 << 20;
const X_OK: u32 = 1;

pub fn prepare(_: &mut Cx, _: &Call) -> Prepared {
    Prepared::visible(vec![Touch::write(Object::Everything)])
}

pub fn execve(cx: &mut Cx, call: &Call) -> Outcome {
    let path = cx.mem.read_path(call.word(0))?;
    exec(cx, libc::AT_FDCWD, &path, call.word(1), call.word(2))
}

/// Without a path (`fexecve`) it is refused: the C library then goes through `/proc/self/fd`.
pub fn execveat(cx: &mut Cx, call: &Call) -> Outcome {
    let path = cx.mem.read_path(call.word(1))?;
    if path.is_empty() || call.int(4) != 0 {
        return Err(Errno::ENOSYS);
    }
    exec(cx, call.fd(0), &path, call.word(2), call.word(3))
}

fn exec(cx: &mut Cx, dirfd: i32, path: &[u8], argv: u64, envp: u64) -> Outcome {
    let (argv, envp) = (read_strings(cx, argv)?, read_strings(cx, envp)?);
    let program = paths::find(cx, dirfd, path, true)?;
    let node = program.existing()?;
    let attributes = cx.view().attributes(&node)?;
    if !attributes.is_regular() || !cx.view().permits(&attributes, X_OK) {
        return Err(Errno::EACCES);
    }
    if !runnable(&beginning(cx, &node)?) {
        return Err(Errno::ENOEXEC);
    }
    if !matches!(node, NodeId::Host(_)) {
        return Ok(Effect::Unsupported(
            "the program to run was made or changed by this one, and the kernel has no file of it".to_owned(),
        ));
    }
    if cx.model.threads.len() > 1 {
        return Ok(Effect::Unsupported(
            "a process with several threads cannot become another program: check that one instead, or let it run as a peer \
             (--server, --client)"
                .to_owned(),
        ));
    }
    // The name as it was asked for, not what it links to: programs look at their own name.
    let asked = paths::find(cx, dirfd, path, false)?;
    let path = match asked.node {
        Some(NodeId::Host(_)) => asked.path,
        _ => program.path,
    };
    flush_all(cx)?;
    Ok(Effect::Exec(Exec { path, argv, envp }))
}

/// The first bytes of a file, which say what it is.
fn beginning(cx: &Cx, node: &NodeId) -> Result<Vec<u8>, Errno> {
    const LENGTH: usize = 4;
    match node {
        NodeId::Host(host) => {
            let mut bytes = vec![0; LENGTH];
            let len = cx.host.open(&host.path)?.read_at(&mut bytes, 0)?;
            bytes.truncate(len);
            Ok(bytes)
        }
        NodeId::Overlay(ino) => cx.model.fs.file_data(*ino)?.read_at(0, LENGTH),
        _ => Err(Errno::EACCES),
    }
}

fn runnable(beginning: &[u8]) -> bool {
    beginning.starts_with(b"\x7fELF") || beginning.starts_with(b"#!")
}

/// A null-terminated array of strings; a null pointer is an empty one.
fn read_strings(cx: &Cx, array: u64) -> Result<Vec<Vec<u8>>, Errno> {
    let mut strings = Vec::new();
    let mut total = 0;
    if array == 0 {
        return Ok(strings);
    }
    for i in 0.. {
        let addr = cx.mem.read_u64(array.wrapping_add(8 * i))?;
        if addr == 0 {
            break;
        }
        let string = match cx.mem.read_cstr(addr, MAX_STRING) {
            Err(Errno::ENAMETOOLONG) => return Err(Errno::E2BIG),
            string => string?,
        };
        total += string.len() + 9;
        if total > MAX_STRINGS {
            return Err(Errno::E2BIG);
        }
        strings.push(string);
    }
    Ok(strings)
}

#[cfg(test)]
mod tests;
