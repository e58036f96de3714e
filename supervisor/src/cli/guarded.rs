//! A command in a thread of its own, so that a panic is reported as what it is: a bug, with its own exit code.

use super::report_failure;
use failure::{ExitCode as Code, Failure};
use std::any::Any;
use std::thread;

/// As much as the main thread of a process usually has; the stack that we were given may be of any size (`ulimit -s`).
const STACK: usize = 8 << 20;

/// Runs a command and reports its failure, if it has one; the exit code.
pub fn run(command: impl FnOnce() -> Result<u8, Failure> + Send + 'static) -> u8 {
    let worker = thread::Builder::new()
        .name("tracefork".to_owned())
        .stack_size(STACK)
        .spawn(command);
    let finished = match worker.map(thread::JoinHandle::join) {
        Ok(Ok(finished)) => finished,
        Ok(Err(panic)) => Err(Failure::internal(format!("a panic: {}", message(&*panic)))),
        Err(error) => Err(Failure::no_thread(&error)),
    };
    finished.unwrap_or_else(|failure| {
        let code = failure.code;
        report_failure(&match code {
            Code::Internal => with_particulars(failure),
            _ => failure,
        });
        code as u8
    })
}

/// What a report of a bug must say.
fn with_particulars(failure: Failure) -> Failure {
    let arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    let command: Vec<String> = arguments.collect();
    failure
        .detail(format!("version: {}", env!("CARGO_PKG_VERSION")))
        .detail(format!("command: {}", command.join(" ")))
        .detail("-v shows every operation up to here")
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_has_an_exit_code_of_its_own() {
        let reason = "why";
        assert_eq!(run(|| panic!("an invariant is broken")), 7);
        assert_eq!(run(move || Err(Failure::internal(reason))), 7);
        assert_eq!(run(move || Err(Failure::usage(reason))), 2);
        assert_eq!(run(|| Ok(3)), 3);
    }

    #[test]
    fn a_report_has_what_is_needed_to_act_on_it() {
        let reason = "thread 7 is nowhere";
        let text = with_particulars(Failure::internal(reason)).to_string();
        for part in [
            reason,
            "version: ",
            "command: ",
            "hint: this is a bug in tracefork: please report it",
        ] {
            assert!(text.contains(part), "{part:?} is not in {text:?}");
        }
    }
}
