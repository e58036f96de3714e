//! What runtimes print when something went wrong in a program: panics, uncaught exceptions, reports of sanitizers.
//!
//! A program in C aborts when an assertion fails, and the signal tells. Other languages end it with an exit status and words. A report that ended the program is a
//! failed assertion; one that did not (in a thread that nobody waits for) is a warning.

/// One kind of report, and how to tell it.
struct Kind {
    /// What only such a report has in it.
    sign: &'static str,
    name: &'static str,
    /// The exit statuses by which the runtime ends a program with it.
    statuses: &'static [i32],
    /// The line that says what is wrong, from the lines of the output beginning with that of the sign.
    reason: fn(&[&str]) -> Option<String>,
}

const KINDS: [Kind; 8] = [
    Kind {
        sign: "panicked at ",
        name: "a Rust panic",
        statuses: &[101],
        reason: with_the_next,
    },
    Kind {
        sign: "Traceback (most recent call last)",
        name: "a Python exception",
        statuses: &[1],
        reason: after_what_is_indented,
    },
    Kind {
        sign: "fatal error: all goroutines are asleep",
        name: "a Go panic",
        statuses: &[2],
        reason: itself,
    },
    Kind {
        sign: "panic: ",
        name: "a Go panic",
        statuses: &[2],
        reason: itself,
    },
    Kind {
        sign: "Exception in thread \"",
        name: "a Java exception",
        statuses: &[1],
        reason: itself,
    },
    Kind {
        sign: "Sanitizer: ",
        name: "a report of a sanitizer",
        // AddressSanitizer, LeakSanitizer, ThreadSanitizer, MemorySanitizer.
        statuses: &[1, 23, 66, 77],
        reason: itself,
    },
    Kind {
        sign: "runtime error: ",
        name: "a runtime error",
        statuses: &[],
        reason: itself,
    },
    Kind {
        sign: "terminated with exception (report_on_exception",
        name: "a Ruby exception",
        statuses: &[1],
        reason: itself,
    },
];

fn itself(lines: &[&str]) -> Option<String> {
    lines.first().map(|line| line.trim().to_owned())
}

/// The place, and what was asserted there.
fn with_the_next(lines: &[&str]) -> Option<String> {
    let place = itself(lines)?;
    Some(match lines.get(1).map(|line| line.trim()) {
        Some(next) if !next.is_empty() => format!("{place} {next}"),
        _ => place,
    })
}

/// The frames are indented, the exception is not.
fn after_what_is_indented(lines: &[&str]) -> Option<String> {
    let after = lines.iter().skip(1);
    after
        .map(|line| line.trim_end())
        .find(|line| !line.is_empty() && !line.starts_with(' '))
        .map(str::to_owned)
}

/// What is wrong, if a runtime ended the program with this status because of it.
pub fn ended_by_report(status: i32, stderr: &str) -> Option<String> {
    let lines: Vec<&str> = stderr.lines().collect();
    let ended = KINDS.iter().filter(|kind| kind.statuses.contains(&status));
    ended
        // With several reports of one kind the last one is that of the end.
        .filter_map(|kind| Some((kind, lines.iter().rposition(|line| line.contains(kind.sign))?)))
        .find_map(|(kind, at)| (kind.reason)(&lines[at..]))
}

/// All reports in these texts: what each is, and its line.
pub fn reports<'a>(texts: impl Iterator<Item = &'a str> + Clone) -> Vec<(&'static str, &'a str)> {
    let mut found: Vec<(&str, &str)> = KINDS
        .iter()
        .filter_map(|kind| {
            let mut lines = texts.clone().flat_map(str::lines);
            let line = lines.find(|line| line.contains(kind.sign))?;
            Some((kind.name, line.trim()))
        })
        .collect();
    found.dedup_by_key(|(name, _)| *name);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_that_ended_the_program_says_why() {
        let rust = "\nthread 'main' (7) panicked at a.rs:3:1:\nassertion failed: x\nnote: run with";
        assert_eq!(
            ended_by_report(101, rust).as_deref(),
            Some("thread 'main' (7) panicked at a.rs:3:1: assertion failed: x")
        );
        let python = "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    f()\nValueError: two\n";
        assert_eq!(ended_by_report(1, python).as_deref(), Some("ValueError: two"));
        let go = "panic: boom\n\ngoroutine 1 [running]:\nmain.main()\nexit status 2\n";
        assert_eq!(ended_by_report(2, go).as_deref(), Some("panic: boom"));
    }

    #[test]
    fn one_that_did_not_is_no_reason() {
        let rust = "thread '<unnamed>' panicked at a.rs:3:1:\nboom";
        assert_eq!(ended_by_report(0, rust), None);
        assert_eq!(ended_by_report(1, rust), None);
        assert_eq!(ended_by_report(1, "usage: a FILE"), None);
    }

    #[test]
    fn a_thread_of_python_is_not_taken_for_java() {
        let said = "Exception in thread Thread-2 (f):\nTraceback (most recent call last):\n  x\nE: y\n";
        assert_eq!(
            reports([said].into_iter()),
            [("a Python exception", "Traceback (most recent call last):")]
        );
    }
}
