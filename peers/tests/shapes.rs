//! Peers of different shapes: servers that fork, clients with several connections at once, several listening addresses, IPv6.

mod common;
use common::*;
use peers::world::{CacheMode, Config};
use peers::{Address, PeerSpec, PeerState, PeerWorld, Readable};

/// Answers in a child process that takes its time, while the parent waits in `accept` again; the child greets, so that nothing unread gives it away.
const FORKING: &str = r#"
import os, signal, socket, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
s = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    c, _ = s.accept()
    if os.fork() == 0:
        s.close()
        sum(range(300000))
        c.sendall(b"hello\n")
        while d := c.recv(100):
            pid = os.fork()
            if pid == 0:
                sum(range(300000))
                c.sendall(d.upper())
                os._exit(0)
        os._exit(0)
    c.close()
"#;

#[test]
fn a_server_that_forks_is_seen_to_its_last_child() {
    let port = free_port();
    let servers = vec![python("forking", FORKING, &[&port.to_string()])];
    let mut world = PeerWorld::new(Config {
        servers,
        ..config(CacheMode::Branching)
    })
    .expect("server");
    let mut state = PeerState::new();
    for _ in 0..10 {
        let key = world.open(&mut state, &tcp(port)).expect("up").expect("listens");
        assert_eq!(world.read(&mut state, &key, 100).expect("greeted"), b"hello\n");
        world.write(&mut state, &key, b"abc").expect("told");
        assert_eq!(world.read(&mut state, &key, 100).expect("answered"), b"ABC");
    }
    assert_eq!(world.counters().late_answers, 0);
}

/// Two connections at once: what comes in on one goes out on the other.
const RELAY: &str = r#"
import os, select, socket
port = int(os.environ["TRACEFORK_PORT"])
a = socket.create_connection(("127.0.0.1", port)); b = socket.create_connection(("127.0.0.1", port))
other = {a: b, b: a}
while True:
    for s in select.select([a, b], [], [])[0]:
        d = s.recv(100)
        if not d: raise SystemExit(7)
        other[s].sendall(d + b"!")
"#;

#[test]
fn a_client_with_two_connections_is_one_instance() {
    let clients = vec![python("relay", RELAY, &[])];
    let (mut world, mut state, address) = served(clients);
    let a = world
        .accept(&mut state, &address)
        .expect("runs")
        .expect("first connection");
    let b = world
        .accept(&mut state, &address)
        .expect("runs")
        .expect("second connection");
    assert!(world.accept(&mut state, &address).expect("runs").is_none());
    let fork = state.clone();

    // a then b.
    world.write(&mut state, &a, b"1").expect("told");
    assert_eq!(world.readable(&state, &a).expect("polled"), Readable::Nothing);
    assert_eq!(world.read(&mut state, &b, 9).expect("relayed"), b"1!");
    world.write(&mut state, &b, b"2").expect("told");
    assert_eq!(world.read(&mut state, &a, 9).expect("relayed"), b"2!");
    assert_eq!(world.counters().peer_starts, 1);

    // b then a: another history of the same process, so it is started again.
    let mut other = fork;
    world.write(&mut other, &b, b"2").expect("told");
    world.write(&mut other, &a, b"1").expect("told");
    assert_eq!(world.read(&mut other, &a, 9).expect("relayed"), b"2!");
    assert_eq!(world.read(&mut other, &b, 9).expect("relayed"), b"1!");
    assert_eq!(
        (
            world.counters().peer_starts,
            world.counters().physical_connections
        ),
        (2, 4)
    );
    assert_ne!(state.id(), other.id());

    world.close(&mut other, &a).expect("open");
    assert_eq!(world.client_exit(&other, 0).expect("runs"), Some(7));
    assert_eq!(world.client_exit(&state, 0).expect("runs"), None);
}

#[test]
fn several_listening_addresses() {
    let connect = |to: &str| {
        format!(
            "import socket,sys\ns=socket.create_connection({to})\ns.sendall(b'to {}')\ns.recv(1)",
            to.replace('\'', "")
        )
    };
    let (one, two) = (free_port(), free_port());
    let clients = vec![
        python("second", &connect(&format!("('127.0.0.1',{two})")), &[]),
        python("first", &connect(&format!("('127.0.0.1',{one})")), &[]),
    ];
    let mut world = PeerWorld::new(Config {
        clients,
        ..config(CacheMode::Branching)
    })
    .expect("world");
    let mut state = PeerState::new();
    let wild = Address::Tcp(([0, 0, 0, 0], two).into());
    let addresses = [
        world.bind(&mut state, &tcp(one)).expect("bind"),
        world.bind(&mut state, &wild).expect("bind"),
    ];
    for address in &addresses {
        world.listen(&mut state, address);
    }
    for (address, port) in addresses.iter().zip([one, two]) {
        let key = world
            .accept(&mut state, address)
            .expect("runs")
            .expect("its client");
        let said = String::from_utf8(world.read(&mut state, &key, 100).expect("greeted")).expect("text");
        assert!(said.contains(&port.to_string()), "{said}");
        assert!(!world.acceptable(&state, address).expect("runs"));
    }
}

#[test]
fn both_wildcards_at_one_port() {
    let port = free_port();
    let connect = |host: &str| {
        format!(
            "import socket\ns=socket.create_connection(('{host}',{port}))\ns.sendall(b'{host}')\ns.recv(1)"
        )
    };
    let clients = vec![
        python("six", &connect("::1"), &[]),
        python("four", &connect("127.0.0.1"), &[]),
    ];
    let mut world = PeerWorld::new(Config {
        clients,
        ..config(CacheMode::Branching)
    })
    .expect("world");
    let mut state = PeerState::new();
    let four = Address::Tcp(([0, 0, 0, 0], port).into());
    let six = Address::Tcp(([0u16; 8], port).into());
    // As servers do that listen everywhere: the second socket leaves IPv4 to the first.
    world.bind(&mut state, &four).expect("bind");
    world.bind_as(&mut state, &six, true).expect("bind");
    for address in [&four, &six] {
        world.listen(&mut state, address);
    }
    for (address, host) in [(four, &b"127.0.0.1"[..]), (six, b"::1")] {
        let key = world
            .accept(&mut state, &address)
            .expect("runs")
            .expect("its client");
        assert_eq!(world.read(&mut state, &key, 100).expect("greeted"), host);
        assert!(!world.acceptable(&state, &address).expect("runs"));
    }
}

#[test]
fn ipv6_both_ways() {
    let server = "import socket,sys\ns=socket.create_server(('::1',int(sys.argv[1])),family=socket.AF_INET6)\nwhile True:\n c,_=s.accept()\n while d:=c.recv(9): c.sendall(d*2)";
    let client = "import os,socket\ns=socket.create_connection(('::1',int(os.environ['TRACEFORK_PORT'])))\ns.sendall(b'six')\ns.recv(1)";
    let port = free_port();
    let (servers, clients) = (
        vec![python("server", server, &[&port.to_string()])],
        vec![python("client", client, &[])],
    );
    let mut world = PeerWorld::new(Config {
        servers,
        clients,
        ..config(CacheMode::Branching)
    })
    .expect("world");
    let mut state = PeerState::new();
    let loopback = |port| Address::Tcp((std::net::Ipv6Addr::LOCALHOST, port).into());
    let address = world.bind(&mut state, &loopback(0)).expect("bind");
    world.listen(&mut state, &address);
    let key = world
        .accept(&mut state, &address)
        .expect("runs")
        .expect("connected");
    assert_eq!(world.read(&mut state, &key, 9).expect("greeted"), b"six");
    let out = world
        .open(&mut state, &loopback(port))
        .expect("up")
        .expect("listens");
    world.write(&mut state, &out, b"ab").expect("told");
    assert_eq!(world.read(&mut state, &out, 9).expect("answered"), b"abab");
}

#[test]
fn a_large_request_that_the_peer_answers_as_it_reads() {
    let port = free_port();
    let echo = "import socket,sys\ns=socket.create_server(('127.0.0.1',int(sys.argv[1])))\nc,_=s.accept()\nwhile d:=c.recv(4096): c.sendall(d)";
    let servers = vec![python("echo", echo, &[&port.to_string()])];
    let mut world = PeerWorld::new(Config {
        servers,
        ..config(CacheMode::Branching)
    })
    .expect("server");
    let mut state = PeerState::new();
    let key = world.open(&mut state, &tcp(port)).expect("up").expect("listens");
    let data: Vec<u8> = (0..8_000_000u32).map(|i| (i % 251) as u8).collect();
    world.write(&mut state, &key, &data).expect("told");
    assert_eq!(
        world.readable(&state, &key).expect("polled"),
        Readable::Data(data.len() as u64)
    );
    assert!(world.read(&mut state, &key, usize::MAX).expect("answered") == data);
}

#[test]
fn a_server_that_ran_before_us_is_found_and_inspected() {
    let port = free_port();
    let program =
        PeerSpec::parse(&format!("python3 -m http.server {port} --bind 127.0.0.1")).expect("command");
    let dir = tempfile::tempdir().expect("directory");
    let mut server = std::process::Command::new(PYTHON)
        .args(&program.argv[1..])
        .current_dir(&dir)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("python");
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(server.try_wait().expect("child").is_none(), "the server runs");
        std::thread::yield_now();
    }
    // So long a settle time would be noticed: the test passes only if the server is inspected instead.
    let settle = std::time::Duration::from_secs(3600);
    let mut world = PeerWorld::new(Config {
        settle,
        allowed: vec![peers::Allowed::parse(&tcp(port).to_string()).expect("an address")],
        ..config(CacheMode::Branching)
    })
    .expect("world");
    let mut state = PeerState::new();
    let key = world.open(&mut state, &tcp(port)).expect("up").expect("listens");
    world
        .write(&mut state, &key, b"GET / HTTP/1.0\r\n\r\n")
        .expect("told");
    assert!(
        world
            .read(&mut state, &key, 1 << 20)
            .expect("answered")
            .starts_with(b"HTTP/1.0 200 OK")
    );
    assert_eq!(world.readable(&state, &key).expect("polled"), Readable::Eof);
    server.kill().expect("kill");
    server.wait().expect("reaped");
}

/// Asks twice from one address, then once from another, and ends.
const DATAGRAM_CLIENT: &str = r#"
import os, socket
to = ("127.0.0.1", int(os.environ["TRACEFORK_PORT"]))
def talk(*words):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for word in words:
        s.sendto(word, to)
        assert s.recv(100) == word.upper()
talk(b"one", b"two")
talk(b"three")
"#;

#[test]
fn clients_that_send_datagrams() {
    let mut world = PeerWorld::new(Config {
        clients: vec![PeerSpec {
            count: 2,
            ..python("asks", DATAGRAM_CLIENT, &[])
        }],
        ..config(CacheMode::Branching)
    })
    .expect("world");
    let mut state = PeerState::new();
    let any = Address::Udp(([127, 0, 0, 1], 0).into());
    let address = world.bind(&mut state, &any).expect("bind");
    world.listen(&mut state, &address);
    let before = state.clone();
    for _ in 0..2 {
        // The second time everything is known.
        state = before.clone();
        let mut keys = Vec::new();
        while let Some(key) = world.accept(&mut state, &address).expect("clients run") {
            keys.push(key);
        }
        assert_eq!(keys.len(), 2, "both have asked");
        let mut talk = |state: &mut PeerState, key: &peers::ConnKey, word: &[u8]| {
            assert_eq!(world.read(state, key, 100).expect("asked"), word);
            world
                .write(state, key, &word.to_ascii_uppercase())
                .expect("answered");
        };
        for key in &keys {
            talk(&mut state, key, b"one");
        }
        for key in &keys {
            talk(&mut state, key, b"two");
        }
        for client in [0, 1] {
            assert_eq!(world.client_exit(&state, client).expect("runs"), None);
            let key = world
                .accept(&mut state, &address)
                .expect("clients run")
                .expect("another address is another correspondent");
            assert_eq!(world.read(&mut state, &key, 100).expect("asked"), b"three");
            world.write(&mut state, &key, b"THREE").expect("answered");
            assert_eq!(world.client_exit(&state, client).expect("runs"), Some(0));
        }
    }
    let counters = world.counters();
    assert_eq!((counters.hits, counters.misses, counters.peer_starts), (6, 6, 2));
}
