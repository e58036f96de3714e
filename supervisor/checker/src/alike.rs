//! States at the same place that are not the same: in what do they differ (`--profile`)?
//!
//! Of each place the first state is kept, as long as that is not too much, and later ones are compared with it, the rarer the more there are. A part in which nearly all of
//! them differ, and alone, is what to look at: a counter or a statistic that `--aux` leaves out, a time, a buffer that nobody reads.

use failure::Failure;
use serde::Serialize;
use session::{Portrait, Session};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Bytes of states that are kept.
const MOST: usize = 128 << 20;
/// Parts that are told.
const TOLD: usize = 8;
/// A state that differs in more than this many parts is another one.
const MANY: usize = 64;

#[derive(Default)]
pub(crate) struct Alike {
    kept: HashMap<u64, Kept>,
    size: usize,
    compared: u64,
    /// In how many comparisons a part was among what differed, and in how many it was all that did.
    parts: BTreeMap<String, (u64, u64)>,
    /// What the two differ in that differ least.
    least: BTreeSet<String>,
}

struct Kept {
    portrait: Portrait,
    id: u128,
    met: u64,
}

/// What was found, for the report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Differences {
    /// Pairs of states at the same place that were compared.
    pub compared: u64,
    pub parts: Vec<Part>,
    /// All that the two states differ in that differ least.
    pub least: Vec<String>,
}

/// A part of states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    pub part: String,
    /// Pairs that differ in it.
    pub differ: u64,
    /// Those that differ in nothing else.
    pub only: u64,
}

impl Alike {
    /// A state that a search has come to.
    pub fn meet(&mut self, session: &Session, id: u128, auxiliary: &[String]) -> Result<(), Failure> {
        let place = session.whereabouts();
        if let Some(kept) = self.kept.get_mut(&place) {
            kept.met += u64::from(kept.id != id);
            if kept.id != id && kept.met.is_power_of_two() {
                let mut parts = session.differences(&kept.portrait)?;
                parts.retain(|part| !auxiliary.contains(part));
                self.note(parts);
            }
            return Ok(());
        }
        if self.size > MOST {
            return Ok(());
        }
        let portrait = session.portrait()?;
        self.size += portrait.size();
        self.kept.insert(place, Kept { portrait, id, met: 0 });
        Ok(())
    }

    fn note(&mut self, parts: BTreeSet<String>) {
        self.compared += 1;
        let is_only = parts.len() == 1;
        if !parts.is_empty() && (self.least.is_empty() || parts.len() < self.least.len()) {
            self.least.clone_from(&parts);
        }
        for part in parts.into_iter().take(MANY) {
            let (differ, only) = self.parts.entry(part).or_default();
            *differ += 1;
            *only += u64::from(is_only);
        }
    }

    pub fn told(&self) -> Differences {
        let mut parts: Vec<Part> = self
            .parts
            .iter()
            .map(|(part, &(differ, only))| Part {
                part: part.clone(),
                differ,
                only,
            })
            .collect();
        parts.sort_by_key(|part| (std::cmp::Reverse((part.only, part.differ)), part.part.clone()));
        parts.truncate(TOLD);
        Differences {
            compared: self.compared,
            parts,
            least: self.least.iter().take(TOLD).cloned().collect(),
        }
    }
}

impl Differences {
    /// For people, line by line.
    pub fn lines(&self) -> Vec<String> {
        if self.compared == 0 {
            return Vec::new();
        }
        let share = |pairs: u64| pairs * 100 / self.compared;
        let mut lines = vec![format!(
            "{} pairs of states at the same place were compared; they differ",
            self.compared
        )];
        for Part { part, differ, only } in &self.parts {
            let alone = match only {
                0 => String::new(),
                only => format!(", {} % only there", share(*only)),
            };
            lines.push(format!("{:>4} %  in {part}{alone}", share(*differ)));
        }
        if !self.least.is_empty() {
            lines.push(format!("two of them in nothing but {}", self.least.join(", ")));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_alone_tells_states_apart_comes_first() {
        let mut alike = Alike::default();
        let parts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        alike.note(parts(&["registers", "stats"]));
        alike.note(parts(&["stats"]));
        alike.note(parts(&["registers", "clock"]));
        alike.note(parts(&["stats"]));
        let told = alike.told();
        assert_eq!(
            told.parts[0],
            Part {
                part: "stats".to_owned(),
                differ: 3,
                only: 2
            }
        );
        assert_eq!(told.lines()[1], "  75 %  in stats, 50 % only there");
        assert_eq!(told.lines()[2], "  50 %  in registers");
    }
}
