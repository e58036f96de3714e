//! Handlers by topic; [`table`](crate::table) says which call goes where.

pub mod futex;
pub mod threads;

use crate::call::Call;
use crate::effect::Prepared;
use crate::model::Cx;

/// For calls that no other thread can notice.
pub fn invisible(_: &mut Cx, _: &Call) -> Prepared {
    Prepared::invisible()
}
