//! `tracefork doctor`: what this machine allows.

use crate::error::{ExitCode, Failure};

#[derive(clap::Args)]
#[command(after_help = "Example: tracefork doctor")]
pub struct Args {}

pub fn main(_: &Args) -> Result<u8, Failure> {
    let checks = tracee::doctor::probe();
    let (mut missing, mut text) = (false, String::new());
    for check in &checks {
        let mark = if check.ok {
            "ok     "
        } else if check.required {
            "MISSING"
        } else {
            "absent "
        };
        text += &format!("{mark}  {:<28} {}\n", check.name, check.detail);
        if !check.ok {
            text += &format!("         → {}\n", check.hint);
            missing |= check.required;
        }
    }
    if missing {
        text += "\ntracefork cannot work here until what is MISSING is there.\n";
        super::style::print(&text)?;
        return Ok(ExitCode::Unsupported as u8);
    }
    text += "\ntracefork can work here.\n";
    super::style::print(&text)?;
    Ok(ExitCode::Ok as u8)
}
