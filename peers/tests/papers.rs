//! The cache figures of the papers, on simulated SUTs against real peers: connections or client starts, and misses, must come out exactly.

mod common;
use common::*;
use peers::world::{CacheMode, Config};
use peers::{Address, PeerError, PeerWorld};
use std::collections::BTreeSet;

/// Sends `argv[2]`, then reads `argv[3]` lines.
const CHAT_CLIENT: &str = r#"
import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.sendall(sys.argv[2].encode() + b"\n")
f = s.makefile("rb")
for _ in range(int(sys.argv[3])): f.readline()
"#;

/// Sends `argv[2]` requests, each after the answer to the one before.
const ALPHABET_CLIENT: &str = r#"
import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
for i in range(int(sys.argv[2])):
    s.sendall(b"%d\n" % (i + 1))
    s.recv(1)
"#;

fn run_alphabet_client(mode: CacheMode, n: usize, m: usize) -> (PeerWorld, BTreeSet<Outcome>) {
    let port = free_port();
    let server = python(
        "alphabet",
        LINE_SERVER,
        &[&port.to_string(), "bytes([96 + int(line)])"],
    );
    let mut world = PeerWorld::new(Config {
        servers: vec![server],
        ..config(mode)
    })
    .expect("server");
    let address = tcp(port);
    // Threads 2i and 2i+1: producer and consumer of connection i.
    let outcomes = explore(&mut world, Sim::new(2 * n, n), &|world, sim, thread| {
        let (conn, pc) = (thread / 2, sim.pc[thread]);
        match (thread % 2, pc) {
            (0, 0) => sim.conns[conn] = world.open(&mut sim.peers, &address)?.ok(),
            (0, _) if pc > 2 * m => return Ok(Did::Ended),
            (0, _) if pc % 2 == 1 => sim.write(world, conn, pc.div_ceil(2).to_string().as_bytes())?,
            (0, _) => sim.write(world, conn, b"\n")?,
            (_, _) if pc >= m => return Ok(Did::Ended),
            _ if !sim.read(world, conn)? => return Ok(Did::Blocked),
            _ => {
                // One letter a read, as the consumer asks for it: more may have come, and is then taken at once.
                if sim.bufs[conn].len() >= m {
                    sim.pc[thread] = m - 1;
                }
            }
        }
        Ok(Did::Step)
    });
    (world, outcomes.expect("no peer fails"))
}

#[test]
fn alphabet_client() {
    for (n, m) in [(2, 1), (2, 2), (3, 1)] {
        let (world, outcomes) = run_alphabet_client(CacheMode::Branching, n, m);
        let counters = world.counters();
        assert_eq!(
            (counters.physical_connections, counters.misses),
            (n as u64, 2 * (n * m) as u64),
            "{n}×{m}"
        );
        assert_eq!(counters.peer_starts, 1);
        assert_eq!(counters.replayed_bytes, 0);
        assert_eq!(outcomes.len(), 1, "{outcomes:?}");
        assert_eq!(run_alphabet_client(CacheMode::Linear, n, m).1.len(), 1);
    }
}

#[test]
fn without_a_cache_the_outcomes_are_the_same() {
    let (off, outcomes) = run_alphabet_client(CacheMode::Off, 2, 1);
    let (branching, same) = run_alphabet_client(CacheMode::Branching, 2, 1);
    let strip = |outcomes: BTreeSet<Outcome>| -> BTreeSet<_> {
        outcomes
            .into_iter()
            .map(|(sent, bufs)| (sent.into_values().collect::<Vec<_>>(), bufs))
            .collect()
    };
    assert_eq!(strip(outcomes), strip(same));
    assert!(off.counters().physical_connections > 10 * branching.counters().physical_connections);
    assert_eq!(off.counters().hits, 0);
}

/// One step of worker `me`, which has made `pc` steps.
type Worker<'a> = dyn Fn(&mut PeerWorld, &mut Sim, usize, usize) -> Result<Did, PeerError> + 'a;

/// A server that accepts `n` clients and then runs a worker for each.
fn server(
    mode: CacheMode,
    n: usize,
    client: impl Fn(usize, &str) -> peers::PeerSpec,
    worker: &Worker<'_>,
) -> (PeerWorld, Result<BTreeSet<Outcome>, PeerError>) {
    let port = free_port();
    let clients = (0..n).map(|i| client(i, &port.to_string())).collect();
    let mut world = PeerWorld::new(Config {
        clients,
        ..config(mode)
    })
    .expect("world");
    let mut start = Sim::new(n + 1, n);
    let address: Address = world.bind(&mut start.peers, &tcp(port)).expect("bind");
    world.listen(&mut start.peers, &address);
    // Thread n is the one that accepts.
    let outcomes = explore(&mut world, start, &|world, sim, thread| {
        let pc = sim.pc[thread];
        if thread == n {
            if pc >= n {
                return Ok(Did::Ended);
            }
            sim.conns[pc] = world.accept(&mut sim.peers, &address)?;
            return Ok(if sim.conns[pc].is_some() {
                Did::Step
            } else {
                Did::Blocked
            });
        }
        // The workers start when all are there, as in the paper's chat server.
        if sim.pc[n] < n {
            Ok(Did::Blocked)
        } else {
            worker(world, sim, thread, pc)
        }
    });
    (world, outcomes)
}

#[test]
fn alphabet_server() {
    for (n, m) in [(2, 1), (2, 2), (3, 1)] {
        let client = |_: usize, port: &str| python("client", ALPHABET_CLIENT, &[port, &m.to_string()]);
        let (world, outcomes) = server(CacheMode::Branching, n, client, &|world, sim, me, pc| {
            if pc >= 2 * m {
                return Ok(Did::Ended);
            }
            if pc % 2 == 0 {
                return Ok(if sim.read(world, me)? {
                    Did::Step
                } else {
                    Did::Blocked
                });
            }
            let number = sim.bufs[me].iter().rev().nth(1).copied().unwrap_or(b'0');
            sim.write(world, me, &[number - b'0' + 96])?;
            Ok(Did::Step)
        });
        assert_eq!(outcomes.expect("no peer fails").len(), 1);
        let counters = world.counters();
        assert_eq!(
            (counters.peer_starts, counters.misses),
            (n as u64, (n * m) as u64),
            "{n}×{m}"
        );
    }
}

fn chat(mode: CacheMode, n: usize, full: bool) -> (PeerWorld, Result<BTreeSet<Outcome>, PeerError>) {
    let client = |i: usize, port: &str| {
        python(
            "chat",
            CHAT_CLIENT,
            &[
                port,
                &if full { i.to_string() } else { "x".into() },
                &n.to_string(),
            ],
        )
    };
    server(mode, n, client, &|world, sim, me, pc| {
        match pc {
            0 => {
                return Ok(if sim.read(world, me)? {
                    Did::Step
                } else {
                    Did::Blocked
                });
            }
            _ if pc > n => return Ok(Did::Ended),
            _ => {
                let message = sim.bufs[me].clone();
                sim.write(world, pc - 1, &message)?;
            }
        }
        Ok(Did::Step)
    })
}

#[test]
fn chat_server_full() {
    for (n, starts, misses) in [(2, 4, 8), (3, 18, 45)] {
        let (mut world, outcomes) = chat(CacheMode::Branching, n, true);
        let counters = world.counters();
        assert_eq!(
            (counters.peer_starts, counters.misses),
            (starts, misses),
            "n={n}\n{}",
            world.render_text()
        );
        assert_eq!(
            world.trees().map(|(_, tree)| tree.leaves() as u64).sum::<u64>(),
            starts
        );
        // Every client sees every order, whatever the others see.
        let factorial: usize = (1..=n).product();
        assert_eq!(outcomes.expect("no peer fails").len(), factorial.pow(n as u32));
        world.retain(&[]);
        assert_eq!(world.physical_now(), 0);
    }
}

#[test]
fn chat_server_abstracted() {
    for n in [2, 3] {
        let (world, outcomes) = chat(CacheMode::Branching, n, false);
        let counters = world.counters();
        assert_eq!(
            (counters.peer_starts, counters.misses),
            (n as u64, (n * n) as u64),
            "n={n}"
        );
        assert_eq!(outcomes.expect("no peer fails").len(), 1);
        assert_eq!(chat(CacheMode::Linear, n, false).1.expect("applies").len(), 1);
    }
}

#[test]
fn the_linear_cache_fails_where_the_schedule_decides_what_is_said() {
    let error = chat(CacheMode::Linear, 2, true).1.expect_err("diverges");
    assert!(matches!(error, PeerError::LinearDivergence { .. }), "{error}");
}

#[test]
fn server_with_a_counter() {
    let run = |mode| {
        let client = |_: usize, port: &str| python("client", CHAT_CLIENT, &[port, "GET", "1"]);
        server(mode, 2, client, &|world, sim, me, pc| {
            match pc {
                0 => {
                    return Ok(if sim.read(world, me)? {
                        Did::Step
                    } else {
                        Did::Blocked
                    });
                }
                1 => {
                    sim.counter += 1;
                    sim.bufs[me] = format!("page {}\n", sim.counter).into_bytes();
                }
                2 => {
                    let page = sim.bufs[me].clone();
                    sim.write(world, me, &page)?;
                }
                _ => return Ok(Did::Ended),
            }
            Ok(Did::Step)
        })
    };
    let (world, outcomes) = run(CacheMode::Branching);
    let outcomes = outcomes.expect("no peer fails");
    assert_eq!(outcomes.len(), 2);
    assert_eq!((world.counters().peer_starts, world.counters().misses), (4, 4));
    let (off, same) = run(CacheMode::Off);
    assert_eq!(same.expect("no peer fails"), outcomes);
    assert!(off.counters().peer_starts > 4);
    assert!(matches!(
        run(CacheMode::Linear).1,
        Err(PeerError::LinearDivergence { .. })
    ));
}

#[test]
fn daytime_client() {
    let program = r#"
import socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    conn, _ = server.accept()
    conn.sendall(b"noon\n")
    conn.close()
"#;
    let port = free_port();
    let mut world = PeerWorld::new(Config {
        servers: vec![python("daytime", program, &[&port.to_string()])],
        ..config(CacheMode::Branching)
    })
    .expect("server");
    let address = tcp(port);
    let outcomes = explore(&mut world, Sim::new(3, 3), &|world, sim, me| match sim.pc[me] {
        0 => {
            sim.conns[me] = world.open(&mut sim.peers, &address)?.ok();
            Ok(Did::Step)
        }
        1 => Ok(if sim.read(world, me)? {
            Did::Step
        } else {
            Did::Blocked
        }),
        _ => Ok(Did::Ended),
    });
    assert_eq!(outcomes.expect("no peer fails").len(), 1);
    assert_eq!(
        (world.counters().physical_connections, world.counters().misses),
        (3, 0)
    );
}
