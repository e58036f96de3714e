//! Who goes next in a walk.

use super::{ASIDE, Known, LONG_RUN, PREEMPT_ONE_IN};
use hooks::Place;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use session::Session;
use syscall_model::Tid;

pub struct Scheduler {
    random: ChaCha8Rng,
    /// Not in the first walk, in which a thread goes on as long as it can.
    preempts: bool,
    last: Option<Tid>,
    /// Steps in a row of that thread.
    run: u32,
    /// A thread that lets the others go first, and for how many steps more: it stands before an access that is known to be shared, and
    /// the other order is as interesting as the one at hand.
    aside: Option<(Tid, u32)>,
}

impl Scheduler {
    pub fn new(seed: u64, preempts: bool) -> Self {
        Self {
            random: ChaCha8Rng::seed_from_u64(seed),
            preempts,
            last: None,
            run: 0,
            aside: None,
        }
    }

    pub fn next(&mut self, session: &Session, known: &Known) -> Option<Tid> {
        let mut enabled = session.movers().enabled();
        self.aside = self
            .aside
            .and_then(|(tid, steps)| Some((tid, steps.checked_sub(1)?)));
        if let Some((aside, _)) = self.aside
            && enabled.iter().any(|&tid| tid != aside)
        {
            enabled.retain(|&tid| tid != aside);
        }
        let stays = self.last.filter(|tid| enabled.contains(tid));
        let is_shared = |tid: Tid| {
            let access = session
                .sharing()
                .watching(tid)
                .or_else(|| session.sharing().works_on(tid));
            let access = access.map(|access| access.place);
            let place = access.or_else(|| Some(Place::Atomic(session.sharing().atomic_object(tid)?.1)));
            place.is_some_and(|place| known.is_interesting(place))
        };
        let others = stays.filter(|_| enabled.len() > 1);
        if let Some(tid) = others
            && self.preempts
            && self.aside.is_none()
            && is_shared(tid)
            && self.one_in(2)
        {
            self.aside = Some((tid, ASIDE));
            enabled.retain(|&other| other != tid);
            return self.take(&enabled);
        }
        if let Some(tid) = stays
            && self.run < LONG_RUN
            && !(self.preempts && self.one_in(PREEMPT_ONE_IN))
        {
            self.run += 1;
            return Some(tid);
        }
        self.take(&enabled)
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.random.next_u32().is_multiple_of(n)
    }

    fn take(&mut self, enabled: &[Tid]) -> Option<Tid> {
        let index = (self.random.next_u32() as usize).checked_rem(enabled.len())?;
        self.run = 0;
        self.last = Some(enabled[index]);
        self.last
    }
}
