//! Real networked programs of Debian, explored with real peers: to the end where that is within reach, within a limit where it is not.
//! What comes of each, and why, is in `docs/networked-programs.md`.

use std::fs;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use libtest_mimic::Arguments;
use tracefork_tests::directives::End;
use tracefork_tests::networked::{Session, free_port, trial};
use tracefork_tests::supervised::Tracefork;
use tracefork_tests::{command_under_test, packages};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tracefork = Tracefork::new(command_under_test!());
    let trials = REAL
        .iter()
        .map(|real| trial(real.name.to_owned(), &tracefork, |t| explore_real(t, real)));
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// A program of Debian, explored within a limit.
struct Real {
    name: &'static str,
    package: &'static str,
    /// `{port}`, `{root}` (a directory with a small page) and `{second}` (another port) are replaced everywhere.
    args: &'static [&'static str],
    server: Option<&'static str>,
    clients: &'static [&'static str],
    states: &'static str,
    /// Must be in what some peer was sent, or in the program's output.
    expect: &'static str,
}

const WEB: &str = "python3 -m http.server -d {root} {port}";

const REAL: &[Real] = &[
    Real {
        name: "curl",
        package: "curl",
        args: &["-s", "http://localhost:{port}/page.txt"],
        server: Some(WEB),
        clients: &[],
        states: "2000",
        expect: "a small page",
    },
    Real {
        name: "wget",
        package: "wget",
        args: &["-q", "-O", "-", "http://127.0.0.1:{port}/page.txt"],
        server: Some(WEB),
        clients: &[],
        states: "2000",
        expect: "a small page",
    },
    Real {
        name: "nc",
        package: "netcat-openbsd",
        args: &["-z", "127.0.0.1", "{port}"],
        server: Some(WEB),
        clients: &[],
        states: "2000",
        expect: "127.0.0.1",
    },
    Real {
        name: "axel",
        package: "axel",
        args: &["-n", "2", "-o", "{root}/got", "http://127.0.0.1:{port}/page.txt"],
        server: Some(WEB),
        clients: &[],
        states: "2000",
        expect: "GET /page.txt",
    },
    Real {
        name: "tinyproxy",
        package: "tinyproxy-bin",
        args: &["-d", "-c", "{root}/tinyproxy.conf"],
        server: Some("python3 -m http.server -d {root} {second}"),
        clients: &["2*curl -s -x http://127.0.0.1:{port} http://127.0.0.1:{second}/page.txt"],
        states: "1500",
        expect: "a small page",
    },
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
        server: None,
        clients: &["2*curl -s http://127.0.0.1:{port}/page.txt"],
        states: "1500",
        expect: "a small page",
    },
    Real {
        name: "webfsd",
        package: "webfs",
        args: &["-F", "-p", "{port}", "-r", "{root}"],
        server: None,
        clients: &["2*curl -s http://127.0.0.1:{port}/page.txt"],
        states: "1000",
        expect: "a small page",
    },
    Real {
        name: "lighttpd",
        package: "lighttpd",
        args: &["-D", "-f", "{root}/lighttpd.conf"],
        server: None,
        clients: &["2*curl -s http://127.0.0.1:{port}/page.txt"],
        states: "1000",
        expect: "a small page",
    },
    Real {
        name: "ngircd",
        package: "ngircd",
        args: &["-n", "-f", "{root}/ngircd.conf"],
        server: None,
        clients: &["2*nc -N 127.0.0.1 {port} < {root}/ngircd.txt"],
        states: "1000",
        expect: "Nickname already in use",
    },
    Real {
        name: "dnsmasq",
        package: "dnsmasq-base",
        args: &[
            "-k",
            "-C",
            "/dev/null",
            "-p",
            "{port}",
            "--no-resolv",
            "--no-hosts",
            "--address=/b.example/10.0.0.2",
            "--user=root",
        ],
        server: None,
        clients: &["2*nc -u -W 1 127.0.0.1 {port} < {root}/query"],
        states: "1000",
        expect: "example",
    },
    Real {
        name: "beanstalkd",
        package: "beanstalkd",
        args: &["-l", "127.0.0.1", "-p", "{port}"],
        server: None,
        clients: &["2*nc -N 127.0.0.1 {port} < {root}/beanstalkd.txt"],
        states: "1000",
        expect: "RESERVED",
    },
    Real {
        name: "redis-server",
        package: "redis-server",
        args: &["--port", "{port}", "--bind", "127.0.0.1", "--save", ""],
        server: None,
        clients: &["nc -N 127.0.0.1 {port} < {root}/redis.txt"],
        states: "1500",
        expect: "+OK\\r\\n:2",
    },
    Real {
        name: "memcached",
        package: "memcached",
        // Without its maintainers, who wake up for ever.
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
        server: None,
        clients: &["2*nc -N 127.0.0.1 {port} < {root}/memcached.txt"],
        states: "2000",
        expect: "STORED",
    },
    Real {
        name: "iperf",
        package: "iperf",
        args: &["-s", "-p", "{port}"],
        server: None,
        clients: &["iperf -c 127.0.0.1 -p {port} -n 1K"],
        states: "5000",
        expect: "1.00 KBytes",
    },
];

fn explore_real(tracefork: &Tracefork, real: &Real) -> Result<()> {
    packages::command("curl", "curl")?;
    packages::command("nc", "netcat-openbsd")?;
    let program = packages::command(real.name, real.package)?;
    let mut session = Session::new()?;
    let root = session.root()?;
    let second = free_port()?.to_string();
    let port = session.port.to_string();
    let configuration = format!("Port {port}\nListen 127.0.0.1\nTimeout 60\nMaxClients 2\nAllow 127.0.0.1\n");
    let lighttpd = format!(
        "server.document-root = \"{}\"\nserver.bind = \"127.0.0.1\"\nserver.port = {port}\n",
        root.display()
    );
    let ngircd = format!(
        "[Global]\nName = irc.example.net\nInfo = test\nListen = 127.0.0.1\nPorts = {port}\nServerUID = root\nServerGID = root\n\
         [Options]\nDNS = no\nIdent = no\nPAM = no\n"
    );
    for (name, text) in [
        ("tinyproxy.conf", configuration.as_str()),
        ("lighttpd.conf", lighttpd.as_str()),
        ("ngircd.conf", ngircd.as_str()),
        ("ngircd.txt", "NICK a\r\nUSER a 0 * :a\r\nQUIT\r\n"),
        (
            "query",
            "12\x01\0\0\x01\0\0\0\0\0\0\x01b\x07example\0\0\x01\0\x01",
        ),
        ("beanstalkd.txt", "put 0 0 10 5\r\nhello\r\nreserve\r\n"),
        ("redis.txt", "SET a 1\r\nINCR a\r\nQUIT\r\n"),
        ("memcached.txt", "set a 0 0 1\r\n1\r\nget a\r\nquit\r\n"),
    ] {
        fs::write(root.join(name), text)?;
    }
    let fill = |text: &str| {
        text.replace("{port}", &port)
            .replace("{second}", &second)
            .replace("{root}", &root.display().to_string())
    };
    if let Some(server) = real.server {
        session = session.server(&fill(server));
    }
    for client in real.clients {
        session = session.with(&["--client", &fill(client)]);
    }
    session = session.with(&["--max-states", real.states]);
    let args: Vec<String> = real.args.iter().map(|arg| fill(arg)).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = session.check(tracefork, &program.display().to_string(), &args)?;
    let end = result.finished.end;
    ensure!(matches!(end, End::Exit(0 | 3)), "{end:?}:\n{}", result.said());
    let outcomes = result.json["outcomes"].to_string();
    ensure!(outcomes.contains(real.expect), "{}", result.said());
    Ok(())
}
