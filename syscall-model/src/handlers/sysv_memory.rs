//! `shmget`, `shmat`, `shmdt`, `shmctl`.

use crate::call::Call;
use crate::effect::{Effect, MapFile, MapSource, Outcome, Prepared};
use crate::fs::{Content, FileData, NodeId, shared};
use crate::handlers::{mapping, sysv};
use crate::ipc::Permissions;
use crate::ipc::registry::{READ, WRITE, Wanted};
use crate::ipc::segments::{self, DEST, LOCKED, Segment};
use crate::memory::PAGE;
use crate::model::Cx;
use crate::object::{Object, Touch};
use syscalls::Errno;

/// `SHMMNI`.
const MOST: usize = 4096;
/// More than there can be addresses for.
const LARGEST: u64 = 1 << 46;
const EXECUTE: u32 = 0o111;

/// `shmget(key, size, flags)`.
pub fn get(cx: &mut Cx, call: &Call) -> Outcome {
    let (key, size, flags) = (call.int(0), call.word(1), call.int(2));
    let own = &cx.model.process;
    let id = match cx.model.ipc.segments.find(key, flags)? {
        Wanted::There(id) => {
            let segment = cx.model.ipc.segments.get(id)?;
            if segment.size < size {
                return Err(Errno::EINVAL);
            }
            segment.permissions.check(own, flags as u32 & 0o777)?;
            id
        }
        Wanted::New => create(cx, key, size, flags)?,
    };
    Ok(Effect::Done(i64::from(id)))
}

fn create(cx: &mut Cx, key: i32, size: u64, flags: i32) -> Result<i32, Errno> {
    if size == 0 {
        return Err(Errno::EINVAL);
    }
    if size > LARGEST {
        return Err(Errno::ENOMEM);
    }
    // Such pages are set aside by an administrator, who has not done so.
    if flags & libc::SHM_HUGETLB != 0 {
        return Err(Errno::EPERM);
    }
    let mut contents = FileData::from_bytes(&[]);
    contents.resize(size.next_multiple_of(PAGE))?;
    let (owner, now) = (cx.owner(), cx.file_time());
    let permissions = Permissions::new(&cx.model.process, key, flags);
    let fs = &mut cx.model.fs;
    let ino = fs.create(libc::S_IFREG | 0o600, owner, now, Content::File(contents));
    fs.node_mut(ino).attributes.nlink = 0;
    let node = NodeId::Overlay(ino);
    fs.opened(&node);
    let segment = Segment {
        permissions,
        size,
        node: node.clone(),
        attached: 0,
        creator: cx.model.process.pid,
        last: 0,
        attached_at: 0,
        detached_at: 0,
        changed_at: now.sec as u64,
    };
    let added = cx.model.ipc.segments.add(segment, MOST);
    if added.is_err() {
        cx.model.fs.forget(&node);
    }
    added
}

pub fn prepare_attach(_: &Cx, call: &Call) -> Prepared {
    Prepared::visible(vec![Touch::write(Object::Segment(call.int(0)))])
}

/// Where the program wants a segment; 0 for anywhere.
fn wanted_address(call: &Call) -> Result<u64, Errno> {
    let (addr, flags) = (call.word(1), call.int(2));
    let replaces = flags & libc::SHM_REMAP != 0;
    let whole = match addr % PAGE {
        0 => addr,
        _ if flags & libc::SHM_RND != 0 => addr - addr % PAGE,
        _ => return Err(Errno::EINVAL),
    };
    match whole == 0 && replaces {
        true => Err(Errno::EINVAL),
        false => Ok(whole),
    }
}

/// `shmat(id, address, flags)`.
pub fn attach(cx: &mut Cx, call: &Call) -> Outcome {
    let flags = call.int(2);
    let addr = wanted_address(call)?;
    let writable = flags & libc::SHM_RDONLY == 0;
    let executable = flags & libc::SHM_EXEC != 0;
    let segment = cx.model.ipc.segments.get(call.int(0))?;
    let wanted = READ | if writable { WRITE } else { 0 } | if executable { EXECUTE } else { 0 };
    segment.permissions.check(&cx.model.process, wanted)?;
    let (node, len) = (segment.node.clone(), segment.size.next_multiple_of(PAGE));
    let key = segment.permissions.key;
    let mut fixed = 0;
    if addr != 0 {
        let end = addr.checked_add(len).ok_or(Errno::EINVAL)?;
        let replaces = flags & libc::SHM_REMAP != 0;
        if !replaces
            && (addr..end)
                .step_by(PAGE as usize)
                .any(|page| mapping::is_mapped(cx, page, page + PAGE))
        {
            return Err(Errno::EINVAL);
        }
        if replaces {
            shared::unmap(cx, addr, len)?;
        }
        fixed = libc::MAP_FIXED;
    }
    let prot = libc::PROT_READ
        | if writable { libc::PROT_WRITE } else { 0 }
        | if executable { libc::PROT_EXEC } else { 0 };
    let mut map = MapFile {
        addr,
        len,
        prot,
        flags: fixed | libc::MAP_PRIVATE,
        offset: 0,
        source: MapSource::Bytes(Vec::new()),
    };
    let name = format!("/SYSV{:08x} (deleted)", key as u32);
    mapping::note_shared(cx, (&node, name.as_bytes()), &mut map, writable, false);
    Ok(Effect::MapFile(map))
}

/// Whose it is, is known by the address.
pub fn prepare_detach(cx: &Cx, call: &Call) -> Prepared {
    let touch = match attached_at(cx, call.word(0)) {
        Some((id, _)) => Touch::write(Object::Segment(id)),
        None => Touch::write(Object::IpcKeys),
    };
    Prepared::visible(vec![touch])
}

/// The segment whose attachment begins here, and the pieces that are left of it.
fn attached_at(cx: &Cx, addr: u64) -> Option<(i32, Vec<(u64, u64)>)> {
    cx.model.ipc.segments.iter().find_map(|(id, segment)| {
        let all = cx.model.fs.mappings_of_node(&segment.node).into_iter();
        let own = all.filter(|mapping| mapping.addr.wrapping_sub(mapping.offset) == addr);
        let pieces: Vec<(u64, u64)> = own.map(|mapping| (mapping.addr, mapping.len)).collect();
        (!pieces.is_empty()).then_some((id, pieces))
    })
}

/// `shmdt(address)`.
pub fn detach(cx: &mut Cx, call: &Call) -> Outcome {
    let (_, pieces) = attached_at(cx, call.word(0)).ok_or(Errno::EINVAL)?;
    for &(addr, len) in &pieces {
        shared::unmap(cx, addr, len)?;
    }
    Ok(Effect::Unmap(pieces))
}

pub fn prepare_control(_: &Cx, call: &Call) -> Prepared {
    let command = call.int(1);
    sysv::prepare_control(Object::Segment(call.int(0)), command, command == libc::IPC_STAT)
}

/// `shmctl(id, command, buffer)`.
pub fn control(cx: &mut Cx, call: &Call) -> Outcome {
    /// The first of those that only `ipcs` uses: `IPC_INFO`, `SHM_STAT`, `SHM_INFO`, `SHM_STAT_ANY`.
    const FOR_LISTS: [i32; 4] = [libc::IPC_INFO, 13, 14, 15];
    let (id, command, buffer) = (call.int(0), call.int(1), call.word(2));
    let own = cx.model.process.clone();
    let now = cx.file_time().sec as u64;
    if id < 0 || command < 0 {
        return Err(Errno::EINVAL);
    }
    match command {
        libc::IPC_STAT => {
            let encoded = encode(cx.model.ipc.segments.readable(id, &own)?);
            cx.mem.write(buffer, &encoded)?;
        }
        libc::IPC_SET => {
            let raw = sysv::read_permissions(cx, buffer)?;
            let segment = cx.model.ipc.segments.owned(id, &own)?;
            segment.permissions.set(&raw);
            segment.changed_at = now;
        }
        libc::IPC_RMID => {
            let segment = cx.model.ipc.segments.owned(id, &own)?;
            segment.permissions.mode |= DEST;
            segment.permissions.key = libc::IPC_PRIVATE;
            if segment.attached == 0 {
                segments::remove(cx.model, id);
            }
        }
        libc::SHM_LOCK | libc::SHM_UNLOCK => {
            let segment = cx.model.ipc.segments.owned(id, &own)?;
            match command == libc::SHM_LOCK {
                true => segment.permissions.mode |= LOCKED,
                false => segment.permissions.mode &= !LOCKED,
            }
        }
        _ if FOR_LISTS.contains(&command) => {
            return Ok(Effect::Unsupported("lists of shared memory segments".to_owned()));
        }
        _ => return Err(Errno::EINVAL),
    }
    Effect::ok()
}

/// `struct shmid64_ds`.
fn encode(segment: &Segment) -> Vec<u8> {
    let mut out = segment.permissions.encode().to_vec();
    let people = u64::from(segment.last) << 32 | u64::from(segment.creator);
    for word in [
        segment.size,
        segment.attached_at,
        segment.detached_at,
        segment.changed_at,
        people,
        segment.attached,
        0,
        0,
    ] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out
}

#[cfg(test)]
mod tests;
