//! Small real peers, and a simulated SUT: threads as step functions, all their interleavings explored by going back to saved states.
#![allow(dead_code)] // every test binary uses its own part of this

use peers::world::{CacheMode, Config};
use peers::{Address, ConnKey, Launcher, PeerError, PeerSpec, PeerState, PeerWorld, Readable};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{Hash, Hasher};
use std::path::PathBuf;

pub const PYTHON: &str = "/usr/bin/python3";

pub fn config(mode: CacheMode) -> Config {
    let launcher = Launcher {
        program: PathBuf::from(env!("CARGO_BIN_EXE_peer-host")),
        args: Vec::new(),
    };
    Config {
        mode,
        launcher,
        ..Config::default()
    }
}

/// A Python program as a peer.
pub fn python(name: &str, program: &str, args: &[&str]) -> PeerSpec {
    test_packages::command("python3", "python3").expect("python3");
    let mut argv = vec![PYTHON.to_string(), "-u".into(), "-c".into(), program.into()];
    argv.extend(args.iter().map(|a| (*a).to_string()));
    PeerSpec {
        name: name.into(),
        is_named: false,
        count: 1,
        command: name.into(),
        argv,
        after: None,
    }
}

/// A port that nobody uses now.
pub fn free_port() -> u16 {
    test_ports::free().expect("a port")
}

pub fn tcp(port: u16) -> Address {
    Address::Tcp(([127, 0, 0, 1], port).into())
}

/// A world with these clients, the state of a SUT that listens, and where.
pub fn served(clients: Vec<PeerSpec>) -> (PeerWorld, PeerState, Address) {
    let mut world = PeerWorld::new(Config {
        clients,
        ..config(CacheMode::Branching)
    })
    .expect("world");
    let mut state = PeerState::new();
    let address = world.bind(&mut state, &tcp(0)).expect("bind");
    world.listen(&mut state, &address);
    (world, state, address)
}

/// A threaded line server: `argv[1]` is its port, `argv[2]` a Python expression for the answer to `line`, `argv[3]` (optional) a file that logs, per connection, all that it received.
pub const LINE_SERVER: &str = r#"
import socket, sys, threading
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
log, lock = [], threading.Lock()
def dump():
    if len(sys.argv) > 3:
        with lock, open(sys.argv[3], "w") as f: f.write("\n".join(x.hex() for x in log))
def serve(conn, me):
    pending = b""
    while True:
        data = conn.recv(1000)
        if not data: break
        log[me] += data; dump()
        pending += data
        while b"\n" in pending:
            line, pending = pending.split(b"\n", 1)
            conn.sendall(eval(sys.argv[2]))
    conn.close()
while True:
    conn, _ = server.accept()
    conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    log.append(b""); dump()
    threading.Thread(target=serve, args=(conn, len(log) - 1), daemon=True).start()
"#;

/// The simulated SUT between two steps.
#[derive(Clone, Default)]
pub struct Sim {
    pub pc: Vec<usize>,
    pub conns: Vec<Option<ConnKey>>,
    pub bufs: Vec<Vec<u8>>,
    pub counter: u32,
    pub peers: PeerState,
}

impl Sim {
    pub fn new(threads: usize, conns: usize) -> Sim {
        Sim {
            pc: vec![0; threads],
            conns: vec![None; conns],
            bufs: vec![Vec::new(); conns],
            ..Sim::default()
        }
    }
    fn id(&self) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        (&self.pc, &self.conns, &self.bufs, self.counter, self.peers.id()).hash(&mut hasher);
        hasher.finish()
    }
    /// Reads what is there into the connection's buffer; false if nothing is.
    pub fn read(&mut self, world: &mut PeerWorld, conn: usize) -> Result<bool, PeerError> {
        let Some(key) = self.conns[conn].clone() else {
            return Ok(false);
        };
        if !matches!(world.readable(&self.peers, &key)?, Readable::Data(_)) {
            return Ok(false);
        }
        let data = world.read(&mut self.peers, &key, 1000)?;
        self.bufs[conn].extend(data);
        Ok(true)
    }
    pub fn write(&mut self, world: &mut PeerWorld, conn: usize, data: &[u8]) -> Result<(), PeerError> {
        let key = self.conns[conn].clone().expect("open");
        world.write(&mut self.peers, &key, data)
    }
}

/// What a thread did when it was its turn.
pub enum Did {
    Step,
    Blocked,
    Ended,
}

pub type Outcome = (BTreeMap<String, Vec<Vec<u8>>>, Vec<Vec<u8>>);

/// Explores all interleavings and returns the set of outcomes.
pub fn explore(
    world: &mut PeerWorld,
    start: Sim,
    step: &dyn Fn(&mut PeerWorld, &mut Sim, usize) -> Result<Did, PeerError>,
) -> Result<BTreeSet<Outcome>, PeerError> {
    let (mut outcomes, mut seen, mut stack) = (BTreeSet::new(), HashSet::new(), vec![start]);
    while let Some(state) = stack.pop() {
        if !seen.insert(state.id()) {
            continue;
        }
        let mut ended = true;
        for thread in 0..state.pc.len() {
            let mut next = state.clone();
            world.backtracked(&next.peers)?;
            match step(world, &mut next, thread)? {
                Did::Step => {
                    next.pc[thread] += 1;
                    stack.push(next);
                    ended = false;
                }
                Did::Blocked | Did::Ended => {}
            }
        }
        if ended {
            outcomes.insert((world.sent(&state.peers), state.bufs.clone()));
        }
    }
    Ok(outcomes)
}
