//! `tracefork merge`: the parts of a sweep together again.

use failure::Failure;
use std::path::PathBuf;
use sweep::merge;

#[derive(clap::Args)]
#[command(after_help = "Example: tracefork merge --junit all.xml tracefork-sweep/part-*

The exit code is the one that the whole sweep would have had on one machine.")]
pub struct Args {
    /// Results directories of the parts, or a directory that contains them.
    #[arg(required = true, value_name = "DIR")]
    pub parts: Vec<PathBuf>,
    /// Write a report although parts are missing; the exit code is then at least 3.
    #[arg(long)]
    pub allow_missing: bool,
    /// Write a report although parts have checked different versions of a program (for example, built on each machine).
    #[arg(long)]
    pub allow_other_programs: bool,
    #[command(flatten)]
    pub outputs: super::outputs::OutputArgs,
}

pub fn main(args: &Args, quiet: bool) -> Result<u8, Failure> {
    let outputs = args.outputs.outputs();
    outputs.try_out()?;
    let allowed = merge::Allowed {
        missing: args.allow_missing,
        other_programs: args.allow_other_programs,
    };
    let whole = merge::merge(&args.parts, allowed)?;
    outputs.write(&whole, quiet)?;
    Ok(whole.summary.exit_code)
}
