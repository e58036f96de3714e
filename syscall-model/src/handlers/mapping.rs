//! `mmap` and `munmap`: files are mapped from the host or from the overlay.

use crate::call::Call;
use crate::effect::{Effect, MapFile, MapSource, Outcome, Prepared};
use crate::fd::Kind;
use crate::fs::{Class, NodeId, OpenFile, data};
use crate::handlers::attributes;
use crate::model::Cx;
use std::os::unix::ffi::OsStrExt;
use syscalls::Errno;

const PAGE: u64 = 4096;
const MAP_TYPE: i32 = 0x0f;

/// Anonymous memory is nobody else's business; a mapped file is read.
pub fn prepare_mmap(cx: &mut Cx, call: &Call) -> Prepared {
    if call.int(3) & libc::MAP_ANONYMOUS != 0 {
        return Prepared::invisible();
    }
    Prepared::visible(attributes::descriptor_reads(cx, call.fd(4)))
}

/// The same call for private anonymous memory. There is only one process, so memory shared with children is
/// private memory; and only private memory is what it was after going back to a checkpoint.
fn private_anonymous(call: &Call) -> Effect {
    let mut args = call.args;
    let flags = call.int(3) & !MAP_TYPE & !libc::MAP_SYNC;
    args[3] = (flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u32 as u64;
    args[4] = u64::MAX;
    args[5] = 0;
    Effect::KernelWith(args)
}

pub fn mmap(cx: &mut Cx, call: &Call) -> Outcome {
    let flags = call.int(3);
    let shared = match flags & MAP_TYPE {
        libc::MAP_PRIVATE => false,
        libc::MAP_SHARED | libc::MAP_SHARED_VALIDATE => true,
        _ => return Err(Errno::EINVAL),
    };
    if flags & libc::MAP_ANONYMOUS != 0 {
        return Ok(if shared {
            private_anonymous(call)
        } else {
            Effect::Kernel
        });
    }
    let (len, prot, offset) = (call.word(1), call.int(2), call.word(5));
    if offset % PAGE != 0 || len == 0 {
        return Err(Errno::EINVAL);
    }
    let (_, description) = cx.model.files.lookup(call.fd(4))?;
    let Kind::File(file) = &description.kind else {
        return Err(Errno::ENODEV);
    };
    if file.class == Class::Path {
        return Err(Errno::EBADF);
    }
    let writable_shared = shared && prot & libc::PROT_WRITE != 0;
    if !description.readable() || writable_shared && !description.writable() {
        return Err(Errno::EACCES);
    }
    match file.class {
        Class::Regular => {}
        Class::Zero => return Ok(private_anonymous(call)),
        _ => return Err(Errno::ENODEV),
    }
    if writable_shared {
        return Ok(Effect::Unsupported(
            "a writable shared mapping of a file".to_owned(),
        ));
    }
    let file = file.clone();
    Ok(Effect::MapFile(MapFile {
        addr: call.word(0),
        len,
        prot,
        flags: flags & !MAP_TYPE & !libc::MAP_SYNC | libc::MAP_PRIVATE,
        offset,
        source: source(cx, &file, offset, len)?,
    }))
}

/// Where the bytes of a mapping come from.
fn source(cx: &Cx, file: &OpenFile, offset: u64, len: u64) -> Result<MapSource, Errno> {
    let host_path = |bytes: &[u8]| MapSource::Host(std::ffi::OsStr::from_bytes(bytes).into());
    match cx.model.fs.current(&file.node) {
        NodeId::Host(node) => Ok(host_path(&node.path)),
        NodeId::Overlay(ino) => match cx.model.fs.file_data(ino)?.untouched() {
            Some(base) => Ok(host_path(&base.path)),
            None => Ok(MapSource::Bytes(data::read_regular(
                cx,
                file,
                offset,
                len as usize,
            )?)),
        },
        _ => Err(Errno::ENODEV),
    }
}

/// Nothing is written back by the kernel: mappings of files are private memory.
pub fn msync(_: &mut Cx, call: &Call) -> Outcome {
    let flags = call.int(2);
    let both = libc::MS_SYNC | libc::MS_ASYNC;
    if !call.word(0).is_multiple_of(PAGE)
        || flags & !(both | libc::MS_INVALIDATE) != 0
        || flags & both == both
    {
        return Err(Errno::EINVAL);
    }
    Effect::ok()
}

pub fn munmap(_: &mut Cx, _: &Call) -> Outcome {
    Ok(Effect::Kernel)
}
