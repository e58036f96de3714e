//! `tracefork doctor`: what this machine allows.

use failure::{ExitCode, Failure};
use trace::Machine;

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
    text += &machine_lines(&Machine::this());
    if missing {
        text += "\ntracefork cannot work here until everything marked MISSING is available.\n";
        super::style::print(&text)?;
        return Ok(ExitCode::Unsupported as u8);
    }
    text += "\ntracefork can work here.\n";
    super::style::print(&text)?;
    Ok(ExitCode::Ok as u8)
}

/// What traces say about where they were recorded: a replay where this differs may not be exact.
fn machine_lines(machine: &Machine) -> String {
    let features: Vec<&str> = machine.features.iter().map(String::as_str).collect();
    format!(
        "\nthis machine, as recorded in traces (on a different machine, a replay may not be exact):\n  \
           processor     {machine}\n  features      {}\n  signal frame  {} bytes at most, {} of them extended state\n",
        features.join(" "),
        machine.signal_frame,
        machine.extended_state
    )
}
