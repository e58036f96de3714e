//! Peers that misbehave, and what is left of peers when their owner is gone.

mod common;
use common::*;
use peers::world::{CacheMode, Config};
use peers::{Address, PeerError, PeerSpec, PeerState, PeerWorld, Readable};
use std::time::Duration;

fn server(answer: &str) -> (Address, PeerSpec) {
    let port = free_port();
    (
        tcp(port),
        python("server", LINE_SERVER, &[&port.to_string(), answer]),
    )
}

/// Opens a connection, goes one way, goes back and goes another way, so that the first line has to be replayed.
fn diverge(world: &mut PeerWorld, address: &Address) -> Result<Vec<u8>, PeerError> {
    let mut state = PeerState::new();
    let key = world.open(&mut state, address)?.expect("listens");
    world.write(&mut state, &key, b"first\n")?;
    let fork = state.clone();
    world.write(&mut state, &key, b"left\n")?;
    let mut other = fork;
    world.write(&mut other, &key, b"right\n")?;
    world.read(&mut other, &key, 100)
}

const COUNTS_CONNECTIONS: &str = "line + b' %d\\n' % len(log)";

#[test]
fn a_peer_that_is_not_deterministic_is_shown_side_by_side() {
    let (address, spec) = server(COUNTS_CONNECTIONS);
    let mut world = PeerWorld::new(Config {
        servers: vec![spec],
        ..config(CacheMode::Branching)
    })
    .expect("server");
    let error = diverge(&mut world, &address).expect_err("the count differs");
    let PeerError::NonDeterministic {
        connection, after, ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(
        (connection.as_str(), after.as_str()),
        (address.to_string().as_str(), "first\\n")
    );
    let text = error.to_string();
    assert!(text.contains(r#"after "first\n", it answers"#), "{text}");
    assert!(
        text.contains("≠ first 1\\n") && text.contains("| first 2\\n"),
        "{text}"
    );
}

#[test]
fn if_allowed_the_first_answer_is_kept() {
    let (address, spec) = server(COUNTS_CONNECTIONS);
    let world = PeerWorld::new(Config {
        servers: vec![spec],
        allow_nondeterministic: true,
        ..config(CacheMode::Branching)
    });
    let mut world = world.expect("server");
    assert_eq!(
        diverge(&mut world, &address).expect("allowed"),
        b"first 1\nright 2\n"
    );
    assert!(world.is_partial());
}

#[test]
fn a_server_that_dies_is_reported_with_its_last_words() {
    let (address, spec) = server("(print('cannot go on', flush=True), __import__('os')._exit(3))");
    let mut world = PeerWorld::new(Config {
        servers: vec![spec],
        ..config(CacheMode::Branching)
    })
    .expect("server");
    let mut state = PeerState::new();
    let key = world.open(&mut state, &address).expect("up").expect("listens");
    let told = world.write(&mut state, &key, b"x\n");
    let Err(error) = told else {
        panic!("it dies: {world:#?}");
    };
    assert!(matches!(error, PeerError::Died { status: 3, .. }), "{error}");
    assert!(error.to_string().contains("cannot go on"), "{error}");
}

#[test]
fn a_server_that_does_not_start_or_listen_is_reported() {
    for (command, expected) in [
        ("sh -c 'echo no config; exit 4'", "no config"),
        ("/does/not/exist", "/does/not/exist"),
    ] {
        let servers = vec![PeerSpec::parse(command).expect("command")];
        let error = PeerWorld::new(Config {
            servers,
            ..config(CacheMode::Branching)
        })
        .expect_err("does not come up");
        assert!(matches!(error, PeerError::Start { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let servers = vec![PeerSpec::parse("sleep 1000").expect("command")];
    let start_bound = Duration::from_millis(50);
    let error = PeerWorld::new(Config {
        servers,
        start_bound,
        ..config(CacheMode::Branching)
    })
    .expect_err("does not listen");
    assert!(error.to_string().contains("has not listened"), "{error}");
}

#[test]
fn nobody_listens() {
    let mut world = PeerWorld::new(config(CacheMode::Branching)).expect("world");
    let address = tcp(free_port());
    for _ in 0..2 {
        let mut state = PeerState::new();
        let opened = world.open(&mut state, &address).expect("not an error of a peer");
        assert_eq!(opened, Err(libc::ECONNREFUSED));
    }
    assert_eq!(world.counters().physical_connections, 0);
}

#[test]
fn where_no_way_leads_is_an_answer_too() {
    let mut world = PeerWorld::new(Config {
        allowed: vec![peers::Allowed::parse("[fe80::1]:80").expect("an address")],
        ..config(CacheMode::Branching)
    })
    .expect("world");
    // A link-local address without a link: no packet is sent for it.
    let address = Address::Tcp(([0xfe80, 0, 0, 0, 0, 0, 0, 1], 80).into());
    let opened = world.open(&mut PeerState::new(), &address);
    assert_eq!(opened.expect("not an error of a peer"), Err(libc::EINVAL));
    // It is kept, so that it is the same without a network.
    let saved = world.to_bytes().expect("encoded");
    let mut offline = PeerWorld::new(Config {
        offline: true,
        ..config(CacheMode::Branching)
    })
    .expect("world");
    offline.load_bytes(&saved).expect("decoded");
    let opened = offline.open(&mut PeerState::new(), &address);
    assert_eq!(opened.expect("known"), Err(libc::EINVAL));
}

/// Takes the next connection when the one that it has is closed.
const ONE_AT_A_TIME: &str = r#"
import socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    conn, _ = server.accept()
    conn.sendall(b"hello\n")
    for line in conn.makefile("rb"): conn.sendall(b"you said " + line)
    conn.close()
"#;

#[test]
fn a_server_that_serves_one_at_a_time_serves_all() {
    let port = free_port();
    for mode in [CacheMode::Branching, CacheMode::Off] {
        let mut world = PeerWorld::new(Config {
            servers: vec![python("server", ONE_AT_A_TIME, &[&port.to_string()])],
            ..config(mode)
        })
        .expect("server");
        let mut state = PeerState::new();
        let first = world.open(&mut state, &tcp(port)).expect("up").expect("listens");
        world.write(&mut state, &first, b"one\n").expect("told");
        assert_eq!(
            world.read(&mut state, &first, 100).expect("up"),
            b"hello\nyou said one\n"
        );
        assert_eq!(world.limited().count(), 0);
        let both_open = state.clone();
        world.close(&mut state, &first).expect("open");
        // The server still has the first connection, which may be needed again, and must not be kept by it.
        let second = world.open(&mut state, &tcp(port)).expect("up").expect("listens");
        world.write(&mut state, &second, b"two\n").expect("told");
        assert_eq!(
            world.read(&mut state, &second, 100).expect("up"),
            b"hello\nyou said two\n"
        );
        assert_eq!(world.limited().collect::<Vec<_>>(), [(&tcp(port), 1)]);
        // And back to the first one.
        let mut state = both_open;
        world.backtracked(&state).expect("up");
        world.write(&mut state, &first, b"three\n").expect("told");
        assert_eq!(
            world.read(&mut state, &first, 100).expect("up"),
            b"you said three\n"
        );
    }
}

/// Whether the second is known from a schedule in which it was the only one, or not: as long as the first is open it gets no answer.
#[test]
fn a_connection_waits_until_the_server_is_done_with_the_one_before() {
    let port = free_port();
    for (mode, known) in [
        (CacheMode::Branching, false),
        (CacheMode::Branching, true),
        (CacheMode::Off, true),
    ] {
        let mut world = PeerWorld::new(Config {
            servers: vec![python("server", ONE_AT_A_TIME, &[&port.to_string()])],
            ..config(mode)
        })
        .expect("server");
        let mut begun = PeerState::new();
        let first = world.open(&mut begun, &tcp(port)).expect("up").expect("listens");
        if known {
            let mut state = begun.clone();
            world.close(&mut state, &first).expect("open");
            world.retain(&[]);
            let second = world.open(&mut state, &tcp(port)).expect("up").expect("listens");
            assert_eq!(world.read(&mut state, &second, 100).expect("up"), b"hello\n");
            assert_eq!(world.limited().count(), 0, "nobody was in its way");
            world.backtracked(&begun).expect("up");
        }
        let mut state = begun;
        let second = world.open(&mut state, &tcp(port)).expect("up").expect("listens");
        assert_eq!(world.readable(&state, &second).expect("up"), Readable::Held);
        assert_eq!(world.limited().collect::<Vec<_>>(), [(&tcp(port), 1)]);
        let kept = world.to_bytes().expect("encodes");
        // Both ways to end the first: the server takes notice of either.
        let mut closed = state.clone();
        world.close(&mut closed, &first).expect("open");
        assert_eq!(world.read(&mut closed, &second, 100).expect("up"), b"hello\n");
        world.fin(&mut state, &first).expect("open");
        assert_eq!(world.read(&mut state, &second, 100).expect("up"), b"hello\n");
        // And it is the same from a file.
        let mut offline = PeerWorld::new(Config {
            offline: true,
            ..config(CacheMode::Branching)
        })
        .expect("no peers");
        offline.load_bytes(&kept).expect("as written");
        let mut state = PeerState::new();
        let first = offline
            .open(&mut state, &tcp(port))
            .expect("known")
            .expect("listens");
        let second = offline
            .open(&mut state, &tcp(port))
            .expect("known")
            .expect("listens");
        assert_eq!(offline.readable(&state, &second).expect("known"), Readable::Held);
        offline.close(&mut state, &first).expect("open");
        assert_eq!(
            offline.readable(&state, &second).expect("known"),
            Readable::Data(6)
        );
    }
}

/// What a client sees of the end of its connection: an end, or that it was broken off.
const SEES_THE_END: &str = r#"
import os, socket, sys
conn = socket.create_connection(("127.0.0.1", int(os.environ["TRACEFORK_PORT"])))
conn.sendall(b"hello\n")
try: sys.exit(0 if conn.recv(100) == b"" else 2)
except ConnectionResetError: sys.exit(3)
"#;

#[test]
fn a_client_is_told_an_end_or_a_reset() {
    let (mut world, mut state, address) = served(vec![python("client", SEES_THE_END, &[])]);
    let key = world.accept(&mut state, &address).expect("up").expect("came");
    let mut ended = state.clone();
    world.close(&mut ended, &key).expect("open");
    assert_eq!(world.client_exit(&ended, 0).expect("up"), Some(0));
    world.reset(&mut state, &key).expect("open");
    assert_eq!(world.client_exit(&state, 0).expect("up"), Some(3));
    let text: Vec<String> = world.trees().map(|(_, tree)| tree.render_text()).collect();
    assert!(
        text[0].contains("<reset>") && text[0].contains("<close>"),
        "{}",
        text[0]
    );
}

#[test]
fn a_client_that_ends_before_it_connects_is_reported() {
    for (command, expected) in [
        (
            "sh -c 'echo no config; exit 4'",
            "exit status 4 before it connected; its last output:\nno config",
        ),
        ("/does/not/exist", "/does/not/exist"),
        ("true", "exit status 0 before it connected"),
        ("sh -c 'kill -9 $$'", "killed by signal 9 before it connected"),
    ] {
        let clients = vec![PeerSpec::parse(command).expect("command")];
        let (mut world, mut state, address) = served(clients);
        let error = world.accept(&mut state, &address).expect_err("nobody comes");
        assert!(matches!(error, PeerError::Start { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{command}: {error}");
    }
}

#[test]
fn a_server_that_computes_for_ever_hangs() {
    let (address, spec) = server("[x for x in iter(int, 1)]");
    let hang_bound = Duration::from_millis(300);
    let mut world = PeerWorld::new(Config {
        servers: vec![spec],
        hang_bound,
        ..config(CacheMode::Branching)
    })
    .expect("server");
    let mut state = PeerState::new();
    let key = world.open(&mut state, &address).expect("up").expect("listens");
    let error = world.write(&mut state, &key, b"x\n").expect_err("it hangs");
    assert!(matches!(error, PeerError::Hangs { .. }), "{error}");
}

#[test]
fn a_server_that_never_stops_talking_floods() {
    let (address, spec) = server("[conn.sendall(b'more and ' * 1000) for x in iter(int, 1)]");
    let mut world = PeerWorld::new(Config {
        servers: vec![spec],
        flood_limit: 1 << 20,
        ..config(CacheMode::Branching)
    })
    .expect("server");
    let mut state = PeerState::new();
    let key = world.open(&mut state, &address).expect("up").expect("listens");
    let error = world.write(&mut state, &key, b"x\n").expect_err("it floods");
    assert!(matches!(error, PeerError::Floods { .. }), "{error}");
    assert!(error.to_string().contains("more and"), "{error}");
}

#[test]
fn a_server_that_answers_from_another_port_is_reported() {
    let server = r#"
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("127.0.0.1", int(sys.argv[1])))
while True:
    d, a = s.recvfrom(100)
    other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); other.bind(("127.0.0.1", 0)); other.sendto(d, a)
"#;
    let port = free_port();
    let mut world = PeerWorld::new(Config {
        servers: vec![python("server", server, &[&port.to_string()])],
        ..config(CacheMode::Branching)
    })
    .expect("server");
    let mut state = PeerState::new();
    let address = Address::Udp(([127, 0, 0, 1], port).into());
    let key = world
        .open(&mut state, &address)
        .expect("opens")
        .expect("is there");
    let said = world.write(&mut state, &key, b"anybody");
    let error = said
        .and_then(|()| world.readable(&state, &key))
        .expect_err("the answer is lost");
    assert!(
        matches!(&error, PeerError::AnswersFromElsewhere { from, .. } if from.port() != port),
        "{error}"
    );
}

#[test]
fn a_server_that_closes_or_resets_is_heard() {
    let (address, spec) = server("conn.close() or b''");
    let mut world = PeerWorld::new(Config {
        servers: vec![spec],
        ..config(CacheMode::Branching)
    })
    .expect("server");
    let mut state = PeerState::new();
    let key = world.open(&mut state, &address).expect("up").expect("listens");
    world.write(&mut state, &key, b"x\n").expect("told");
    assert_eq!(world.readable(&state, &key).expect("polled"), Readable::Eof);

    let linger = "(conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, __import__('struct').pack('ii', 1, 0)), conn.close(), b'')[2]";
    let (address, spec) = server(linger);
    let mut world = PeerWorld::new(Config {
        servers: vec![spec],
        ..config(CacheMode::Branching)
    })
    .expect("server");
    let mut state = PeerState::new();
    let key = world.open(&mut state, &address).expect("up").expect("listens");
    world.write(&mut state, &key, b"x\n").expect("told");
    assert_eq!(world.readable(&state, &key).expect("polled"), Readable::Reset);
}

/// A server that hides: it daemonises, so that neither its parent nor its process group is the one that was started.
const DAEMON: &str = r#"
import os, socket, sys, time
if os.fork(): time.sleep(1000)
os.setsid()
if os.fork(): os._exit(0)
s = socket.create_server(("127.0.0.1", int(sys.argv[1])))
open(sys.argv[2], "w").write(str(os.getpid()))
while True: s.accept()
"#;

const OWNER_PORT: &str = "PEERS_TEST_OWNER_PORT";
const OWNER_FILE: &str = "PEERS_TEST_OWNER_FILE";

/// Not a test of its own: what the next test starts as another process, in which it owns a world until it is killed.
#[test]
fn owner_until_killed() {
    let (Ok(port), Ok(file)) = (std::env::var(OWNER_PORT), std::env::var(OWNER_FILE)) else {
        return;
    };
    let servers = vec![python("daemon", DAEMON, &[&port, &file])];
    let _world = PeerWorld::new(Config {
        servers,
        ..config(CacheMode::Branching)
    })
    .expect("server");
    println!("ready");
    loop {
        std::thread::park();
    }
}

fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn wait_until_gone(pid: i32) {
    while is_alive(pid) {
        std::thread::yield_now();
    }
}

#[test]
fn when_the_owner_is_killed_no_peer_is_left() {
    use std::io::{BufRead, BufReader};
    let dir = tempfile::tempdir().expect("directory");
    let file = dir.path().join("pid");
    let mut owner = std::process::Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "owner_until_killed", "--nocapture"])
        .env(OWNER_PORT, free_port().to_string())
        .env(OWNER_FILE, &file)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("owner");
    let output = BufReader::new(owner.stdout.take().expect("piped"));
    assert!(
        output
            .lines()
            .map_while(Result::ok)
            .any(|line| line.contains("ready")),
        "the owner has its server"
    );
    let pid: i32 = std::fs::read_to_string(&file)
        .expect("pid file")
        .parse()
        .expect("pid");
    assert!(is_alive(pid));
    owner.kill().expect("SIGKILL");
    owner.wait().expect("reaped");
    wait_until_gone(pid);
}

#[test]
fn when_the_world_is_dropped_no_peer_is_left() {
    let dir = tempfile::tempdir().expect("directory");
    let file = dir.path().join("pid");
    let servers = vec![python(
        "daemon",
        DAEMON,
        &[&free_port().to_string(), &file.display().to_string()],
    )];
    let world = PeerWorld::new(Config {
        servers,
        ..config(CacheMode::Branching)
    })
    .expect("server");
    let pid: i32 = std::fs::read_to_string(&file)
        .expect("pid file")
        .parse()
        .expect("pid");
    assert!(is_alive(pid));
    drop(world);
    assert!(!is_alive(pid), "gone when drop returns, not some time later");
}

#[test]
fn a_world_may_move_to_another_thread() {
    fn movable<T: Send>() {}
    movable::<PeerWorld>();
    movable::<PeerState>();
}
