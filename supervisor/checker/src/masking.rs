//! The environment in traces: traces are handed on, and what a program was started with may hold passwords and tokens.
//!
//! The environment lies in the program's memory, so everything must stay where it is: a value that is taken out is replaced by one of the same length. Which values
//! the program needs cannot be told beforehand, as it may read them without any system call. So it is tried: the schedule is executed once more with
//! values masked, from what the trace holds, and if every step, all output and all that peers are told is the same, the trace does not need them. Values that it
//! does need are found by halving, and stay.

use failure::Failure;
use session::execution;
use session::network::Peers;
use session::{Bounds, FaultPlan, Inputs, Options, Session};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use trace::Trace;

/// What stands in place of each byte of a value.
const MASK: u8 = b'x';
/// So often a schedule is executed again to find out what it needs.
const TRIES: u32 = 40;
/// How long one of these executions may take: with another value a program may compute without end.
const LONGEST: Duration = Duration::from_secs(10);

/// Variables for libraries, shells and terminals, which hold no secrets.
const HARMLESS: [&str; 16] = [
    "PATH",
    "PWD",
    "OLDPWD",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TERM",
    "COLUMNS",
    "LINES",
    "SHLVL",
    "TMPDIR",
    "GLIBC_TUNABLES",
    "GODEBUG",
    "GOMAXPROCS",
    "GOTRACEBACK",
    "RUST_BACKTRACE",
];
const HARMLESS_PREFIXES: [&str; 4] = ["LC_", "LD_", "MALLOC_", "OMP_"];

/// What an execution shows to others.
#[derive(Debug, PartialEq, Eq)]
pub struct Shown {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    sent: BTreeMap<String, Vec<Vec<u8>>>,
}

impl Shown {
    pub fn of(session: &Session) -> Self {
        let output = &session.model().output;
        Self {
            stdout: output.stdout.bytes(),
            stderr: output.stderr.bytes(),
            sent: session.residency().sent(),
        }
    }
}

/// Takes those values out of a trace that its replay does not need. Returns what to say about those that stay.
///
/// # Errors
/// What peers said cannot be read back.
pub fn mask(trace: &mut Trace, options: &Options, shown: &Shown) -> Result<Option<String>, Failure> {
    let candidates: Vec<usize> = (0..trace.program.env.len())
        .filter(|&at| is_worth_masking(&trace.program.env[at]))
        .collect();
    if candidates.is_empty() {
        return Ok(None);
    }
    // What a recovery finds is no part of the execution that is compared.
    let mut tries = if trace.recover.is_empty() { TRIES } else { 0 };
    let mut needed: Vec<usize> = Vec::new();
    let mut groups = vec![candidates];
    while let Some(group) = groups.pop() {
        let Some(left) = tries.checked_sub(1) else {
            needed.extend(group);
            continue;
        };
        tries = left;
        let unmasked = std::mem::take(&mut trace.program.env);
        trace.program.env = masked(&unmasked, &group);
        if replays(trace, options, shown)? {
            continue;
        }
        trace.program.env = unmasked;
        if needed.is_empty() && tries + 1 == TRIES && !replays(trace, options, shown)? {
            // With all of them neither: it is something else that it needs, and what that is shows only there.
            let what = "the trace contains the values of all environment variables: the trace could not be replayed without them, nor with them";
            return Ok(Some(what.to_owned()));
        }
        match group.len() {
            1 => needed.extend(group),
            count => {
                let (first, second) = group.split_at(count / 2);
                groups.extend([first.to_vec(), second.to_vec()]);
            }
        }
    }
    Ok(note(trace, needed))
}

fn note(trace: &Trace, mut needed: Vec<usize>) -> Option<String> {
    needed.sort_unstable();
    let name = |at: &usize| String::from_utf8_lossy(&trace.program.env[*at].0).into_owned();
    let names: Vec<String> = needed.iter().map(name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "the trace contains the values of these environment variables, which it needs to replay: {}",
            names.join(", ")
        )
    })
}

fn is_worth_masking((name, value): &(Vec<u8>, Vec<u8>)) -> bool {
    let is_harmless = HARMLESS.iter().any(|known| known.as_bytes() == name)
        || HARMLESS_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix.as_bytes()));
    !value.is_empty() && !is_harmless
}

fn masked(env: &[(Vec<u8>, Vec<u8>)], group: &[usize]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut env = env.to_vec();
    for &at in group {
        env[at].1.fill(MASK);
    }
    env
}

/// Is a replay of the trace, as it is now, the execution that was recorded?
fn replays(trace: &Trace, options: &Options, shown: &Shown) -> Result<bool, Failure> {
    let options = Options {
        env: trace.program.env.clone(),
        peers: Peers::recorded(&trace.communication)?,
        inputs: Inputs::recorded(&trace.inputs),
        faults: FaultPlan {
            calls: options.faults.calls,
            ..FaultPlan::default()
        },
        walk: None,
        bounds: Bounds {
            stop: options.bounds.stop.clone(),
            deadline: Some(Instant::now() + LONGEST),
            ..Bounds::default()
        },
        ..options.clone()
    };
    // However it fails, with these values it is not the same.
    let Ok(execution) = execution::replay(options, trace, None) else {
        return Ok(false);
    };
    let is_same = execution.end == trace.end && Shown::of(&execution.session) == *shown;
    execution.session.finish();
    Ok(is_same)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, value: &str) -> (Vec<u8>, Vec<u8>) {
        (name.as_bytes().to_vec(), value.as_bytes().to_vec())
    }

    #[test]
    fn lengths_and_names_stay() {
        let env = [pair("A", "one"), pair("B", "secret"), pair("C", "three")];
        let masked = masked(&env, &[0, 1]);
        assert_eq!(
            masked,
            [pair("A", "xxx"), pair("B", "xxxxxx"), pair("C", "three")]
        );
    }

    #[test]
    fn what_libraries_read_is_left_alone() {
        assert!(is_worth_masking(&pair("API_TOKEN", "abc")));
        assert!(is_worth_masking(&pair("LDAP_PASSWORD", "abc")));
        assert!(!is_worth_masking(&pair("API_TOKEN", "")));
        assert!(!is_worth_masking(&pair("LD_LIBRARY_PATH", "/opt/lib")));
        assert!(!is_worth_masking(&pair("PATH", "/bin")));
    }
}
