//! `replay --gdb`: a recorded schedule under gdb, forwards and backwards.
//!
//! - `timeline.rs`: where in the trace the program stands, and how it goes on
//! - `back.rs`: how it goes back, by an instruction or to a breakpoint; `marks.rs`: the checkpoints for that
//! - `scope.rs`: which process, and where in the trace it is there
//! - `target.rs`: the same as gdb's remote protocol wants to see it (crate gdbstub)
//!
//! The trace decides which thread runs; gdb decides how far. Nothing can be written, neither memory nor registers: what is
//! replayed has happened. Going back is executing again, from a checkpoint to an
//! earlier point.

mod back;
mod marks;
mod scope;
mod target;
mod timeline;

use failure::Failure;
use gdbstub::stub::GdbStub;
use scope::Scope;
use session::Options;
use std::net::TcpListener;
use std::path::Path;
use target::{Blocking, Debugger};
use timeline::Timeline;
use trace::Trace;

/// Serves one gdb, from when it connects to when it leaves.
pub fn serve(
    address: &str,
    options: Options,
    trace: &Trace,
    process: Option<u32>,
    stop_at: Option<u64>,
) -> Result<(), Failure> {
    let process = match process {
        None => scope::guilty(&options, trace)?,
        given => given,
    };
    let scope = Scope::of(trace, process, stop_at)?;
    let mut timeline = Timeline::new(options, trace, scope)?;
    timeline.go_to(scope.first, 0)?;
    let image = timeline.image();
    let listener = TcpListener::bind(address).map_err(|e| {
        Failure::usage(format!("cannot listen on {address}: {e}"))
            .hint("--gdb takes ADDRESS:PORT, port 0 for any")
    })?;
    announce(&listener, &image)?;
    let (stream, _) = listener
        .accept()
        .map_err(|e| Failure::unsupported(format!("gdb could not connect: {e}")))?;
    // Answers are small, and each is waited for.
    let _ = stream.set_nodelay(true);
    let mut debugger = Debugger::new(timeline);
    let finished = GdbStub::new(stream).run_blocking::<Blocking>(&mut debugger);
    debugger.finish();
    match finished {
        Ok(_) => Ok(()),
        Err(error) if error.is_target_error() => Err(error
            .into_target_error()
            .unwrap_or_else(|| Failure::internal("the debugged program failed"))),
        // gdb has gone without a word.
        Err(error) if error.is_connection_error() => Ok(()),
        Err(error) => Err(Failure::unsupported(format!(
            "a message from gdb was not understood: {error}"
        ))),
    }
}

fn announce(listener: &TcpListener, image: &Path) -> Result<(), Failure> {
    let address = listener
        .local_addr()
        .map_err(|e| Failure::unsupported(format!("no address to listen on: {e}")))?;
    eprintln!(
        "gdb -ex 'set sysroot /' -ex 'target remote {address}' {}",
        image.display()
    );
    Ok(())
}
