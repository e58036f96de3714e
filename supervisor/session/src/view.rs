//! What can be asked of an execution between two steps, without moving anything.
//!
//! Each view borrows only what its answers depend on.

use crate::Session;
use crate::arrivals::Arrivals;
use crate::debug::{Debugger, Inspect};
use crate::enabled::Movers;
use crate::faults::Hazards;
use crate::footprint::Footprints;
use crate::residents::Residency;
use crate::sharing::Sharing;
use crate::stacks::Explain;
use crate::standstill::Standstills;

impl Session {
    /// Who can move.
    pub fn movers(&self) -> Movers<'_> {
        Movers {
            model: &self.model,
            threads: &self.threads,
            peers_are_fixed: self.options.peers_are_fixed(),
            is_over: self.ends.ended.is_some() || self.ends.resting.is_some(),
        }
    }

    /// What may have arrived when a thread looks.
    pub fn arrivals(&self) -> Arrivals<'_> {
        Arrivals {
            model: &self.model,
            threads: &self.threads,
            network: &self.network,
            movers: self.movers(),
        }
    }

    /// What can go wrong.
    pub fn hazards(&self) -> Hazards<'_> {
        Hazards {
            model: &self.model,
            threads: &self.threads,
            spaces: &self.spaces,
            ends: &self.ends,
            options: &self.options,
            movers: self.movers(),
            arrivals: self.arrivals(),
        }
    }

    /// What threads are about to touch.
    pub fn footprints(&self) -> Footprints<'_> {
        Footprints {
            model: &self.model,
            threads: &self.threads,
            spaces: &self.spaces,
            network: &self.network,
            transit: &self.transit,
            ends: &self.ends,
            movers: self.movers(),
            arrivals: self.arrivals(),
        }
    }

    /// Names, places and stacks, for people.
    pub fn explain(&self) -> Explain<'_> {
        Explain {
            model: &self.model,
            threads: &self.threads,
            spaces: &self.spaces,
            network: &self.network,
            options: &self.options,
            ends: &self.ends,
        }
    }

    /// Peers that are processes of the execution.
    pub fn residency(&self) -> Residency<'_> {
        Residency {
            model: &self.model,
            network: &self.network,
            options: &self.options,
            explain: self.explain(),
        }
    }

    /// Memory and registers, for a debugger.
    pub fn inspect(&self) -> Inspect<'_> {
        Inspect {
            model: &self.model,
            threads: &self.threads,
            spaces: &self.spaces,
            options: &self.options,
            ends: &self.ends,
            debug: &self.debug,
            explain: self.explain(),
        }
    }

    /// What only a debugger does: it breaks into transitions, and changes memory.
    pub fn debugger(&mut self) -> Debugger<'_> {
        Debugger { session: self }
    }

    /// Who waits for whose locks.
    pub fn standstills(&self) -> Standstills<'_> {
        Standstills {
            model: &self.model,
            threads: &self.threads,
            spaces: &self.spaces,
            movers: self.movers(),
            explain: self.explain(),
        }
    }

    /// Which memory threads are about to use together.
    pub fn sharing(&self) -> Sharing<'_> {
        self.explain().sharing()
    }
}

impl<'a> Explain<'a> {
    pub(super) fn sharing(self) -> Sharing<'a> {
        Sharing {
            model: self.model,
            threads: self.threads,
            spaces: self.spaces,
            options: self.options,
            explain: self,
        }
    }
}
