//! The result of a sweep in the forms that people and their tools read. All of them are made from the one document.
//!
//! - `table.rs`: for people
//! - `junit.rs`: for test reporters
//! - `sarif.rs`: for code scanning
//! - `github.rs`: annotations and step summary of a GitHub workflow

mod github;
mod junit;
mod sarif;
mod table;

use super::baseline::Baseline;
use super::record::Document;
use failure::Failure;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Where reports go, the same for `sweep` and `merge`.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    /// The result as JSON, - for standard output.
    pub json: Option<PathBuf>,
    /// The result as JUnit XML.
    pub junit: Option<PathBuf>,
    /// What failed as SARIF.
    pub sarif: Option<PathBuf>,
    /// What was found, for a later `--baseline`.
    pub write_baseline: Option<PathBuf>,
}

impl Outputs {
    /// Files that cannot be written are better known before hours of checking than after.
    ///
    /// # Errors
    /// One of them cannot.
    pub fn try_out(&self) -> Result<(), Failure> {
        let files = [
            ("--json", &self.json),
            ("--junit", &self.junit),
            ("--sarif", &self.sarif),
            ("--write-baseline", &self.write_baseline),
        ];
        for (option, path) in files {
            let Some(path) = path.as_ref().filter(|path| path.as_os_str() != "-") else {
                continue;
            };
            let opened = std::fs::File::options().create(true).append(true).open(path);
            opened.map_err(|e| {
                Failure::usage(format!("{option} {}: {e}", path.display()))
                    .hint("it takes a file in a directory that can be written to")
            })?;
        }
        Ok(())
    }

    /// Everything that was asked for, and what the surroundings take.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, document: &Document, quiet: bool) -> Result<(), Failure> {
        let json_to_stdout = self.json.as_deref().is_some_and(|path| path.as_os_str() == "-");
        if let Some(path) = &self.json {
            write_json(path, document)?;
        }
        if let Some(path) = &self.junit {
            put(path, junit::xml(document)?.as_bytes())?;
        }
        if let Some(path) = &self.sarif {
            let text = serde_json::to_string_pretty(&sarif::log(document))
                .map_err(|e| Failure::internal(format!("cannot encode SARIF: {e}")))?;
            put(path, (text + "\n").as_bytes())?;
        }
        if let Some(path) = &self.write_baseline {
            Baseline::of(document).write(path)?;
        }
        if !quiet && !json_to_stdout {
            table::print(document);
        }
        github::tell(document, json_to_stdout)
    }
}

/// Writes the document.
///
/// # Errors
/// It cannot be written.
pub fn write_json(path: &Path, document: &Document) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(document)
        .map_err(|e| Failure::internal(format!("cannot encode the result: {e}")))?;
    put(path, (text + "\n").as_bytes())
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let written = match path.as_os_str() == "-" {
        true => std::io::stdout().write_all(bytes),
        false => peers::write_whole(path, bytes),
    };
    written.map_err(|e| Failure::usage(format!("cannot write {}: {e}", path.display())))
}
