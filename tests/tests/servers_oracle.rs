//! A naive oracle for the order of arrival, on servers of Debian: the same server natively, on real sockets, with two clients that take their time at random. What they are told must be
//! among what `tracefork check` lists.
//!
//! By default each server runs a few dozen times; `TRACEFORK_ALL=1` makes it thousands.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Arguments;
use serde_json::Value;
use tracefork_tests::dice::Dice;
use tracefork_tests::networked::{Session, peer_program, trial};
use tracefork_tests::supervised::Tracefork;
use tracefork_tests::{command_under_test, packages};

struct Case {
    program: &'static str,
    package: &'static str,
    /// `{port}` and `{root}` (a directory with the configuration) are replaced.
    args: &'static [&'static str],
    /// What each client says first, and what when it has heard something.
    clients: [[&'static str; 2]; 2],
    /// What counts of what a client is told, where that tells of the time.
    part: fn(&str) -> String,
    /// The fewest ways in which it can go that must be listed: less would not test anything.
    least: usize,
    /// Native runs in every test run, and if all are asked for.
    runs: [u64; 2],
}

const RUNS: [u64; 2] = [20, 2000];
const SAME_NICKNAME: [[&str; 2]; 2] = [["NICK a\r\nUSER a 0 * :a\r\n", "QUIT\r\n"]; 2];

const CASES: &[Case] = &[
    Case {
        program: "beanstalkd",
        package: "beanstalkd",
        args: &["-l", "127.0.0.1", "-p", "{port}"],
        clients: [
            ["put 0 0 10 1\r\na\r\n", "put 0 0 10 1\r\nA\r\nquit\r\n"],
            ["put 0 0 10 1\r\nb\r\n", "quit\r\n"],
        ],
        part: str::to_owned,
        least: 3,
        runs: RUNS,
    },
    Case {
        program: "redis-server",
        package: "redis-server",
        args: &["--port", "{port}", "--bind", "127.0.0.1", "--save", ""],
        clients: [["INCR k\r\n", "INCR k\r\nQUIT\r\n"], ["INCR k\r\n", "QUIT\r\n"]],
        part: str::to_owned,
        least: 3,
        runs: RUNS,
    },
    Case {
        program: "memcached",
        package: "memcached",
        // Without its maintainers, who wake up for ever.
        args: &[
            "-u",
            "root",
            "-t",
            "1",
            "-l",
            "127.0.0.1",
            "-p",
            "{port}",
            "-U",
            "0",
            "-o",
            "no_modern",
        ],
        clients: [
            ["set k 0 0 1\r\n0\r\n", "incr k 1\r\nquit\r\n"],
            ["incr k 1\r\n", "quit\r\n"],
        ],
        part: str::to_owned,
        least: 3,
        runs: RUNS,
    },
    Case {
        program: "nginx",
        package: "nginx-light",
        args: &["-c", "{root}/nginx.conf"],
        clients: [["GET / HTTP/1.0\r\n\r\n", ""], ["GET / HTTP/1.0\r\n\r\n", ""]],
        part: body,
        least: 2,
        runs: RUNS,
    },
    // It hears a client again after a second only, so that the nickname is free when the other one comes long after it; this takes its time natively, too.
    Case {
        program: "ngircd",
        package: "ngircd",
        args: &["-n", "-f", "{root}/ngircd.conf"],
        clients: SAME_NICKNAME,
        part: registered,
        least: 3,
        runs: [4, 200],
    },
    // Without that.
    Case {
        program: "ngircd",
        package: "ngircd",
        args: &["-n", "-f", "{root}/at-once.conf"],
        clients: SAME_NICKNAME,
        part: registered,
        least: 3,
        runs: RUNS,
    },
];

/// Which connection it was, without the head, which has a date.
fn body(said: &str) -> String {
    said.split_once("\r\n\r\n")
        .map_or("", |(_, body)| body)
        .to_owned()
}

/// Whether it got the nickname: all else tells of the time.
fn registered(said: &str) -> String {
    let answers = [(" 001 ", "welcome"), (" 433 ", "in use")];
    let found = answers.iter().find(|(number, _)| said.contains(number));
    found.map_or(said, |(_, answer)| answer).to_owned()
}

/// Says the first text, the second when it has heard something, and returns all that it heard.
fn talk(port: u16, [first, second]: [&'static str; 2], mut dice: Dice) -> Result<String> {
    dice.dawdle();
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    dice.dawdle();
    stream.write_all(first.as_bytes())?;
    let (mut heard, mut buffer) = (Vec::new(), [0; 4096]);
    let mut second = Some(second);
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Ok(String::from_utf8_lossy(&heard).into_owned());
        }
        heard.extend_from_slice(&buffer[..count]);
        if let Some(text) = second.take() {
            dice.dawdle();
            // It may have closed the connection already.
            let _ = stream.write_all(text.as_bytes());
        }
    }
}

/// Ends with the test, whatever comes of it.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended, which is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Case {
    fn prepare(&self, session: &Session) -> Result<Vec<String>> {
        let (root, port) = (session.root()?, session.port);
        let at = root.display();
        let nginx = format!(
            "daemon off; master_process off; pid {at}/pid; error_log /dev/null;\nevents {{ worker_connections 64; }}\n\
             http {{ access_log off; client_body_temp_path {at}/body; proxy_temp_path {at}/proxy; fastcgi_temp_path {at}/fastcgi;\n\
             uwsgi_temp_path {at}/uwsgi; scgi_temp_path {at}/scgi;\n\
             server {{ listen 127.0.0.1:{port}; location / {{ return 200 \"$connection\\n\"; }} }} }}\n"
        );
        fs::write(root.join("nginx.conf"), nginx)?;
        let ngircd = format!(
            "[Global]\nName = irc.example.net\nInfo = test\nListen = 127.0.0.1\nPorts = {port}\nServerUID = root\nServerGID = root\n\
             [Options]\nDNS = no\nIdent = no\nPAM = no\n"
        );
        fs::write(root.join("ngircd.conf"), &ngircd)?;
        fs::write(
            root.join("at-once.conf"),
            ngircd + "[Limits]\nMaxPenaltyTime = 0\n",
        )?;
        let fill = |text: &&str| {
            text.replace("{port}", &port.to_string())
                .replace("{root}", &root.display().to_string())
        };
        Ok(self.args.iter().map(fill).collect())
    }

    /// What the clients are told, in one native run.
    fn run(&self, session: &Session, args: &[String], dice: &mut Dice) -> Result<Vec<String>> {
        let mut command = Command::new(packages::command(self.program, self.package)?);
        command.args(args).current_dir(session.scratch.work());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut server = Server(command.spawn()?);
        while !test_ports::is_bound(session.port)? {
            ensure!(server.0.try_wait()?.is_none(), "the server ended");
            std::thread::sleep(Duration::from_millis(1));
        }
        let port = session.port;
        let start = |texts| -> JoinHandle<Result<String>> {
            let dice = Dice(dice.roll(u64::MAX));
            std::thread::spawn(move || talk(port, texts, dice))
        };
        let clients: Vec<_> = self.clients.into_iter().map(start).collect();
        let told = clients.into_iter().map(|client| match client.join() {
            Ok(told) => Ok((self.part)(&told?)),
            Err(_) => anyhow::bail!("a client has panicked"),
        });
        told.collect()
    }

    /// What they can be told, as a check lists it.
    fn listed(&self, tracefork: &Tracefork) -> Result<BTreeSet<Vec<String>>> {
        let sayer = peer_program("sayer")?;
        let mut session = Session::new()?.with(&["--expect-exit", "any", "--bound-preemptions", "0"]);
        let args = self.prepare(&session)?;
        for (name, [first, second]) in ["ann", "bob"].iter().zip(self.clients) {
            let (sayer, port) = (sayer.display(), session.port);
            session = session.with(&[
                "--client",
                &format!("{name}={sayer} {port} client '{first}' '{second}'"),
            ]);
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let program = packages::command(self.program, self.package)?;
        let report = session.check(tracefork, &program.display().to_string(), &args)?;
        let is_whole = report.json["coverage"]["complete_up_to_preemptions"] == 0
            || report.json["coverage"]["complete"] == true;
        ensure!(is_whole, "{}", report.said());
        let outcomes = report.json["outcomes"].as_array().context("outcomes")?;
        let told = |outcome: &Value, name: &str| {
            let said = outcome["sent"][name][0].as_str().unwrap_or_default();
            (self.part)(said)
        };
        let all = outcomes.iter();
        Ok(all
            .map(|outcome| vec![told(outcome, "ann"), told(outcome, "bob")])
            .collect())
    }
}

fn nothing_else_happens(tracefork: &Tracefork, case: &Case) -> Result<()> {
    let listed = case.listed(tracefork)?;
    ensure!(listed.len() >= case.least, "only {listed:#?}");
    let [few, many] = case.runs;
    let runs = match std::env::var_os("TRACEFORK_ALL") {
        Some(_) => many,
        None => few,
    };
    let session = Session::new()?;
    let args = case.prepare(&session)?;
    let mut seen = BTreeSet::new();
    for seed in 0..runs {
        let found = case.run(&session, &args, &mut Dice(seed))?;
        ensure!(
            listed.contains(&found),
            "run {seed} came to {found:?}; a check lists {listed:#?}"
        );
        seen.insert(found);
    }
    println!(
        "{}: {} of {} ways were met in {runs} runs",
        case.program,
        seen.len(),
        listed.len()
    );
    Ok(())
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tracefork = Tracefork::new(command_under_test!());
    let trials = CASES.iter().map(|case| {
        let name = match case.args.last() {
            Some(file) if file.ends_with("at-once.conf") => format!("{}_at_once", case.program),
            _ => case.program.to_owned(),
        };
        trial(name, &tracefork, move |tracefork| {
            nothing_else_happens(tracefork, case)
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
