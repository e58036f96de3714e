//! One part of a sweep, for one of many machines: `slice:M/N` takes every N-th scenario from the M-th on, `hash:M/N` those whose name's hash says so,
//! which stays the same when scenarios are added. Under Slurm and Kubernetes the numbers come from the environment.

use failure::Failure;
use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Slice,
    Hash,
}

/// Part `index` of `count`, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    pub kind: Kind,
    pub index: u64,
    pub count: u64,
}

/// Parts of one sweep: beyond any cluster.
const MOST_PARTS: u64 = 1 << 20;

const FORM: &str = "--partition takes slice:M/N or hash:M/N with M from 1 to N, or slice or hash alone in a Slurm array or a Kubernetes indexed job";

impl Partition {
    /// One of the parts that there are; what comes from a file need not be.
    pub fn is_possible(&self) -> bool {
        (1..=self.count).contains(&self.index) && self.count <= MOST_PARTS
    }

    /// Reads `slice:M/N`, `hash:M/N`, or, with the rest from the environment, `slice`, `slice:auto` and `slice:auto/N`.
    ///
    /// # Errors
    /// It is none of these, or the environment does not say.
    pub fn parse(text: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<Partition, Failure> {
        let wrong = |why: &str| Failure::usage(format!("--partition {text}: {why}")).hint(FORM);
        let (kind, numbers) = text.split_once(':').unwrap_or((text, "auto"));
        let kind = match kind {
            "slice" => Kind::Slice,
            "hash" => Kind::Hash,
            _ => return Err(wrong("neither slice nor hash")),
        };
        let number = |text: &str| text.parse::<u64>().map_err(|_| wrong("not two numbers"));
        let (index, count) = match numbers.split_once('/') {
            None if numbers == "auto" => from_environment(None, environment).map_err(|why| wrong(&why))?,
            Some(("auto", count)) => {
                from_environment(Some(number(count)?), environment).map_err(|why| wrong(&why))?
            }
            Some((index, count)) => (number(index)?, number(count)?),
            None => return Err(wrong("not two numbers")),
        };
        if index == 0 || index > count {
            return Err(wrong(&format!("there is no part {index} of {count}")));
        }
        Ok(Partition { kind, index, count })
    }

    /// How many of so many scenarios belong to this part, if that does not depend on their names.
    pub fn size(&self, total: u64) -> Option<u64> {
        match self.kind {
            Kind::Slice => Some((total + self.count - self.index) / self.count),
            Kind::Hash => None,
        }
    }

    /// Whether the scenario at this place of the whole sweep belongs to this part.
    pub fn contains(&self, place: u64, id: &str) -> bool {
        let number = match self.kind {
            Kind::Slice => place,
            Kind::Hash => xxhash_rust::xxh3::xxh3_64(id.as_bytes()),
        };
        number % self.count == self.index - 1
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Slice => "slice",
            Kind::Hash => "hash",
        };
        write!(f, "{kind}:{}/{}", self.index, self.count)
    }
}

fn from_environment(
    count: Option<u64>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<(u64, u64), String> {
    let number = |name: &str| match environment(name) {
        None => Ok(None),
        Some(text) => match text.trim().parse::<u64>() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(format!("{name}={text} is not a number")),
        },
    };
    if let Some(task) = number("SLURM_ARRAY_TASK_ID")? {
        let first = number("SLURM_ARRAY_TASK_MIN")?.unwrap_or(0);
        let step = number("SLURM_ARRAY_TASK_STEP")?.unwrap_or(1).max(1);
        let count = count
            .or(number("SLURM_ARRAY_TASK_COUNT")?)
            .ok_or("SLURM_ARRAY_TASK_COUNT is not set: how many parts are there?")?;
        let offset = task.checked_sub(first).filter(|offset| offset % step == 0);
        let index = offset
            .map(|offset| offset / step)
            .filter(|index| *index < count)
            .ok_or("the numbers of the Slurm array are not evenly spaced: use --array=1-N, or give M/N")?;
        return Ok((index + 1, count));
    }
    if let Some(index) = number("JOB_COMPLETION_INDEX")? {
        let count = count.or(number("JOB_COMPLETIONS")?).ok_or(
            "Kubernetes does not tell a job how many parts there are: give slice:auto/N, or set JOB_COMPLETIONS",
        )?;
        return Ok((index + 1, count));
    }
    Err("this is neither a Slurm array (SLURM_ARRAY_TASK_ID) nor a Kubernetes indexed job (JOB_COMPLETION_INDEX)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, variables: &[(&str, &str)]) -> Result<String, String> {
        let environment = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Partition::parse(text, &environment)
            .map(|partition| partition.to_string())
            .map_err(|failure| failure.reason)
    }

    #[test]
    fn parts_are_given_or_come_from_the_environment() {
        assert_eq!(parse("hash:3/3", &[]), Ok("hash:3/3".to_owned()));
        let slurm = [
            ("SLURM_ARRAY_TASK_ID", "14"),
            ("SLURM_ARRAY_TASK_MIN", "10"),
            ("SLURM_ARRAY_TASK_STEP", "2"),
            ("SLURM_ARRAY_TASK_COUNT", "4"),
        ];
        assert_eq!(parse("slice", &slurm), Ok("slice:3/4".to_owned()));
        assert_eq!(parse("slice:1/2", &slurm), Ok("slice:1/2".to_owned()));
        let kubernetes = [("JOB_COMPLETION_INDEX", "0")];
        assert_eq!(parse("hash:auto/5", &kubernetes), Ok("hash:1/5".to_owned()));
        assert!(parse("hash:auto", &kubernetes).is_err());
    }

    #[test]
    fn what_is_no_part_is_refused() {
        for text in [
            "slice:0/3",
            "slice:4/3",
            "slice:1",
            "slice:a/b",
            "third:1/3",
            "slice",
            "slice:/3",
            "hash:-1/3",
        ] {
            assert!(parse(text, &[]).is_err(), "{text}");
        }
        let uneven = [
            ("SLURM_ARRAY_TASK_ID", "9"),
            ("SLURM_ARRAY_TASK_MIN", "1"),
            ("SLURM_ARRAY_TASK_COUNT", "3"),
        ];
        assert!(parse("slice", &uneven).is_err());
    }

    #[test]
    fn every_scenario_is_in_exactly_one_part() {
        for kind in [Kind::Slice, Kind::Hash] {
            for place in 0..50 {
                let id = format!("scenario{place}");
                let parts = (1..=7).filter(|index| {
                    Partition {
                        kind,
                        index: *index,
                        count: 7,
                    }
                    .contains(place, &id)
                });
                assert_eq!(parts.count(), 1);
            }
        }
    }

    #[test]
    fn the_size_of_a_slice_is_known() {
        for total in 0..20 {
            for index in 1..=4 {
                let part = Partition {
                    kind: Kind::Slice,
                    index,
                    count: 4,
                };
                let size = (0..total).filter(|place| part.contains(*place, "")).count() as u64;
                assert_eq!(part.size(total), Some(size), "{part} of {total}");
            }
        }
    }
}
