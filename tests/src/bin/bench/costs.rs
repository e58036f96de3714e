//! Where the time of a transition goes: of the philosophers, and of real programs with clients.
//!
//! The search runs on a system that measures each request and passes it on, so that what is measured has nothing in it that is there for measuring. All is
//! processor time: that of the supervising thread for each request, and that of the program, which runs while a step is made.

use std::fs;
use std::time::Duration;

use anyhow::{Result, anyhow};
use checker::system::Mark;
use checker::{CheckSystem, CheckpointChoice, Judge};
use explore::{Choice, Config, Menu, Report, Search, System};
use failure::Failure;
use peers::{Launcher, PeerSpec};
use session::network::Peers;
use tempfile::TempDir;
use tracee::thread_time;

use crate::bare::BareTask;
use crate::caching::program;
use crate::checking::{philosophers, searching, steps};
use crate::sample::busy;
use crate::subject::Subject;
use crate::{Effort, subject};
use tracefork_tests::networked::free_port;

/// What a search asks of its system.
#[derive(Clone, Copy)]
enum Part {
    Step,
    Identity,
    Menu,
    Mark,
    Rewind,
}

const PARTS: [(Part, &str); 5] = [
    (Part::Step, "steps (the supervisor's part)"),
    (Part::Identity, "identities"),
    (Part::Menu, "what can be done, footprints"),
    (Part::Mark, "marks"),
    (Part::Rewind, "rewinds"),
];

#[derive(Clone, Copy, Default)]
struct Spent {
    times: u64,
    busy: Duration,
}

/// A system that measures what it is asked for.
struct Measured {
    system: CheckSystem,
    spent: [Spent; PARTS.len()],
}

impl Measured {
    fn measure<T>(&mut self, part: Part, work: impl FnOnce(&mut CheckSystem) -> T) -> T {
        let before = thread_time();
        let answer = work(&mut self.system);
        let spent = &mut self.spent[part as usize];
        spent.times += 1;
        spent.busy += thread_time().saturating_sub(before);
        answer
    }
}

impl System for Measured {
    type Mark = Mark;
    type Outcome = <CheckSystem as System>::Outcome;
    type Violation = <CheckSystem as System>::Violation;
    type Error = Failure;

    fn reset(&mut self) -> Result<(), Failure> {
        self.system.reset()
    }

    fn enabled(&mut self) -> Result<Menu, Failure> {
        self.measure(Part::Menu, |system| system.enabled())
    }

    fn step(&mut self, choice: Choice) -> Result<Report<Self>, Failure> {
        self.measure(Part::Step, |system| system.step(choice))
    }

    fn state_id(&mut self) -> Result<u128, Failure> {
        self.measure(Part::Identity, |system| system.state_id())
    }

    fn mark(&mut self) -> Result<Option<Mark>, Failure> {
        self.measure(Part::Mark, |system| system.mark())
    }

    fn rewind(&mut self, mark: &Mark) -> Result<bool, Failure> {
        self.measure(Part::Rewind, |system| system.rewind(mark))
    }

    fn rewind_last(&mut self, mark: Mark) -> Result<bool, Failure> {
        self.measure(Part::Rewind, |system| system.rewind_last(mark))
    }

    fn forget(&mut self, mark: Mark) {
        self.system.forget(mark);
    }
}

/// A program of Debian with its clients; `{port}` and `{root}` stand for a free port and a directory.
struct Real {
    name: &'static str,
    package: &'static str,
    args: &'static [&'static str],
    client: &'static str,
}

const REAL: [Real; 3] = [
    Real {
        name: "civetweb",
        package: "civetweb",
        args: &[
            "-document_root",
            "{root}",
            "-listening_ports",
            "127.0.0.1:{port}",
            "-num_threads",
            "2",
        ],
        client: "2*curl -s http://127.0.0.1:{port}/page.txt",
    },
    Real {
        name: "memcached",
        package: "memcached",
        args: &[
            "-u",
            "root",
            "-t",
            "2",
            "-l",
            "127.0.0.1",
            "-p",
            "{port}",
            "-U",
            "0",
            "-o",
            "no_modern",
        ],
        client: "2*nc -N 127.0.0.1 {port} < {root}/memcached.txt",
    },
    Real {
        name: "haproxy",
        package: "haproxy",
        args: &["-db", "-f", "{root}/haproxy.cfg"],
        client: "2*curl -s http://127.0.0.1:{port}/",
    },
];

const FILES: [(&str, &str); 3] = [
    ("page.txt", "a small page\n"),
    ("memcached.txt", "set a 0 0 1\r\n1\r\nget a\r\nquit\r\n"),
    (
        "haproxy.cfg",
        "global\n nbthread 2\n httpclient.ssl.verify none\ndefaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 5s\n\
         frontend f\n bind 127.0.0.1:{port}\n http-request return status 200 content-type text/plain string ok\n",
    ),
];

impl Real {
    fn system(&self, root: &TempDir) -> Result<CheckSystem> {
        let port = free_port()?.to_string();
        let path = root.path().to_string_lossy().into_owned();
        let filled = |text: &str| text.replace("{port}", &port).replace("{root}", &path);
        for (name, text) in FILES {
            fs::write(root.path().join(name), filled(text))?;
        }
        test_packages::install(&["curl", "netcat-openbsd"])?;
        let args: Vec<String> = self.args.iter().map(|arg| filled(arg)).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut options = Subject::new(&test_packages::command(self.name, self.package)?, &args).options()?;
        let config = peers::Config {
            clients: vec![PeerSpec::parse(&filled(self.client))?],
            launcher: Launcher {
                program: program()?,
                ..Launcher::default()
            },
            ..peers::Config::default()
        };
        options.peers = Peers::new(config, None);
        Ok(CheckSystem::new(options, Judge::default(), CheckpointChoice::Rewind).peers(true))
    }
}

/// Prints a table for each program.
pub fn costs(effort: &Effort) -> Result<()> {
    let mut bare = BareTask::start(&subject::build("calls")?, subject::core().number())?;
    let stop = bare.stops(effort.of(20_000, 500))?.busy * 1e6;
    println!("a bare stop: {stop:.2} µs of processor time");
    for hash in [true, false] {
        let name = if hash {
            "philosophers"
        } else {
            "philosophers, without identities"
        };
        let system = philosophers(effort.of(4, 2))?.system(CheckpointChoice::Rewind)?;
        table(name, system, effort.of(10_000, 300), hash, stop)?;
    }
    let root = TempDir::new()?;
    for real in REAL.iter().take(effort.of(REAL.len(), 0)) {
        // One that is not there and cannot be had is no reason to have no tables of the others.
        match real.system(&root) {
            Ok(system) => table(real.name, system, 3000, true, stop)?,
            Err(error) => println!("\n{}: {error:#}", real.name),
        }
    }
    Ok(())
}

fn table(name: &str, mut system: CheckSystem, limit: u64, hash: bool, stop: f64) -> Result<()> {
    // The start of a program is no part of a transition.
    subject::well(system.reset())?;
    let mut measured = Measured {
        system,
        spent: Default::default(),
    };
    let config = Config {
        limits: steps(limit),
        ..searching(hash)
    };
    let (all_before, here_before) = (busy()?, thread_time());
    let result = Search::new(config).run_one(&mut measured);
    let (all, here) = (
        busy()?.saturating_sub(all_before),
        thread_time().saturating_sub(here_before),
    );
    if let Some(failure) = &result.failure {
        return Err(anyhow!("the search of {name} failed: {failure:?}"));
    }
    let transitions = result.counters.transitions as f64;
    let each = |busy: Duration| busy.as_secs_f64() * 1e6 / transitions;
    println!(
        "\n{name}: {transitions} transitions, {:.1} bare stops each",
        each(all) / stop
    );
    let line = |what: &str, times: String, busy: Duration| {
        let share = 100.0 * busy.as_secs_f64() / all.as_secs_f64();
        println!("  {what:32} {times:>6} {:>9.2} µs {share:>5.1} %", each(busy));
    };
    let mut rest = here;
    for ((_, what), spent) in PARTS.iter().zip(measured.spent) {
        line(
            what,
            format!("{:.2}", spent.times as f64 / transitions),
            spent.busy,
        );
        rest = rest.saturating_sub(spent.busy);
    }
    line("the search itself", String::new(), rest);
    line("the program, its peers", String::new(), all.saturating_sub(here));
    Ok(())
}
