//! What the calls on System V shared memory, semaphores and message queues have in common.

use crate::call::Call;
use crate::effect::Prepared;
use crate::ipc::registry::PERMISSIONS_SIZE;
use crate::model::Cx;
use crate::object::{Object, Touch};
use syscalls::Errno;

/// `shmget` and its kin: numbers are given in order.
pub fn prepare_get(_: &Cx, _: &Call) -> Prepared {
    Prepared::visible(vec![Touch::write(Object::IpcKeys)])
}

/// `shmctl` and its kin, which only look at the object for some commands.
pub(super) fn prepare_control(object: Object, command: i32, only_looks: bool) -> Prepared {
    Prepared::visible(match command {
        _ if only_looks => vec![Touch::read(object)],
        libc::IPC_RMID => vec![Touch::write(object), Touch::write(Object::IpcKeys)],
        _ => vec![Touch::write(object)],
    })
}

/// What `IPC_SET` is given: owner and mode.
pub(super) fn read_permissions(cx: &Cx, buffer: u64) -> Result<[u8; PERMISSIONS_SIZE], Errno> {
    let mut raw = [0; PERMISSIONS_SIZE];
    cx.mem.read(buffer, &mut raw)?;
    Ok(raw)
}
