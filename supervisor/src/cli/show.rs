//! `tracefork show`: a trace to look at, as text, as a page, or for other tools. Needs nothing but the trace, unless stacks are asked
//! for.

use failure::Failure;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use trace::Trace;
use views::{View, table};

#[derive(clap::Args)]
#[command(
    after_help = "Examples: tracefork show tracefork-out/deadlock-1.trace --html deadlock.html --stacks\n          \
                        tracefork show tracefork-out/crash-1.trace --pcap crash.pcap && wireshark crash.pcap\n\n\
                  FILE may be - for standard output. Without an option the trace is printed as text."
)]
pub struct Args {
    /// A trace written by `run --trace` or by `check`.
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// Write one self-contained page with a space-time diagram.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Add every step's stack and source lines, by executing the trace once more: the program must be there.
    #[arg(long)]
    pub stacks: bool,
    /// The program, if it is elsewhere on this machine.
    #[arg(long, value_name = "PATH", requires = "stacks")]
    pub program: Option<PathBuf>,
    /// Print the trace, with the locks held and the waits, as JSON.
    #[arg(long)]
    pub json: bool,
    /// Write a mermaid sequence diagram, for Markdown.
    #[arg(long, value_name = "FILE")]
    pub mermaid: Option<PathBuf>,
    /// Write Chrome trace events, for Perfetto (ui.perfetto.dev).
    #[arg(long, value_name = "FILE")]
    pub chrome_trace: Option<PathBuf>,
    /// Write a log with vector clocks, for ShiViz.
    #[arg(long, value_name = "FILE")]
    pub shiviz: Option<PathBuf>,
    /// Write the traffic with the peers as a packet capture, for Wireshark and tcpdump. Times are those of the virtual clock. Unix
    /// sockets have no packets and are left out.
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
}

pub fn main(args: &Args) -> Result<u8, Failure> {
    let trace = trace::format::read(&args.trace)?;
    let mut view = View::of(&trace);
    if args.stacks {
        let options = super::replay::options(args.program.as_deref(), false, &trace)?;
        super::replay::files_are_as_recorded(&trace)?;
        views::add_stacks(&mut view, options, &trace)?;
    }
    if let Some(path) = &args.html {
        write(path, views::html(&view)?.as_bytes())?;
    }
    if let Some(path) = &args.mermaid {
        write(path, views::mermaid(&view).as_bytes())?;
    }
    if let Some(path) = &args.chrome_trace {
        write(path, format!("{}\n", views::chrome_trace(&view)).as_bytes())?;
    }
    if let Some(path) = &args.shiviz {
        write(path, views::shiviz(&view).as_bytes())?;
    }
    if let Some(path) = &args.pcap {
        pcap(path, &trace)?;
    }
    if args.json {
        let json = serde_json::to_string_pretty(&view)
            .map_err(|e| Failure::internal(format!("cannot encode the trace: {e}")))?;
        print(format!("{json}\n").as_bytes())?;
    }
    let files = [
        &args.html,
        &args.mermaid,
        &args.chrome_trace,
        &args.shiviz,
        &args.pcap,
    ];
    if !args.json && files.iter().all(|file| file.is_none()) {
        print(text(&trace, &view).as_bytes())?;
    }
    Ok(0)
}

fn text(trace: &Trace, view: &View) -> String {
    let mut text = view.program.clone();
    for argument in &view.arguments {
        let _ = write!(text, " {argument}");
    }
    let _ = writeln!(
        text,
        "\n  {} steps, {}{} threads; {}",
        view.steps.len(),
        match view.processes.len() {
            0 => String::new(),
            processes => format!("{processes} processes, "),
        },
        view.lanes.len(),
        view.end
    );
    if let Some(verdict) = &view.verdict {
        let _ = writeln!(text, "  {}: {}", verdict.kind, verdict.message);
        let preemptions = checker::report::counted(u64::from(verdict.preemptions), "preemption");
        let _ = writeln!(text, "  {preemptions}");
        let needs = super::summary::needs(verdict.preemptions, &trace.steps);
        needs
            .into_iter()
            .for_each(|needs| text.push_str(&format!("  {needs}\n")));
    }
    text.push('\n');
    for line in table(trace) {
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// What cannot be in a capture is told: an empty one would look as if nothing had been said.
fn pcap(path: &Path, trace: &Trace) -> Result<(), Failure> {
    let capture = views::pcap(trace);
    write(path, &capture.file)?;
    if capture.left_out > 0 {
        eprintln!(
            "tracefork: {} connection(s) over Unix sockets are not in the capture: they have no packets",
            capture.left_out
        );
    }
    if trace.traffic.is_empty() && !trace.communication.is_empty() {
        eprintln!("tracefork: the trace has no timing of messages: it was written by an earlier version");
    } else if capture.packets == 0 {
        eprintln!("tracefork: the capture is empty: the program had no connection to a peer");
    }
    Ok(())
}

pub(super) fn write(path: &Path, content: &[u8]) -> Result<(), Failure> {
    if path.as_os_str() == "-" {
        return print(content);
    }
    peers::write_whole(path, content)
        .map_err(|e| Failure::usage(format!("cannot write {}: {e}", path.display())))
}

pub(super) fn print(content: &[u8]) -> Result<(), Failure> {
    match std::io::stdout().write_all(content) {
        // Whoever reads has read enough, as with `| head`.
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|e| Failure::usage(format!("cannot write to standard output: {e}"))),
    }
}
