//! The options of `sweep` and `merge` that say where reports go.

use std::path::PathBuf;
use sweep::report::Outputs;

/// Where reports go, the same for `sweep` and `merge`.
#[derive(clap::Args)]
pub struct OutputArgs {
    /// Write the result as JSON to FILE, - for standard output.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the result as JUnit XML, for test reporters.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write what failed as SARIF, for code scanning.
    #[arg(long, value_name = "FILE")]
    pub sarif: Option<PathBuf>,
    /// Write what was found to FILE, for a later --baseline.
    #[arg(long, value_name = "FILE")]
    pub write_baseline: Option<PathBuf>,
}

impl OutputArgs {
    pub fn outputs(&self) -> Outputs {
        Outputs {
            json: self.json.clone(),
            junit: self.junit.clone(),
            sarif: self.sarif.clone(),
            write_baseline: self.write_baseline.clone(),
        }
    }
}
