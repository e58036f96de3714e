//! Walks and searches in turn: what walks find is searched with, and what a search finds out sends walks out again.

use super::CheckSystem;
use super::scout::Scout;
use super::stages;
use explore::{Config, Counters, SearchResult};
use failure::Failure;
use session::network::Peers;
use session::{Bounds, Options};
use std::time::Duration;

/// Searches that are made with what walks have found after the one before.
const ROUNDS: u32 = 3;

/// So often a search is made again for peers that have answered late.
const REPETITIONS: u32 = 8;

/// How a check goes about it.
pub struct Rounds<'a> {
    /// The searches of each round.
    pub stages: &'a [Config],
    /// When a search is broken off.
    pub bounds: &'a Bounds,
    /// Walks are made at all.
    pub is_scouted: bool,
    /// Other programs are listening.
    pub has_peers: bool,
    /// One search more may be made for what can be said of one that was cut.
    pub may_look: bool,
}

impl Rounds<'_> {
    /// Makes the walks and searches. What the last search parked at is in the options afterwards.
    pub fn run(
        &self,
        options: &mut Options,
        scout: &mut Scout,
        search: &dyn Fn(&Options, Config) -> SearchResult<CheckSystem>,
    ) -> Result<SearchResult<CheckSystem>, Failure> {
        // Walks ask nobody anything: with peers they are made when a search has found out what these say.
        if self.is_scouted && !self.has_peers {
            scout.walk(&Peers::nobody());
        }
        let mut before: Option<Counters> = None;
        for round in 1.. {
            options.watched = scout.watched();
            let bounded = Options {
                bounds: self.bounds.clone(),
                ..options.clone()
            };
            // With a bound it is not known yet whether what walks have met is within it.
            let is_bounded = self.stages.iter().any(|stage| stage.bound_preemptions.is_some());
            let known = if is_bounded { 0 } else { scout.met().len() };
            let mut begins_anew = Ok(false);
            let between = |result: &SearchResult<CheckSystem>| {
                if options.peers.in_use() {
                    begins_anew = self.finds_more(round, options, scout, result);
                }
                !matches!(begins_anew, Ok(false))
            };
            let Some(mut result) = stages::run(
                self.stages,
                known,
                |config| self.in_time(&bounded, &config, search),
                between,
            ) else {
                break;
            };
            if let Some(before) = &before {
                stages::count_after(&mut result, before);
            }
            before = Some(result.counters);
            if !(begins_anew? || self.finds_more(round, options, scout, &result)?) {
                if self.may_look {
                    stages::explore_levels_after(self.stages, &mut result, |config| search(&bounded, config));
                }
                return Ok(result);
            }
        }
        Err(Failure::internal("there is nothing to search"))
    }

    /// One search, made again as long as peers answer late in it: what came when the search was under way was not there for the schedules before, and
    /// would be there at once where their beginnings are executed again.
    fn in_time(
        &self,
        options: &Options,
        config: &Config,
        search: &dyn Fn(&Options, Config) -> SearchResult<CheckSystem>,
    ) -> SearchResult<CheckSystem> {
        let late_answers = || options.peers.counters().late_answers;
        let mut before: Option<(Counters, Duration)> = None;
        let mut repetitions = 0;
        loop {
            let known = late_answers();
            let mut result = search(options, config.clone());
            if let Some((before, elapsed)) = &before {
                stages::count_after(&mut result, before);
                result.elapsed += *elapsed;
            }
            if late_answers() == known || repetitions == REPETITIONS || self.bounds.is_over() {
                return result;
            }
            before = Some((result.counters, result.elapsed));
            repetitions += 1;
        }
    }

    /// Sends walks out again, if a search with this result gives reason to. Returns whether there is more to park at than before.
    fn finds_more(
        &self,
        round: u32,
        options: &Options,
        scout: &mut Scout,
        result: &SearchResult<CheckSystem>,
    ) -> Result<bool, Failure> {
        // Steps that do more than they announce are a sign of memory that is shared; and where some is, there may be more.
        let may_be_more = !result.learned.is_empty() || !options.watched.is_empty() || options.peers.in_use();
        let is_decided = !result.violations.is_empty() || !scout.met().is_empty();
        let is_open = !is_decided && result.failure.is_none() && !self.bounds.is_over();
        let is_due = self.is_scouted && may_be_more && is_open && round < ROUNDS;
        Ok(is_due && scout.walk(&options.peers.recorded_so_far()?))
    }
}
