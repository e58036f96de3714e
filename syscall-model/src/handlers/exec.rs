//! A new program in the same process.
//!
//! The kernel loads it, from a file of this machine; or, if it was written or changed in the overlay, from memory with the same contents. Of a script
//! it is the interpreter that runs, which finds the script wherever it is.

use crate::call::Call;
use crate::effect::{Effect, Exec, Outcome, Prepared};
use crate::fd::Kind;
use crate::fs::{NodeId, data, flush_all};
use crate::handlers::{files, paths};
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use crate::object::{Object, Touch};
use syscalls::{Errno, Sysno};

/// As the kernel: one string, and all of them with the default stack limit.
const MAX_STRING: usize = 128 << 10;
const MAX_STRINGS: usize = 2 << 20;
const X_OK: u32 = 1;
/// Scripts whose interpreters are scripts.
const MAX_SCRIPTS: u32 = 5;

/// The end of whatever the other threads of the process were doing. One that is alone has nothing that others could see, but for what it closes.
pub fn prepare(cx: &Cx, call: &Call) -> Prepared {
    let is_plain = cx.model.threads.len() == 1
        && !cx.model.is_single()
        && !cx.model.process.common.is_any()
        && !cx.model.fs.has_shared_memory();
    if !is_plain || call.sysno != Sysno::execve {
        return Prepared::visible(vec![Touch::write(Object::Everything)]);
    }
    let closed = cx.model.files.iter().filter(|(_, d)| d.close_on_exec);
    let mut touches: Vec<Touch> = closed
        .flat_map(|(fd, _)| files::closing_touches(cx, fd))
        .collect();
    touches.extend(paths::reads(cx, libc::AT_FDCWD, call.word(0), true));
    touches.extend([Touch::write(Object::FdTable), Touch::write(Object::Process)]);
    // Its parent may wait for that.
    touches.push(Touch::write(Object::Thread(cx.tid)));
    Prepared::visible(touches)
}

pub fn execve(cx: &mut Cx, call: &Call) -> Outcome {
    let path = cx.mem.read_path(call.word(0))?;
    exec(cx, libc::AT_FDCWD, &path, call.word(1), call.word(2))
}

/// Without a path (`fexecve`) it is the file that a descriptor refers to.
pub fn execveat(cx: &mut Cx, call: &Call) -> Outcome {
    let flags = call.int(4);
    if flags & !(libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW) != 0 {
        return Err(Errno::EINVAL);
    }
    let path = cx.mem.read_path(call.word(1))?;
    let (argv, envp) = (call.word(2), call.word(3));
    if path.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
        let (_, open) = cx.model.files.lookup(call.fd(0))?;
        let is_file = matches!(open.kind, Kind::File(_));
        let path = format!("/proc/self/fd/{}", call.fd(0)).into_bytes();
        return match is_file {
            true => exec(cx, libc::AT_FDCWD, &path, argv, envp),
            false => Err(Errno::EACCES),
        };
    }
    if flags & libc::AT_SYMLINK_NOFOLLOW != 0 {
        let node = paths::find(cx, call.fd(0), &path, false)?.existing()?;
        if cx.view().attributes(&node)?.is_symlink() {
            return Err(Errno::ELOOP);
        }
    }
    exec(cx, call.fd(0), &path, argv, envp)
}

fn exec(cx: &mut Cx, dirfd: i32, path: &[u8], argv: u64, envp: u64) -> Outcome {
    let (mut argv, envp) = (read_strings(cx, argv)?, read_strings(cx, envp)?);
    let (mut dirfd, mut path, mut script) = (dirfd, path.to_vec(), None);
    let mut depth = 0;
    let (program, node) = loop {
        let program = paths::find(cx, dirfd, &path, true)?;
        let node = program.existing()?;
        let attributes = cx.view().attributes(&node)?;
        if !attributes.is_regular() || !cx.view().permits(&attributes, X_OK) {
            return Err(Errno::EACCES);
        }
        let beginning = beginning(cx, &node)?;
        if beginning.starts_with(b"\x7fELF") {
            break (program, node);
        }
        let (interpreter, argument) = interpreter(&beginning)?;
        depth += 1;
        if depth > MAX_SCRIPTS {
            return Err(Errno::ELOOP);
        }
        // The first word makes room: what runs, what the script says, how the script was called.
        let name = named_from(dirfd, &path);
        script.get_or_insert_with(|| program.path.clone());
        let head = [Some(interpreter.clone()), argument, Some(name)];
        let rest = argv.into_iter().skip(1);
        argv = head.into_iter().flatten().chain(rest).collect();
        (dirfd, path) = (libc::AT_FDCWD, interpreter);
    };
    if cx.model.fs.has_own_root() {
        return Ok(Effect::Unsupported(
            "a program started after chroot: the kernel would look for its interpreter and libraries elsewhere".to_owned(),
        ));
    }
    flush_all(cx)?;
    let contents = match &node {
        NodeId::Host(_) => None,
        node => {
            let len = cx.view().attributes(node)?.size as usize;
            Some(data::node_bytes(cx, node, None, 0, len)?)
        }
    };
    // The name as it was asked for, not what it links to: programs look at their own name.
    let asked = paths::find(cx, dirfd, &path, false)?;
    let path = match asked.node {
        Some(NodeId::Host(_)) if contents.is_none() => asked.path,
        _ => program.path,
    };
    Ok(Effect::Exec(Exec {
        path,
        contents,
        argv,
        script,
        envp,
    }))
}

/// The first bytes of a file, which say what it is.
fn beginning(cx: &Cx, node: &NodeId) -> Result<Vec<u8>, Errno> {
    const LENGTH: usize = 256;
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

/// What the first line of a script says: a program, and one argument for it. Only so much of the file counts as [`beginning`] gives.
fn interpreter(beginning: &[u8]) -> Result<(Vec<u8>, Option<Vec<u8>>), Errno> {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let line = beginning.strip_prefix(b"#!").ok_or(Errno::ENOEXEC)?;
    let end = line.iter().position(|&byte| byte == b'\n' || byte == 0);
    let line = line[..end.unwrap_or(line.len())].trim_ascii();
    let name = line.iter().take_while(|byte| !blank(byte)).count();
    // A name that may go on beyond what was read is none.
    let is_cut = end.is_none() && beginning.len() == 256 && name == line.len();
    if name == 0 || is_cut {
        return Err(Errno::ENOEXEC);
    }
    let argument = line[name..].trim_ascii();
    Ok((
        line[..name].to_vec(),
        (!argument.is_empty()).then(|| argument.to_vec()),
    ))
}

/// How a script is told its own name.
fn named_from(dirfd: i32, path: &[u8]) -> Vec<u8> {
    match dirfd == libc::AT_FDCWD || path.starts_with(b"/") {
        true => path.to_vec(),
        false => [format!("/dev/fd/{dirfd}/").as_bytes(), path].concat(),
    }
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
