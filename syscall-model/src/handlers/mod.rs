//! Handlers by topic; [`table`](crate::table) says which call goes where.

pub mod attributes;
pub mod clock;
pub mod exec;
pub mod files;
pub mod futex;
pub mod identity;
pub mod io;
pub mod limits;
pub mod mapping;
pub mod memory;
pub mod misc;
pub mod paths;
pub mod scheduling;
pub mod signals;
pub mod threads;
pub mod timers;

use crate::call::Call;
use crate::effect::Prepared;
use crate::model::Cx;

/// For calls that no other thread can notice.
pub fn invisible(_: &mut Cx, _: &Call) -> Prepared {
    Prepared::invisible()
}
