//! `tracefork doctor`: what this machine allows.

use crate::error::{ExitCode, Failure};

#[derive(clap::Args)]
#[command(after_help = "Example: tracefork doctor")]
pub struct Args {}

pub fn main(_: &Args) -> Result<u8, Failure> {
    let checks = tracee::doctor::probe();
    let mut missing = false;
    for check in &checks {
        let mark = if check.ok {
            "ok     "
        } else if check.required {
            "MISSING"
        } else {
            "absent "
        };
        println!("{mark}  {:<28} {}", check.name, check.detail);
        if !check.ok {
            println!("         → {}", check.hint);
            missing |= check.required;
        }
    }
    if missing {
        println!("\ntracefork cannot work here until what is MISSING is there.");
        return Ok(ExitCode::Unsupported as u8);
    }
    println!("\ntracefork can work here.");
    Ok(ExitCode::Ok as u8)
}
