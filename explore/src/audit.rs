//! Are operations independent that were announced as such?
//!
//! A reduction believes the footprints. If two operations do more than they announce (they share memory, and nothing that the system can see orders them), then
//! it leaves out schedules that are like no other, and nobody would ever know. So a search tries pairs of operations: from a state where both can be done, do
//! they lead to the same state in either order? Where they do not, what is done at these two *sites* ([`Candidate::site`]) is dependent with each other from
//! then on. What was left out before was left out wrongly, so the search ends with [`Limit::Dependent`] and is to be made again with what it
//! has learned ([`SearchResult::learned`](crate::SearchResult::learned), [`Config::dependent`](crate::Config::dependent)).
//!
//! This is a test, not a proof. Two operations are tried whenever their pair of sites and threads was seen 1, 2, 4, 8, … times: in
//! different states, but not in all. There is a budget, which grows with the search.
//!
//! Dynamic reduction sees few of the states in which two operations can both be done. A search with [`Audit::Only`] precedes it: random walks, which
//! meet pairs that it does not.

use crate::progress::add;
use crate::result::{Dependent, Failure, Limit};
use crate::tree::NodeId;
use crate::worker::{Done, Worker};
use crate::{Audit, Candidate, Footprint, Menu, Reduction, System};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering::Relaxed;

/// Steps that may be spent on trying pairs, whatever the size of the search.
const FREE_STEPS: u64 = 400;
/// And one more for so many steps of the search itself.
const STEPS_PER_AUDIT_STEP: u64 = 10;
/// After the first pair that is dependent after all, so many steps more (and as many as were made) to find others before beginning anew.
const FURTHER_STEPS: u64 = 200;

/// Two operations, by site and thread.
type Pair = [(u64, u32); 2];

/// What was tried and found, by all workers together.
#[derive(Default)]
pub(crate) struct Ledger {
    seen: HashMap<Pair, u32>,
    found: BTreeMap<[u64; 2], Dependent>,
    /// Where to stop looking for more.
    until: Option<u64>,
}

impl Ledger {
    pub fn into_found(self) -> Vec<Dependent> {
        self.found.into_values().collect()
    }

    pub fn is_clean(&self) -> bool {
        self.found.is_empty()
    }

    /// Counts a pair that is seen again; is it to be tried now?
    fn is_due(&mut self, pair: Pair) -> bool {
        let seen = self.seen.entry(pair).or_insert(0);
        *seen = seen.saturating_add(1);
        seen.is_power_of_two()
    }
}

/// What two operations in a row do.
struct Order {
    /// What the first touched.
    first: Footprint,
    /// What the second touched, if it could be done after the first.
    second: Option<Footprint>,
    /// The state that they lead to.
    state: Option<u128>,
}

impl Order {
    /// Do two orders lead to the same?
    fn is_same(&self, other: &Order) -> bool {
        self.state.is_some() && self.state == other.state
    }

    /// Is it known anyway that they do not? Sleep sets compare what both did from the same state, dynamic reduction what they did one after the other.
    fn is_known(&self, other: &Order) -> bool {
        let conflicts = |done: &Order| {
            done.second
                .as_ref()
                .is_none_or(|second| done.first.conflicts(second))
        };
        self.first.conflicts(&other.first) && conflicts(self) && conflicts(other)
    }
}

impl<S: System> Worker<'_, S> {
    /// Adds what was learned about the sites of operations.
    pub(crate) fn with_learned(&self, mut menu: Menu) -> Menu {
        for candidate in menu.choices.iter_mut().chain(&mut menu.blocked) {
            if self.is_learned(candidate) {
                candidate.footprint = std::mem::take(&mut candidate.footprint).and_unordered();
            }
        }
        menu
    }

    pub(crate) fn is_learned(&self, candidate: &Candidate) -> bool {
        candidate
            .site
            .is_some_and(|site| self.shared.config.dependent.contains(&site))
    }

    /// Tries the pairs of operations of a node, which is where the system is. It may be elsewhere afterwards.
    pub(crate) fn audit(&mut self, id: NodeId) -> Done<S> {
        let is_wanted = match self.shared.config.audit {
            Audit::Off => false,
            Audit::InPassing => self.shared.plan.reduction != Reduction::None,
            Audit::Only => true,
        };
        if !is_wanted || self.tree[id].menu.choices.len() < 2 {
            return Ok(());
        }
        let pairs = self.due_pairs(id);
        if pairs.is_empty() {
            return Ok(());
        }
        let mut mark = None;
        if self.marks.get(id).is_none() {
            mark = self.system.mark().map_err(|e| self.failure(e, Some(id), None))?;
        }
        let mut outcome = Ok(());
        for pair in pairs {
            outcome = self.try_pair(id, mark.as_ref(), &pair);
            if outcome.is_err() {
                break;
            }
        }
        if outcome.is_ok() {
            outcome = self.return_to(id, mark.as_ref());
        }
        if let Some(mark) = mark {
            self.system.forget(mark);
        }
        outcome?;
        self.stop_when_enough_is_found();
        Ok(())
    }

    fn stop_when_enough_is_found(&self) {
        let made = self.shared.progress.transitions.load(Relaxed);
        let mut ledger = self.shared.ledger();
        if ledger.is_clean() {
            return;
        }
        let until = *ledger.until.get_or_insert(made * 2 + FURTHER_STEPS);
        drop(ledger);
        if made >= until {
            self.shared.halt(Limit::Dependent);
        }
    }

    /// Pairs of operations that are announced as independent and are to be tried.
    fn due_pairs(&self, id: NodeId) -> Vec<[Candidate; 2]> {
        let progress = self.shared.progress;
        let made = progress.transitions.load(Relaxed) + progress.reexecuted_steps.load(Relaxed);
        let budget = match self.shared.config.audit {
            Audit::Only => FREE_STEPS + made,
            _ => FREE_STEPS + made / STEPS_PER_AUDIT_STEP,
        };
        let choices = &self.tree[id].menu.choices;
        let mut ledger = self.shared.ledger();
        let mut pairs = Vec::new();
        for (i, one) in choices.iter().enumerate() {
            for other in &choices[i + 1..] {
                let (Some(here), Some(there)) = (one.site, other.site) else {
                    continue;
                };
                let is_free = one.choice.thread != other.choice.thread
                    && !one.footprint.conflicts(&other.footprint)
                    && !ledger.found.contains_key(&ordered(here, there));
                let spent = progress.audit_steps.load(Relaxed) + 4 * pairs.len() as u64;
                let key = [(here, one.choice.thread), (there, other.choice.thread)];
                if is_free && spent < budget && ledger.is_due(key) {
                    pairs.push([one.clone(), other.clone()]);
                }
            }
        }
        pairs
    }

    fn try_pair(&mut self, id: NodeId, mark: Option<&S::Mark>, pair: &[Candidate; 2]) -> Done<S> {
        let [one, other] = pair;
        let before = self.shared.progress.reexecuted_steps.load(Relaxed);
        let (there, back) = (
            self.leads(id, mark, one, other)?,
            self.leads(id, mark, other, one)?,
        );
        let again = self.shared.progress.reexecuted_steps.load(Relaxed) - before;
        add(&self.shared.progress.audit_steps, again);
        add(&self.shared.progress.audited_pairs, 1);
        if there.is_same(&back) || there.is_known(&back) {
            return Ok(());
        }
        self.return_to(id, mark)?;
        let sites = [one.site.unwrap_or_default(), other.site.unwrap_or_default()];
        let found = Dependent {
            sites,
            places: [one, other].map(|c| self.system.describe(c.choice)),
        };
        self.shared
            .ledger()
            .found
            .insert(ordered(sites[0], sites[1]), found);
        Ok(())
    }

    fn return_to(&mut self, id: NodeId, mark: Option<&S::Mark>) -> Done<S> {
        if let Some(mark) = mark.filter(|_| self.at != Some(id)) {
            self.at = None;
            let rewound = self.system.rewind(mark);
            if rewound.map_err(|e| self.failure(e, Some(id), None))? {
                self.at = Some(id);
                return Ok(());
            }
        }
        self.go_to(id)
    }

    fn leads(
        &mut self,
        id: NodeId,
        mark: Option<&S::Mark>,
        first: &Candidate,
        second: &Candidate,
    ) -> Result<Order, Failure<S::Error>> {
        self.return_to(id, mark)?;
        self.at = None;
        let (did, has_ended) = self.try_step(id, first)?;
        let mut done = Order {
            first: if has_ended { did.and_ending() } else { did },
            second: None,
            state: None,
        };
        if has_ended || self.menu_there(id)?.position(second.choice).is_none() {
            return Ok(done);
        }
        let (did, _) = self.try_step(id, second)?;
        done.second = Some(did);
        done.state = Some(self.identity_there(id)?);
        Ok(done)
    }

    fn menu_there(&mut self, id: NodeId) -> Result<Menu, Failure<S::Error>> {
        self.system.enabled().map_err(|e| self.failure(e, Some(id), None))
    }

    fn identity_there(&mut self, id: NodeId) -> Result<u128, Failure<S::Error>> {
        self.system
            .state_id()
            .map_err(|e| self.failure(e, Some(id), None))
    }

    /// What a step touched, and whether the path ended with it.
    fn try_step(
        &mut self,
        id: NodeId,
        candidate: &Candidate,
    ) -> Result<(Footprint, bool), Failure<S::Error>> {
        add(&self.shared.progress.audit_steps, 1);
        let report = self
            .system
            .step(candidate.choice)
            .map_err(|e| self.failure(e, Some(id), Some(candidate.choice)))?;
        let did = report.performed.unwrap_or_else(|| candidate.footprint.clone());
        Ok((did, report.end.is_some()))
    }
}

fn ordered(one: u64, other: u64) -> [u64; 2] {
    [one.min(other), one.max(other)]
}
