//! Real programs at the other end: what they see, and what the SUT sees of them.

mod common;
use common::*;
use peers::world::{CacheMode, Config};
use peers::{Address, ConnKey, PeerError, PeerSpec, PeerState, PeerWorld, Readable};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::time::Duration;

fn line_server(answer: &str, log: Option<&std::path::Path>) -> (Address, PeerSpec) {
    let port = free_port();
    let mut args = vec![port.to_string(), answer.to_string()];
    args.extend(log.map(|l| l.display().to_string()));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    (tcp(port), python("line-server", LINE_SERVER, &args))
}

fn world_with(server: PeerSpec, mode: CacheMode) -> PeerWorld {
    PeerWorld::new(Config {
        servers: vec![server],
        ..config(mode)
    })
    .expect("server starts")
}

fn open(world: &mut PeerWorld, state: &mut PeerState, address: &Address) -> ConnKey {
    world
        .open(state, address)
        .expect("no peer fails")
        .expect("somebody listens")
}

fn read_all(world: &mut PeerWorld, state: &mut PeerState, key: &ConnKey) -> Vec<u8> {
    world.read(state, key, 1 << 20).expect("no peer fails")
}

/// What a random SUT does in one execution: on one connection, some writes, each followed by a read or not.
type Execution = Vec<(Vec<u8>, bool)>;

fn executions() -> impl Strategy<Value = Vec<Execution>> {
    let data = proptest::collection::vec(prop_oneof![Just(b'1'), Just(b'2'), Just(b'\n')], 1..4);
    proptest::collection::vec(proptest::collection::vec((data, any::<bool>()), 1..5), 1..6)
}

/// Runs all executions, and returns what each of them read.
fn run(
    world: &mut PeerWorld,
    address: &Address,
    executions: &[Execution],
) -> Result<Vec<Vec<Vec<u8>>>, PeerError> {
    let mut all = Vec::new();
    for execution in executions {
        let mut state = PeerState::new();
        world.backtracked(&state)?;
        let key = world.open(&mut state, address)?.expect("listens");
        let mut reads = Vec::new();
        for (data, reads_now) in execution {
            world.write(&mut state, &key, data)?;
            if *reads_now {
                reads.push(world.read(&mut state, &key, 1000)?);
            }
        }
        reads.push(world.read(&mut state, &key, 1000)?);
        all.push(reads);
    }
    Ok(all)
}

proptest! {
    #![proptest_config(test_seeds::property(12))]
    #[test]
    fn modes_agree_and_the_peer_is_told_nothing_twice(executions in executions()) {
        let dir = tempfile::tempdir().expect("directory");
        let log = dir.path().join("log");
        // The answer depends on all that was said: the length so far, and the line.
        let (address, server) = line_server("b'%d:%s;' % (len(log[me]) - len(pending), line)", Some(&log));
        let mut branching = world_with(server, CacheMode::Branching);
        let got = run(&mut branching, &address, &executions).expect("deterministic");

        // The connections that were made are those that had to be, and each was told just what it had to be.
        let text = std::fs::read_to_string(&log).expect("log");
        let heard: Vec<&str> = text.split('\n').collect();
        let (_, tree) = branching.trees().next().expect("one tree");
        prop_assert_eq!(heard.len() as u64, branching.counters().physical_connections);
        prop_assert!(heard.len() >= tree.leaves());
        let mut heard: Vec<String> = heard.into_iter().map(String::from).collect();
        heard.sort();
        let (connections, reads) = needed(&executions);
        prop_assert_eq!(heard, connections);

        prop_assert_eq!(&got, &reads);

        // A second time nothing is said at all.
        let before = branching.counters();
        prop_assert_eq!(run(&mut branching, &address, &executions).expect("deterministic"), got.clone());
        let after = branching.counters();
        prop_assert_eq!((after.misses, after.physical_connections), (before.misses, before.physical_connections));
        prop_assert_eq!(std::fs::read_to_string(&log).expect("log"), text.clone());

        let (address, server) = line_server("b'%d:%s;' % (len(log[me]) - len(pending), line)", None);
        let mut off = world_with(server, CacheMode::Off);
        prop_assert_eq!(run(&mut off, &address, &executions).expect("deterministic"), got);
    }
}

/// The line server's answer, as a function of all that it was told.
fn answer(text: &[u8]) -> Vec<u8> {
    let ends = text
        .iter()
        .enumerate()
        .filter(|(_, b)| **b == b'\n')
        .map(|(i, _)| i);
    let mut start = 0;
    let mut all = Vec::new();
    for end in ends {
        all.extend(format!("{}:{};", end + 1, String::from_utf8_lossy(&text[start..end])).into_bytes());
        start = end + 1;
    }
    all
}

/// What the peer must be told, on how many connections, by a model that knows nothing of trees.
#[derive(Default)]
struct Needed {
    told: Vec<Vec<u8>>,
    known: BTreeSet<Vec<u8>>,
    polled: BTreeSet<Vec<u8>>,
}

impl Needed {
    /// A connection that stands on the way to `from` is taken to `to`, the furthest one if there are several.
    fn ask(&mut self, from: &[u8], to: &[u8]) {
        let on_the_way = |(_, told): &(usize, &Vec<u8>)| from.starts_with(told);
        if let Some((best, _)) = self
            .told
            .iter()
            .enumerate()
            .filter(on_the_way)
            .max_by_key(|(_, told)| told.len())
        {
            self.told.remove(best);
        }
        self.told.push(to.to_vec());
        self.polled.insert(to.to_vec());
    }

    /// A read needs the peer if nobody has asked at this point.
    fn read(&mut self, text: &[u8], read: &mut usize) -> Vec<u8> {
        if !self.polled.contains(text) {
            self.ask(text, text);
        }
        let data = answer(text)[*read..].to_vec();
        *read += data.len();
        data
    }
}

/// The connections that the executions need, and what they read.
fn needed(executions: &[Execution]) -> (Vec<String>, Vec<Vec<Vec<u8>>>) {
    let mut needed = Needed::default();
    let mut all = Vec::new();
    needed.ask(b"", b"");
    for execution in executions {
        let (mut text, mut read, mut reads) = (Vec::new(), 0, Vec::new());
        for (data, reads_now) in execution {
            let from = text.clone();
            text.extend(data);
            if !needed.known.iter().any(|known| known.starts_with(&text)) {
                needed.ask(&from, &text);
                needed.known.insert(text.clone());
            }
            if *reads_now {
                reads.push(needed.read(&text, &mut read));
            }
        }
        reads.push(needed.read(&text, &mut read));
        all.push(reads);
    }
    needed.told.sort();
    (needed.told.iter().map(|told| hex(told)).collect(), all)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn a_write_cut_differently_finds_the_same_place() {
    let (address, server) = line_server("line.upper() + b'!'", None);
    let mut world = world_with(server, CacheMode::Branching);
    let start = PeerState::new();
    let mut whole = start.clone();
    let key = open(&mut world, &mut whole, &address);
    let opened = whole.clone();
    world.write(&mut whole, &key, b"ab\ncd\n").expect("miss");
    let mut cut = opened.clone();
    world.write(&mut cut, &key, b"ab\n").expect("hit");
    // Nothing of the second answer shows before the second request.
    let mut early = cut.clone();
    assert_eq!(read_all(&mut world, &mut early, &key), b"AB!");
    world.write(&mut cut, &key, b"cd\n").expect("hit");
    assert_eq!(cut.id(), whole.id());
    assert_eq!(read_all(&mut world, &mut cut, &key), b"AB!CD!");
    assert_eq!(read_all(&mut world, &mut whole, &key), b"AB!CD!");
    assert_eq!((world.counters().hits, world.counters().misses), (2, 1));
    // Two: the one at the end, and the one that was asked in the middle.
    assert_eq!(world.counters().physical_connections, 2);
}

#[test]
fn few_physical_connections_are_enough() {
    let (address, server) = line_server("line + b'.'", None);
    let mut world = PeerWorld::new(Config {
        servers: vec![server],
        max_physical: 1,
        ..config(CacheMode::Branching)
    })
    .expect("server");
    let mut opened = PeerState::new();
    let keys = [
        open(&mut world, &mut opened, &address),
        open(&mut world, &mut opened, &address),
    ];
    for round in 0..3 {
        let mut state = opened.clone();
        for key in &keys {
            world
                .write(&mut state, key, format!("{round}\n").as_bytes())
                .expect("replayed");
            world.write(&mut state, key, b"z\n").expect("replayed");
        }
        for key in &keys {
            assert_eq!(
                read_all(&mut world, &mut state, key),
                format!("{round}.z.").as_bytes()
            );
        }
        assert_eq!(world.physical_now(), 1);
    }
    assert!(world.counters().physical_connections >= 6);
}

#[test]
fn what_no_unexplored_state_needs_is_closed() {
    let (address, spec) = line_server("line + b'\\n'", None);
    let mut world = world_with(spec, CacheMode::Branching);
    let mut left = PeerState::new();
    let key = open(&mut world, &mut left, &address);
    world.write(&mut left, &key, b"both\n").expect("told");
    let (fork, mut right) = (left.clone(), left.clone());
    world.write(&mut left, &key, b"left\n").expect("told");
    world.write(&mut right, &key, b"right\n").expect("told");
    assert_eq!(world.physical_now(), 2);
    for state in [&left, &fork, &right] {
        world.will_go_on_from(state);
    }
    drop(right);
    world.tidy();
    assert_eq!(world.physical_now(), 2, "from the fork one may come there again");
    drop(fork);
    // Something new, or nothing is looked for.
    let mut other = PeerState::new();
    open(&mut world, &mut other, &address);
    world.write(&mut other, &key, b"other\n").expect("told");
    world.write(&mut left, &key, b"more\n").expect("told");
    world.will_go_on_from(&left);
    world.tidy();
    assert_eq!(world.physical_now(), 1, "only where the left one stands");
    world.write(&mut left, &key, b"and more\n").expect("told");
    assert_eq!(world.counters().physical_connections, 3);
}

#[test]
fn shared_trees_serve_every_connection() {
    let (address, server) = line_server("line + b'.'", None);
    let mut world = PeerWorld::new(Config {
        servers: vec![server],
        share_trees: true,
        ..config(CacheMode::Branching)
    })
    .expect("server");
    let mut state = PeerState::new();
    for _ in 0..3 {
        let key = open(&mut world, &mut state, &address);
        world.write(&mut state, &key, b"q\n").expect("served");
        assert_eq!(read_all(&mut world, &mut state, &key), b"q.");
    }
    assert_eq!(
        (
            world.counters().physical_connections,
            world.counters().misses,
            world.counters().hits
        ),
        (1, 1, 2)
    );
}

#[test]
fn a_server_that_sleeps_before_it_answers_is_waited_for() {
    let (address, server) = line_server("(__import__('time').sleep(0.3), b'slow')[1]", None);
    let mut world = world_with(server, CacheMode::Branching);
    let mut state = PeerState::new();
    let key = open(&mut world, &mut state, &address);
    world.write(&mut state, &key, b"x\n").expect("miss");
    assert_eq!(read_all(&mut world, &mut state, &key), b"slow");
    assert_eq!(world.counters().late_answers, 0);
}

#[test]
fn a_late_answer_is_kept_counted_and_found_again() {
    use std::io::{Read, Write};
    // A server inside this process cannot be inspected, like one on another machine. It answers when it is told to.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = Address::Tcp(listener.local_addr().expect("address"));
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let server = std::thread::spawn(move || {
        let (mut conn, _) = listener.accept().expect("accept");
        conn.read_exact(&mut [0; 1]).expect("request");
        wait.recv().expect("told to answer");
        conn.write_all(b"late").expect("answer");
        // Until the other side is done.
        let _ = conn.read(&mut [0; 1]);
    });
    let mut world = PeerWorld::new(Config {
        settle: Duration::from_millis(5),
        allowed: vec![peers::Allowed::parse(&address.to_string()).expect("an address")],
        ..config(CacheMode::Branching)
    })
    .expect("world");
    let mut state = PeerState::new();
    let key = open(&mut world, &mut state, &address);
    let before = state.clone();
    world.write(&mut state, &key, b"q").expect("miss");
    assert_eq!(world.readable(&state, &key).expect("polled"), Readable::Nothing);
    go.send(()).expect("server lives");
    assert!(
        world
            .poll_again(&state, Duration::from_secs(60), Duration::ZERO)
            .expect("no peer fails")
    );
    assert_eq!(
        world.readable(&before, &key).expect("polled"),
        Readable::Nothing,
        "not before its request"
    );
    assert_eq!(read_all(&mut world, &mut state, &key), b"late");
    assert_eq!(world.counters().late_answers, 1);
    drop(world);
    server.join().expect("server");
}

#[test]
fn unix_and_datagram_servers() {
    let dir = tempfile::tempdir().expect("directory");
    let path = dir.path().join("socket");
    let unix = r#"
import socket, sys
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen()
while True:
    c, _ = s.accept()
    while d := c.recv(100): c.sendall(d.upper())
    c.close()
"#;
    let udp = r#"
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("127.0.0.1", int(sys.argv[1])))
while True:
    d, a = s.recvfrom(100)
    for word in d.split(): s.sendto(word, a)
"#;
    let port = free_port();
    let servers = vec![
        python("unix", unix, &[&path.display().to_string()]),
        python("udp", udp, &[&port.to_string()]),
    ];
    let mut world = PeerWorld::new(Config {
        servers,
        ..config(CacheMode::Branching)
    })
    .expect("servers");
    let mut state = PeerState::new();
    let stream = open(
        &mut world,
        &mut state,
        &Address::Unix(path.display().to_string().into_bytes()),
    );
    world.write(&mut state, &stream, b"abc").expect("miss");
    assert_eq!(read_all(&mut world, &mut state, &stream), b"ABC");
    world.fin(&mut state, &stream).expect("open");
    assert_eq!(world.readable(&state, &stream).expect("polled"), Readable::Eof);

    let packets = open(
        &mut world,
        &mut state,
        &Address::Udp(([127, 0, 0, 1], port).into()),
    );
    let before = state.clone();
    world.write(&mut state, &packets, b"one two").expect("miss");
    assert_eq!(
        world.readable(&state, &packets).expect("polled"),
        Readable::Data(2)
    );
    assert_eq!(read_all(&mut world, &mut state, &packets), b"one");
    assert_eq!(read_all(&mut world, &mut state, &packets), b"two");
    let mut again = before;
    world.write(&mut again, &packets, b"one two").expect("hit");
    assert_eq!(read_all(&mut world, &mut again, &packets), b"one");
    assert_eq!((world.counters().hits, world.counters().misses), (1, 2));
}

fn listen(world: &mut PeerWorld) -> (PeerState, Address) {
    let mut state = PeerState::new();
    let address = world.bind(&mut state, &tcp(0)).expect("bind");
    let mut again = PeerState::new();
    assert_eq!(
        world.bind(&mut again, &tcp(0)).expect("bind"),
        address,
        "the same port every time"
    );
    world.listen(&mut state, &address);
    (state, address)
}

#[test]
fn curl_opens_its_second_connection_when_the_first_is_closed() {
    test_packages::command("curl", "curl").expect("curl");
    let url = "http://127.0.0.1:{port}";
    let client = PeerSpec::parse(&format!(
        "curl -s -f --max-time 60 -H 'Connection: close' {url}/a {url}/b"
    ))
    .expect("command");
    let mut world = PeerWorld::new(Config {
        clients: vec![client],
        ..config(CacheMode::Branching)
    })
    .expect("world");
    let (mut state, address) = listen(&mut world);
    let first = world
        .accept(&mut state, &address)
        .expect("curl runs")
        .expect("curl has connected");
    assert!(!world.acceptable(&state, &address).expect("curl runs"));
    assert!(read_all(&mut world, &mut state, &first).starts_with(b"GET /a "));
    let mut second_state = state.clone();
    let reply = |world: &mut PeerWorld, state: &mut PeerState, key: &ConnKey, text: &str| {
        let page = format!(
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{text}",
            text.len()
        );
        world.write(state, key, page.as_bytes()).expect("told");
        world.close(state, key).expect("open");
    };
    reply(&mut world, &mut state, &first, "one");
    let second = world
        .accept(&mut state, &address)
        .expect("curl runs")
        .expect("curl has connected again");
    assert!(read_all(&mut world, &mut state, &second).starts_with(b"GET /b "));
    let fork = state.clone();
    reply(&mut world, &mut state, &second, "two");
    assert_eq!(world.client_exit(&state, 0).expect("curl runs"), Some(0));
    assert_eq!(world.counters().peer_starts, 1);

    // Another answer on the second connection: curl is started again and its first connection replayed.
    let mut other = fork;
    world
        .write(
            &mut other,
            &second,
            b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n",
        )
        .expect("told");
    world.close(&mut other, &second).expect("open");
    assert_eq!(
        world.client_exit(&other, 0).expect("curl runs"),
        Some(22),
        "curl -f fails on 404"
    );
    assert_eq!(world.client_exit(&state, 0).expect("known"), Some(0));
    assert_eq!(
        (world.counters().peer_starts, world.counters().logical_connections),
        (2, 2)
    );

    // And on the first.
    reply(&mut world, &mut second_state, &first, "other");
    assert!(world.acceptable(&second_state, &address).expect("curl runs"));
    assert_eq!(world.counters().peer_starts, 3);
}

#[test]
fn nc_as_client_and_as_server_that_serves_once() {
    test_packages::command("nc", "netcat-openbsd").expect("nc");
    let client = PeerSpec::parse("echo hello | nc -N 127.0.0.1 {port}").expect("command");
    let port = free_port();
    let server = PeerSpec::parse(&format!("nc -l 127.0.0.1 {port}")).expect("command");
    let world = PeerWorld::new(Config {
        clients: vec![client],
        servers: vec![server],
        ..config(CacheMode::Branching)
    });
    let mut world = world.expect("servers");
    let (mut state, address) = listen(&mut world);
    let key = world
        .accept(&mut state, &address)
        .expect("nc runs")
        .expect("nc has connected");
    assert_eq!(read_all(&mut world, &mut state, &key), b"hello\n");
    assert_eq!(world.readable(&state, &key).expect("polled"), Readable::Eof);
    world.close(&mut state, &key).expect("open");
    assert_eq!(world.client_exit(&state, 0).expect("nc runs"), Some(0));

    let out = open(&mut world, &mut state, &tcp(port));
    world.write(&mut state, &out, b"to nc").expect("told");
    assert_eq!(world.readable(&state, &out).expect("polled"), Readable::Nothing);
}

#[test]
fn a_saved_cache_stands_in_for_the_peers() {
    let dir = tempfile::tempdir().expect("directory");
    let file = dir.path().join("cache");
    let (address, server) = line_server("line[::-1]", None);
    let client = python(
        "client",
        "import os,socket\ns=socket.create_connection(('127.0.0.1',int(os.environ['TRACEFORK_PORT'])))\ns.sendall(b'hi')\ns.recv(9)",
        &[],
    );
    let mut world = PeerWorld::new(Config {
        servers: vec![server],
        clients: vec![client],
        ..config(CacheMode::Branching)
    })
    .expect("peers");
    let conversation = |world: &mut PeerWorld| -> Result<(Vec<Vec<u8>>, u128), PeerError> {
        let (mut state, here) = listen(world);
        let out = open(world, &mut state, &address);
        world.write(&mut state, &out, b"abc\n")?;
        let answer = world.read(&mut state, &out, 100)?;
        let accepted = world.accept(&mut state, &here)?.expect("a client");
        let greeting = world.read(&mut state, &accepted, 100)?;
        world.write(&mut state, &accepted, b"bye")?;
        world.close(&mut state, &accepted)?;
        assert_eq!(world.client_exit(&state, 0)?, Some(0));
        Ok((vec![answer, greeting], state.id()))
    };
    let (first, _) = conversation(&mut world).expect("peers");
    assert_eq!(first, [b"cba".to_vec(), b"hi".to_vec()]);
    world.save(&file).expect("written");
    let text = world.render_text();
    assert!(text.contains("> \"abc\\n\"") && text.contains("< cba"), "{text}");
    assert!(world.render_dot().contains("cba"));
    drop(world);

    let mut stub = PeerWorld::new(Config {
        offline: true,
        ..config(CacheMode::Branching)
    })
    .expect("offline");
    stub.load(&file).expect("read");
    assert_eq!(conversation(&mut stub).expect("all there").0, first);
    assert_eq!(
        (
            stub.counters().physical_connections,
            stub.counters().peer_starts,
            stub.counters().misses
        ),
        (0, 0, 0)
    );
    let mut state = PeerState::new();
    let key = open(&mut stub, &mut state, &address);
    let error = stub.write(&mut state, &key, b"abd\n").expect_err("not in it");
    assert!(
        matches!(&error, PeerError::OfflineMiss { connection, .. } if *connection == address.to_string()),
        "{error}"
    );
    assert!(error.to_string().contains("abd"), "{error}");

    let mut bytes = std::fs::read(&file).expect("file");
    *bytes.last_mut().expect("not empty") ^= 1;
    std::fs::write(&file, bytes).expect("damaged");
    let error = stub.load(&file).expect_err("damaged");
    assert!(error.to_string().contains("checksum"), "{error}");
}
