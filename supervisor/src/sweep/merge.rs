//! `tracefork merge`: the parts of a sweep together again, as if one machine had done it all.

use super::record::{Document, FORMAT, Record, Status};
use super::run::RESULTS;
use crate::error::Failure;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A part and where it came from.
struct Part {
    path: PathBuf,
    document: Document,
}

/// Puts the parts together. Each place is a results directory, a directory of such directories, or a result file.
///
/// # Errors
/// A part is missing (unless `allow_missing`), there twice, or of another sweep.
pub fn merge(places: &[PathBuf], allow_missing: bool) -> Result<Document, Failure> {
    let mut parts = Vec::new();
    for path in places {
        for file in result_files(path)? {
            parts.push(read(file)?);
        }
    }
    let missing = fit_together(&parts)?;
    if !missing.is_empty() && !allow_missing {
        let missing: Vec<String> = missing.iter().map(u64::to_string).collect();
        return Err(Failure::usage(format!(
            "part(s) {} of {} missing",
            missing.join(", "),
            count(&parts)
        ))
        .hint("run them with --partition, or --allow-missing makes a report of what is there (exit code 3 at least)"));
    }
    let mut whole = together(parts)?;
    whole.interrupted |= !missing.is_empty();
    whole.sum_up();
    Ok(whole)
}

fn result_files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let wrong = |why: String| {
        Failure::usage(format!("{}: {why}", path.display()))
            .hint("merge takes the results directories of sweeps, or a directory that holds them")
    };
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let own = path.join(RESULTS);
    if own.is_file() {
        return Ok(vec![own]);
    }
    let entries = std::fs::read_dir(path).map_err(|e| wrong(e.to_string()))?;
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path().join(RESULTS))
        .filter(|file| file.is_file())
        .collect();
    files.sort();
    if files.is_empty() {
        return Err(wrong(format!("there is no {RESULTS} in it")));
    }
    Ok(files)
}

fn read(path: PathBuf) -> Result<Part, Failure> {
    let wrong = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(&path).map_err(|e| wrong(e.to_string()))?;
    let document: Document =
        serde_json::from_str(&text).map_err(|e| wrong(format!("not the result of a sweep: {e}")))?;
    if document.format != FORMAT {
        let why = format!(
            "format {} is not the {FORMAT} that this tracefork reads",
            document.format
        );
        return Err(wrong(why));
    }
    Ok(Part { path, document })
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
    let shape = |part: &Part| part.document.partition.map(|p| (p.kind, p.count));
    let mut seen: BTreeMap<u64, &Path> = BTreeMap::new();
    for part in parts {
        let (here, other) = (part.path.display(), first.path.display());
        if part.document.plan != first.document.plan || shape(part).map(|s| s.1) != shape(first).map(|s| s.1)
        {
            return Err(
                Failure::usage(format!("{here} and {other} are not parts of the same sweep"))
                    .hint("the sweep file, the profile, the selection or the number of parts differs"),
            );
        }
        if shape(part).map(|s| s.0) != shape(first).map(|s| s.0) {
            return Err(Failure::usage(format!(
                "{here} and {other}: one is a slice, the other a hash"
            )));
        }
        let index = part.document.partition.map_or(1, |partition| partition.index);
        if let Some(twice) = seen.insert(index, &part.path) {
            return Err(Failure::usage(format!(
                "part {index} is there twice: {} and {here}",
                twice.display()
            )));
        }
    }
    Ok((1..=count(parts))
        .filter(|index| !seen.contains_key(index))
        .collect())
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
    // An interrupted part has told what it did not run; nothing may have been lost beside that.
    let not_run = whole
        .scenarios
        .iter()
        .any(|record| record.status == Status::NotRun);
    whole.interrupted |= not_run;
    Ok(whole)
}
