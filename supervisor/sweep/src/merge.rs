//! `tracefork merge`: the parts of a sweep together again, as if one machine had done it all.
//!
//! A report that leaves a failing part out, or takes an older result in its place, would be worse than none. So all that is found must fit together: one
//! sweep file, one selection, one partition, the same programs, each part once, each scenario once. Whatever does not is refused, and told.

use super::record::{Document, FORMAT, Record, Status};
use super::run::{RESULTS, is_unfinished};
use super::source::Source;
use failure::Failure;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What may be put together although it does not fit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allowed {
    /// Parts that are not there, or have not come to their end.
    pub missing: bool,
    /// Parts that have checked different versions of a program.
    pub other_programs: bool,
}

/// A part and where it came from.
struct Part {
    path: PathBuf,
    document: Document,
}

/// Puts the parts together. Each place is a results directory, a directory of such directories, or a result file.
///
/// # Errors
/// A part is missing, unfinished, there twice, damaged, older than the sweep file, or of another sweep.
pub fn merge(places: &[PathBuf], allowed: Allowed) -> Result<Document, Failure> {
    let mut parts = Vec::new();
    for path in places {
        for file in result_files(path, allowed)? {
            parts.push(read(file)?);
        }
    }
    let missing = fit_together(&parts)?;
    if !missing.is_empty() && !allowed.missing {
        let missing: Vec<String> = missing.iter().map(u64::to_string).collect();
        return Err(Failure::usage(format!(
            "part(s) {} of {} missing",
            missing.join(", "),
            count(&parts)
        ))
        .hint("run them with --partition, or --allow-missing makes a report of what is there (exit code 3 at least)"));
    }
    if !allowed.other_programs {
        same_programs(&parts)?;
    }
    same_file(&parts)?;
    let mut whole = together(parts)?;
    if missing.is_empty() && whole.scenarios.len() as u64 != whole.plan_size {
        return Err(Failure::usage(format!(
            "the parts have {} of the {} scenarios of the sweep",
            whole.scenarios.len(),
            whole.plan_size
        ))
        .hint("a result was changed or cut off: run that part again"));
    }
    whole.interrupted |= !missing.is_empty();
    whole.sum_up();
    Ok(whole)
}

/// The results at a place. What is ambiguous is refused: nobody is to guess which of two sweeps is meant.
fn result_files(path: &Path, allowed: Allowed) -> Result<Vec<PathBuf>, Failure> {
    let wrong = |why: String| {
        Failure::usage(format!("{}: {why}", path.display()))
            .hint("merge takes the results directories of sweeps, or a directory that holds them")
    };
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path).map_err(|e| wrong(e.to_string()))?;
    let mut below = Vec::new();
    for entry in entries {
        below.push(entry.map_err(|e| wrong(e.to_string()))?.path());
    }
    below.sort();
    let is_result = |directory: &Path| directory.join(RESULTS).is_file() || is_unfinished(directory);
    below.retain(|directory| is_result(directory));
    let found = match (is_result(path), below.is_empty()) {
        (true, true) => vec![path.to_owned()],
        (false, false) => below,
        (false, true) => return Err(wrong(format!("there is no {RESULTS} in it"))),
        (true, false) => {
            let (here, part) = (path.display(), below[0].display());
            return Err(Failure::usage(format!(
                "{here} holds the result of one sweep, {part} that of another"
            ))
            .hint("name the directories of the parts that are meant, and no other"));
        }
    };
    let (finished, unfinished): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|directory| !is_unfinished(directory));
    if let (Some(directory), false) = (unfinished.first(), allowed.missing) {
        let directory = directory.display();
        return Err(Failure::usage(format!("{directory}: this part did not finish"))
            .hint("wait for it, or run it again with --resume"));
    }
    Ok(finished.iter().map(|directory| directory.join(RESULTS)).collect())
}

fn read(path: PathBuf) -> Result<Part, Failure> {
    let wrong = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let text =
        peers::read_text_bounded(&path, peers::bounded::LARGEST_FILE).map_err(|e| wrong(e.to_string()))?;
    let not_a_result = |e: serde_json::Error| wrong(format!("not the result of a sweep: {e}"));
    let value: Value = serde_json::from_str(&text).map_err(not_a_result)?;
    // Another format may lack anything, so this comes first.
    if let Some(format) = value["format"]
        .as_u64()
        .filter(|format| *format != u64::from(FORMAT))
    {
        let why = format!("format {format} is not the {FORMAT} that this tracefork reads");
        return Err(wrong(why).hint("run all parts and merge with the same version of tracefork"));
    }
    let document: Document = serde_json::from_value(value).map_err(not_a_result)?;
    let part = Part { path, document };
    part.is_whole()?;
    Ok(part)
}

impl Part {
    /// Everything in it belongs to it, is in it once, and, where that can be told, nothing else does.
    fn is_whole(&self) -> Result<(), Failure> {
        let Document {
            partition,
            plan_size,
            scenarios,
            ..
        } = &self.document;
        let here = self.path.display();
        let damaged = |what: &str| {
            Failure::usage(format!("{here} is damaged: {what}"))
                .hint("it was changed after the sweep had written it: run that part again")
        };
        if partition.is_some_and(|partition| !partition.is_possible()) {
            return Err(damaged("there is no such part"));
        }
        let mut places = BTreeSet::new();
        for record in scenarios {
            let is_mine = partition.is_none_or(|partition| partition.contains(record.place, &record.id));
            if !is_mine || record.place >= *plan_size {
                return Err(damaged(&format!("{} is not a scenario of this part", record.id)));
            }
            if !places.insert(record.place) {
                return Err(damaged(&format!("{} is there twice", record.id)));
            }
        }
        let expected = match partition {
            None => Some(*plan_size),
            Some(partition) => partition.size(*plan_size),
        };
        if expected.is_some_and(|expected| expected != places.len() as u64) {
            return Err(damaged("scenarios are missing"));
        }
        let mut again = self.document.clone();
        again.sum_up();
        if again.summary != self.document.summary {
            return Err(damaged("the summary is not that of the scenarios"));
        }
        Ok(())
    }

    /// Why it cannot be of the same sweep as another part.
    fn differs_from(&self, other: &Part) -> Option<&'static str> {
        let (ours, theirs) = (&self.document, &other.document);
        let count = |document: &Document| document.partition.map(|partition| partition.count);
        if ours.file_digest != theirs.file_digest {
            Some("the sweep file was another one")
        } else if ours.profile != theirs.profile {
            Some("the profile was another one")
        } else if (&ours.plan, ours.plan_size) != (&theirs.plan, theirs.plan_size) {
            Some("other scenarios were selected, or with other parameters")
        } else if ours.baseline != theirs.baseline {
            Some("the baseline was another one")
        } else if ours.partition.is_none() != theirs.partition.is_none() {
            Some("one is a whole sweep")
        } else if count(ours) != count(theirs) {
            Some("the number of parts was another one")
        } else {
            None
        }
    }
}

fn count(parts: &[Part]) -> u64 {
    let first = parts.first().and_then(|part| part.document.partition);
    first.map_or(1, |partition| partition.count)
}

/// The numbers of the parts that are missing.
fn fit_together(parts: &[Part]) -> Result<Vec<u64>, Failure> {
    let Some(first) = parts.first() else {
        return Err(Failure::usage("there is nothing to merge"));
    };
    let kind = |part: &Part| part.document.partition.map(|partition| partition.kind);
    let mut seen: BTreeMap<u64, &Path> = BTreeMap::new();
    for part in parts {
        let (here, other) = (part.path.display(), first.path.display());
        if let Some(why) = part.differs_from(first) {
            return Err(Failure::usage(format!(
                "{other} and {here} are not parts of the same sweep: {why}"
            ))
            .hint("name the parts of one sweep only, and run again what is older"));
        }
        if kind(part) != kind(first) {
            return Err(Failure::usage(format!(
                "{other} and {here}: one is a slice, the other a hash"
            )));
        }
        let index = part.document.partition.map_or(1, |partition| partition.index);
        if let Some(twice) = seen.insert(index, &part.path) {
            return Err(Failure::usage(format!(
                "part {index} is there twice: {} and {here}",
                twice.display()
            ))
            .hint("name the one that is meant"));
        }
    }
    Ok((1..=count(parts))
        .filter(|index| !seen.contains_key(index))
        .collect())
}

/// A part from before the program was changed says nothing about the program as it is.
fn same_programs(parts: &[Part]) -> Result<(), Failure> {
    let mut known: BTreeMap<&str, (&str, &Path)> = BTreeMap::new();
    for part in parts {
        for record in &part.document.scenarios {
            let (Some(name), Some(digest)) = (record.command.first(), &record.program) else {
                continue;
            };
            let (before, path) = *known.entry(name).or_insert((digest, &part.path));
            if before != digest {
                let (one, other) = (path.display(), part.path.display());
                return Err(Failure::usage(format!(
                    "{one} and {other} have checked different versions of {name}"
                ))
                .hint("run the older part again; --allow-other-programs merges them nevertheless"));
            }
        }
    }
    Ok(())
}

/// Where the sweep file is at hand, it must be the one that was run.
fn same_file(parts: &[Part]) -> Result<(), Failure> {
    let Some(first) = parts.first() else { return Ok(()) };
    let file = &first.document.file;
    // Parts may be merged on another machine, where the file is not.
    let is_other = Source::read(Path::new(file)).is_ok_and(|now| now.digest() != first.document.file_digest);
    if !is_other {
        return Ok(());
    }
    Err(
        Failure::usage(format!("{file} has changed since the parts were run"))
            .hint("run them again; or merge in a directory from which it cannot be found under this name"),
    )
}

/// All records in the order of the sweep file.
fn together(parts: Vec<Part>) -> Result<Document, Failure> {
    let mut parts = parts.into_iter().map(|part| part.document);
    let Some(mut whole) = parts.next() else {
        return Err(Failure::usage("there is nothing to merge"));
    };
    whole.partition = None;
    for part in parts {
        whole.interrupted |= part.interrupted;
        whole.error = whole.error.or(part.error);
        whole.scenarios.extend(part.scenarios);
    }
    whole.scenarios.sort_by_key(|record: &Record| record.place);
    if let Some(pair) = whole
        .scenarios
        .windows(2)
        .find(|pair| pair[0].place == pair[1].place)
    {
        return Err(Failure::usage(format!("{} is in two parts", pair[1].id))
            .hint("a result was changed: run the parts again"));
    }
    // An interrupted part has told what it did not run; nothing may have been lost beside that.
    let not_run = whole
        .scenarios
        .iter()
        .any(|record| record.status == Status::NotRun);
    whole.interrupted |= not_run;
    Ok(whole)
}
