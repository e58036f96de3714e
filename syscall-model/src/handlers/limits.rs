//! Resource limits: a fixed table that the program may change within the model. Only the number of
//! descriptors is enforced.

use crate::call::Call;
use crate::effect::{Effect, Outcome};
use crate::handlers::identity::is_self;
use crate::memory::GuestMemoryExt;
use crate::model::Cx;
use crate::process::{LIMITS, Limit};
use syscalls::Errno;

fn resource(raw: u32) -> Result<usize, Errno> {
    let resource = raw as usize;
    if resource < LIMITS {
        Ok(resource)
    } else {
        Err(Errno::EINVAL)
    }
}

fn read_limit(cx: &Cx, addr: u64) -> Result<Limit, Errno> {
    Ok(Limit {
        soft: cx.mem.read_u64(addr)?,
        hard: cx.mem.read_u64(addr.wrapping_add(8))?,
    })
}

fn write_limit(cx: &mut Cx, addr: u64, limit: Limit) -> Result<(), Errno> {
    cx.mem.write_u64(addr, limit.soft)?;
    cx.mem.write_u64(addr.wrapping_add(8), limit.hard)?;
    Ok(())
}

/// The hard limit only goes down: raising it takes a privilege that nobody has here.
fn set(cx: &mut Cx, resource: usize, limit: Limit) -> Result<(), Errno> {
    if limit.soft > limit.hard {
        return Err(Errno::EINVAL);
    }
    let current = &mut cx.model.process.limits.of[resource];
    if limit.hard > current.hard {
        return Err(Errno::EPERM);
    }
    *current = limit;
    if resource == libc::RLIMIT_NOFILE as usize {
        cx.model.files.set_limit(limit.soft);
    }
    Ok(())
}

pub fn getrlimit(cx: &mut Cx, call: &Call) -> Outcome {
    let limit = cx.model.process.limits.of[resource(call.uint(0))?];
    write_limit(cx, call.word(1), limit)?;
    Effect::ok()
}

pub fn setrlimit(cx: &mut Cx, call: &Call) -> Outcome {
    let limit = read_limit(cx, call.word(1))?;
    let resource = resource(call.uint(0))?;
    set(cx, resource, limit)?;
    Effect::ok()
}

/// `prlimit64(pid, resource, new, old)`.
pub fn prlimit64(cx: &mut Cx, call: &Call) -> Outcome {
    let (pid, new, old) = (call.int(0), call.word(2), call.word(3));
    let limit = match new {
        0 => None,
        new => Some(read_limit(cx, new)?),
    };
    if !is_self(cx, pid) {
        return Err(Errno::ESRCH);
    }
    let resource = resource(call.uint(1))?;
    let before = cx.model.process.limits.of[resource];
    if let Some(limit) = limit {
        set(cx, resource, limit)?;
    }
    if old != 0 {
        write_limit(cx, old, before)?;
    }
    Effect::ok()
}

#[cfg(test)]
mod tests;
