//! What counts as a violation, and how an execution ended.

use super::left_files::Contents;
use super::recovery::Recovered;
use super::suppressions::Suppressions;
use crate::report::{self, Outcome, sent_text};
use crate::runtimes;
use regex::bytes::Regex;
use session::{Race, Session, Standstill, place_of};
use std::collections::BTreeMap;
use syscall_model::processes::Ended;
use trace::{End, Violation, ViolationKind, escape, signal_name};

/// How an execution ended, as a member of the set of outcomes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ending {
    pub exit: Option<i32>,
    pub signal: Option<i32>,
    pub deadlock: bool,
    pub livelock: bool,
    pub idle: bool,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// What each peer was told.
    pub sent: BTreeMap<String, Vec<Vec<u8>>>,
    /// How the command of `--recover` ended.
    pub recovery: Option<Recovered>,
    /// The files of `--files`.
    pub files: Contents,
    /// How the processes ended that the program started, in no particular order.
    pub children: Vec<(String, Ended)>,
}

impl Ending {
    pub fn of(session: &Session, end: &End) -> Self {
        let output = &session.model().output;
        Self {
            exit: if let End::Exited(status) = end {
                Some(*status)
            } else {
                None
            },
            signal: if let End::Killed(signal) = end {
                Some(*signal)
            } else {
                None
            },
            deadlock: *end == End::Deadlock,
            livelock: *end == End::Livelock,
            idle: *end == End::Idle,
            sent: session.residency().sent(),
            stdout: output.stdout.bytes(),
            stderr: output.stderr.bytes(),
            recovery: None,
            files: Contents::new(),
            children: children(session),
        }
    }

    pub fn outcome(&self, executions: u64) -> Outcome {
        Outcome {
            exit: self.exit,
            signal: self.signal,
            idle: self.idle,
            deadlock: self.deadlock,
            livelock: self.livelock,
            stdout: escape(&self.stdout),
            stderr: escape(&self.stderr),
            sent: sent_text(&self.sent),
            recovery: self.recovery.as_ref().map(report::Recovery::of),
            files: self
                .files
                .iter()
                .map(|(path, bytes)| (escape(path), bytes.as_deref().map(escape)))
                .collect(),
            processes: self.children.iter().map(report::ProcessOutcome::of).collect(),
            executions,
        }
    }
}

fn children(session: &Session) -> Vec<(String, Ended)> {
    let ended = session.ended_children().iter();
    let mut ended: Vec<_> = ended.map(|end| (end.command.clone(), end.ended)).collect();
    ended.sort_unstable();
    ended
}

/// Properties that the user asked for, beside those that always hold.
#[derive(Clone, Debug, Default)]
pub struct Properties {
    pub expect_exit: Option<i32>,
    /// A panic or an uncaught exception may end the program: the user has said which exit statuses are right.
    pub may_panic: bool,
    pub forbid: Vec<Regex>,
    pub require: Vec<Regex>,
    pub forbid_sent: Vec<Regex>,
    pub require_sent: Vec<Regex>,
    /// The exit status that every client must have which ends.
    pub expect_client_exit: Option<i32>,
    /// Data races are violations.
    pub races: bool,
    /// So are threads that wait for each other's locks, even if others might end that.
    pub suspicions: bool,
    /// But not these.
    pub suppressions: Suppressions,
}

impl Properties {
    /// What is wrong with a state that is not an end.
    pub fn violated_now(&self, session: &Session) -> Vec<Violation> {
        let race = self
            .races
            .then(|| data_race(session, &self.suppressions))
            .flatten();
        let stands = |standstill: &Standstill| self.suspicions || standstill.is_final;
        let standstills = session.standstills().standstills(None).into_iter().filter(stands);
        let cycles = standstills.map(|standstill| lock_cycle(&standstill));
        cycles
            .take(1)
            .chain(use_after_free(session))
            .chain(race)
            .collect()
    }

    /// What an execution that ended like this violates.
    pub fn violations(&self, session: &Session, end: &End) -> Vec<Violation> {
        let mut found: Vec<Violation> = built_in(session, end).into_iter().collect();
        if *end == End::Idle {
            // One thread may wait for clients while others wait for each other.
            found.extend(self.violated_now(session));
        }
        if let End::Exited(_) = end {
            let stuck = session.standstills_before().iter();
            let stands = stuck.filter(|standstill| self.suspicions || standstill.is_final);
            found.extend(stands.map(lock_cycle).take(1));
        }
        found.extend(use_after_free(session));
        let violation = |kind, message| Violation {
            kind,
            message,
            thread: None,
        };
        if let (Some(expected), End::Exited(status)) = (self.expect_exit, end)
            && expected != *status
        {
            found.push(violation(
                ViolationKind::Exit,
                format!("exit status {status}, expected {expected}"),
            ));
        }
        if let (false, End::Exited(status)) = (self.may_panic, end) {
            let stderr = escape(&session.model().output.stderr.bytes());
            let reason = runtimes::ended_by_report(*status, &stderr);
            found.extend(reason.map(|reason| violation(ViolationKind::Assert, reason)));
        }
        // What is cut off by the environment need not be complete.
        let is_from_outside = matches!(end, End::Killed(_)) && session.crash().is_none();
        let output = &session.model().output;
        let text = [output.stdout.bytes(), output.stderr.bytes()];
        let text: [&[u8]; 2] = [&text[0], &text[1]];
        found.extend(self.forbidden_output(&text));
        if !is_from_outside {
            found.extend(self.missing_output(&text));
        }
        found.extend(self.traffic_violations(session));
        found
    }

    /// What is in these outputs and must not be.
    pub fn forbidden_output(&self, text: &[&[u8]]) -> Vec<Violation> {
        let patterns = self.forbid.iter();
        let found = patterns.filter(|pattern| text.iter().any(|part| pattern.is_match(part)));
        found
            .map(|pattern| output(format!("the output matches {pattern}, which is forbidden")))
            .collect()
    }

    /// What is not in these outputs and must be.
    pub fn missing_output(&self, text: &[&[u8]]) -> Vec<Violation> {
        let patterns = self.require.iter();
        let missing = patterns.filter(|pattern| !text.iter().any(|part| pattern.is_match(part)));
        missing
            .map(|pattern| output(format!("the output does not match {pattern}, which is required")))
            .collect()
    }

    fn traffic_violations(&self, session: &Session) -> Vec<Violation> {
        let patterns = self.forbid_sent.iter().map(|p| (p, true));
        let patterns: Vec<_> = patterns
            .chain(self.require_sent.iter().map(|p| (p, false)))
            .collect();
        if patterns.is_empty() {
            return Vec::new();
        }
        let sent = session.residency().sent();
        let violated = |&(pattern, forbidden): &(&Regex, bool)| {
            let hit = sent
                .iter()
                .find(|(_, said)| said.iter().any(|said| pattern.is_match(said)));
            match (hit, forbidden) {
                (Some((to, _)), true) => Some(format!(
                    "what {to} was sent matches {pattern}, which is forbidden"
                )),
                (None, false) => Some(format!(
                    "nothing that was sent matches {pattern}, which is required"
                )),
                _ => None,
            }
        };
        let violation = |message| Violation {
            kind: ViolationKind::Traffic,
            message,
            thread: None,
        };
        patterns.iter().filter_map(violated).map(violation).collect()
    }

    /// Clients that ended otherwise than they should.
    pub fn client_violations(&self, exits: &[Option<i32>]) -> Vec<Violation> {
        let ended = exits
            .iter()
            .enumerate()
            .filter_map(|(client, exit)| Some((client, (*exit)?)));
        let wrong = ended.filter(|(_, status)| {
            self.expect_client_exit
                .is_some_and(|expected| expected != *status)
        });
        wrong
            .map(|(client, status)| Violation {
                kind: ViolationKind::Peer,
                message: match status {
                    0.. => format!("client {client} exited with status {status}"),
                    _ => format!("client {client} was killed by {}", signal_name(-status)),
                },
                thread: None,
            })
            .collect()
    }
}

fn output(message: String) -> Violation {
    Violation {
        kind: ViolationKind::Output,
        message,
        thread: None,
    }
}

fn built_in(session: &Session, end: &End) -> Option<Violation> {
    let thread = session.crash().map(|crash| crash.thread);
    if let Some(crash) = session.crash()
        && let Some((_, command)) = &crash.process
    {
        let mut violation = killed(session, crash.signal);
        violation.message += &format!(" (in a child process, {command})");
        return Some(violation);
    }
    match end {
        // From outside: no fault of the program's.
        End::Killed(_) if session.crash().is_none() => ended_from_outside(session),
        End::Killed(signal) => Some(Violation {
            thread,
            ..killed(session, *signal)
        }),
        End::Deadlock => Some(Violation {
            kind: ViolationKind::Deadlock,
            message: deadlock_message(session),
            thread: None,
        }),
        End::Livelock => Some(Violation {
            kind: ViolationKind::Livelock,
            message: livelock_message(session),
            thread: None,
        }),
        End::Exited(_) => ended_from_outside(session),
        End::Idle | End::Cut => None,
    }
}

/// A process died by a signal that it earned.
fn killed(session: &Session, signal: i32) -> Violation {
    let is_abort = signal == libc::SIGABRT;
    let last_words = last_line(&session.model().output.stderr.bytes()).filter(|_| is_abort);
    Violation {
        kind: if is_abort {
            ViolationKind::Assert
        } else {
            ViolationKind::Crash
        },
        message: last_words.unwrap_or_else(|| format!("killed by {}", signal_name(signal))),
        thread: None,
    }
}

/// The last thing that an aborting program said: the failed assertion, as a rule.
fn last_line(stderr: &[u8]) -> Option<String> {
    let text = escape(stderr);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let said = lines
        .iter()
        .rev()
        .find(|line| line.contains("ssertion") || line.contains("panicked"));
    said.or(lines.last()).map(|line| (*line).to_owned())
}

fn deadlock_message(session: &Session) -> String {
    let threads = session.explain().all_stuck();
    format!("no thread can make progress: {}", threads.join("; "))
}

/// The handler of a signal from outside ended a program in which no thread could move.
fn ended_from_outside(session: &Session) -> Option<Violation> {
    let (signal, threads) = session.roused_in_vain()?;
    let (signal, threads) = (signal_name(signal), threads.join("; "));
    Some(Violation {
        kind: ViolationKind::Deadlock,
        message: format!(
            "no thread could make progress, and the handler of {signal} only ended that: {threads}"
        ),
        thread: None,
    })
}

fn livelock_message(session: &Session) -> String {
    let threads = session.explain().all_stuck();
    if session.movers().somebody_moves_on() {
        return format!(
            "threads go on forever, and no schedule ends: {}",
            threads.join("; ")
        );
    }
    format!(
        "every thread waits or polls, and nothing changes as time passes: {}",
        threads.join("; ")
    )
}

/// A deadlock of some threads while others still run.
pub fn lock_cycle(standstill: &Standstill) -> Violation {
    Violation {
        kind: ViolationKind::Deadlock,
        message: standstill.description.clone(),
        thread: standstill.threads.first().copied(),
    }
}

/// A thread is about to touch memory that was freed.
fn use_after_free(session: &Session) -> Option<Violation> {
    let (tid, at, freed) = match (session.sharing().use_after_free(), session.misuse()) {
        (Some((tid, freed)), _) => (tid, session.explain().location(tid), freed),
        (None, Some(misuse)) => (
            misuse.thread,
            session.explain().place(misuse.place.lookup()),
            &misuse.freed,
        ),
        (None, None) => return None,
    };
    let site = session.sharing().freed_site(freed);
    Some(Violation {
        kind: ViolationKind::UseAfterFree,
        message: format!(
            "{at} accesses {} bytes that were {} in {}",
            freed.range.end - freed.range.start,
            session.sharing().freed_how(freed),
            session.explain().place(site.saturating_sub(1))
        ),
        thread: Some(tid),
    })
}

/// A data race, named by both places in the source.
fn data_race(session: &Session, suppressions: &Suppressions) -> Option<Violation> {
    let variable = |race: &Race| {
        let name = session.explain().objects().name(race.address);
        name.unwrap_or_else(|| format!("{:#x}", race.address))
    };
    let stack = |tid| {
        session
            .explain()
            .stack(tid)
            .iter()
            .map(place_of)
            .collect::<Vec<_>>()
    };
    let is_told = |race: &Race| {
        let [one, other] = race.sides.map(|(tid, _)| stack(tid));
        !suppressions.hide(&variable(race), [&one, &other])
    };
    let race = session
        .sharing()
        .races()
        .into_iter()
        .find(|race| suppressions.is_empty() || is_told(race))?;
    let [one, other] = race.sides.map(|(tid, writes)| {
        format!(
            "{} in {}",
            if writes { "store" } else { "load" },
            session.explain().location(tid)
        )
    });
    let (first, second) = if one <= other { (one, other) } else { (other, one) };
    let variable = variable(&race);
    Some(Violation {
        kind: ViolationKind::Race,
        message: format!("unsynchronized accesses to {variable}: {first}; {second}"),
        thread: Some(race.sides[0].0),
    })
}
