//! The journal of a sweep: one line of JSON for every scenario that has come to its end, on disk before the next line is begun. Whatever ends
//! a sweep, `--resume` takes up from here; a last line that was not finished never happened.

use super::record::Observation;
use failure::Failure;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Its name in the results directory.
pub const JOURNAL: &str = "journal.jsonl";

/// An open journal; nobody else can have it open.
pub struct Journal {
    file: File,
    path: String,
}

impl Journal {
    /// Opens the journal in the results directory. With `resume`, what is in it is kept and given back, the last word on each scenario; else it is emptied.
    ///
    /// # Errors
    /// Another sweep writes it, or the file system refuses.
    pub fn open(results: &Path, resume: bool) -> Result<(Journal, BTreeMap<String, Observation>), Failure> {
        let path = results.join(JOURNAL);
        let shown = path.display().to_string();
        let failed = |e: std::io::Error| Failure::usage(format!("cannot write the journal {shown}: {e}"));
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        if file.try_lock().is_err() {
            return Err(
                Failure::usage(format!("another sweep is writing to {}", results.display()))
                    .hint("--results DIR takes another directory"),
            );
        }
        let mut journal = Journal {
            file,
            path: shown.clone(),
        };
        let done = match resume {
            true => journal.read_back().map_err(failed)?,
            false => BTreeMap::new(),
        };
        if !resume {
            journal.file.set_len(0).map_err(failed)?;
        }
        Ok((journal, done))
    }

    /// The complete lines; the file is cut behind the last of them.
    fn read_back(&mut self) -> std::io::Result<BTreeMap<String, Observation>> {
        let mut bytes = Vec::new();
        // What is beyond that is run again.
        (&self.file)
            .take(peers::bounded::LARGEST_FILE)
            .read_to_end(&mut bytes)?;
        let mut done = BTreeMap::new();
        let mut end = 0;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let complete = line.ends_with(b"\n");
            let Some(seen) = serde_json::from_slice::<Observation>(line)
                .ok()
                .filter(|_| complete)
            else {
                break;
            };
            end += line.len() as u64;
            done.insert(seen.id.clone(), seen);
        }
        self.file.set_len(end)?;
        self.file.seek(SeekFrom::Start(end))?;
        Ok(done)
    }

    /// # Errors
    /// It is not on disk.
    pub fn append(&mut self, seen: &Observation) -> Result<(), Failure> {
        let written = serde_json::to_vec(seen)
            .map_err(std::io::Error::other)
            .and_then(|mut line| {
                line.push(b'\n');
                self.file.write_all(&line)?;
                self.file.sync_data()
            });
        written.map_err(|e| Failure::usage(format!("cannot write the journal {}: {e}", self.path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(id: &str) -> Observation {
        Observation {
            id: id.to_owned(),
            ..Observation::default()
        }
    }

    #[test]
    fn an_unfinished_line_never_happened() {
        let directory = tempfile::tempdir().expect("a directory");
        let (mut journal, _) = Journal::open(directory.path(), false).expect("opens");
        journal.append(&seen("a")).expect("writes");
        journal.append(&seen("b")).expect("writes");
        drop(journal);
        let path = directory.path().join("journal.jsonl");
        let whole = std::fs::read(&path).expect("is there");
        std::fs::write(&path, &whole[..whole.len() - 5]).expect("is cut");
        let (mut journal, done) = Journal::open(directory.path(), true).expect("opens");
        assert_eq!(done.keys().collect::<Vec<_>>(), ["a"]);
        journal.append(&seen("c")).expect("writes");
        drop(journal);
        let (_journal, done) = Journal::open(directory.path(), true).expect("opens");
        assert_eq!(done.keys().collect::<Vec<_>>(), ["a", "c"]);
    }

    #[test]
    fn one_sweep_at_a_time() {
        let directory = tempfile::tempdir().expect("a directory");
        let first = Journal::open(directory.path(), false).expect("opens");
        assert!(Journal::open(directory.path(), true).is_err());
        drop(first);
        assert!(Journal::open(directory.path(), true).is_ok());
    }
}
