//! `tracefork completions` and `tracefork man`: what a packager installs beside the binary, made from the command line's own
//! definition so that it is never out of date.

use super::command;
use super::show::print;
use clap_complete::Shell;
use failure::Failure;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    after_help = "Example: tracefork completions bash > /usr/share/bash-completion/completions/tracefork"
)]
pub struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    pub shell: Shell,
}

#[derive(clap::Args)]
#[command(after_help = "Example: tracefork man --dir /usr/share/man/man1")]
pub struct ManArgs {
    /// Write a page for tracefork and one for each of its commands into DIR, instead of the first to standard output.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

pub fn completions(args: &CompletionsArgs) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command(), "tracefork", &mut script);
    print(&script)?;
    Ok(0)
}

pub fn man(args: &ManArgs) -> Result<u8, Failure> {
    match &args.dir {
        Some(dir) => std::fs::create_dir_all(dir)
            .and_then(|()| clap_mangen::generate_to(command(), dir))
            .map_err(|e| Failure::usage(format!("cannot write man pages to {}: {e}", dir.display())))?,
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command())
                .render(&mut page)
                .map_err(|e| Failure::internal(format!("cannot make the man page: {e}")))?;
            print(&page)?;
        }
    }
    Ok(0)
}
