//! What it costs to know that an answer is complete: a request through the world (a miss, inspected) beside a plain request and response on a socket, with the same server, in one run; and a hit.

use peers::{Address, CacheMode, Config, Launcher, PeerSpec, PeerState, PeerWorld};
use std::error::Error;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

const ECHO: &str = r#"
import socket, sys, threading
s = socket.create_server(("127.0.0.1", int(sys.argv[1])))
def serve(c):
    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while d := c.recv(100): c.sendall(d)
while True: threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
"#;
const ROUNDS: u32 = 2000;

fn main() -> Result<std::process::ExitCode, Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|arg| arg == "__peer") {
        return Ok(peers::peer_main(args));
    }
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let argv = vec![
        "/usr/bin/python3".into(),
        "-c".into(),
        ECHO.into(),
        port.to_string(),
    ];
    let servers = vec![PeerSpec {
        name: "echo".into(),
        is_named: true,
        count: 1,
        command: "echo".into(),
        argv,
        after: None,
    }];
    let mut world = PeerWorld::new(Config {
        servers,
        mode: CacheMode::Branching,
        launcher: Launcher::default(),
        ..Config::default()
    })?;
    let address = Address::Tcp(([127, 0, 0, 1], port).into());

    let mut plain = std::net::TcpStream::connect(("127.0.0.1", port))?;
    plain.set_nodelay(true)?;
    let bare = timed(|_| {
        plain.write_all(b"x")?;
        Ok(plain.read_exact(&mut [0; 1])?)
    })?;

    let mut state = PeerState::new();
    let key = world.open(&mut state, &address)?.map_err(|_| "nobody listens")?;
    let fork = state.clone();
    let conversation = |world: &mut PeerWorld, mut state: PeerState| {
        timed(|round| {
            world.write(&mut state, &key, &[round as u8])?;
            world.read(&mut state, &key, 1)?;
            Ok(())
        })
    };
    let miss = conversation(&mut world, state)?;
    let hit = conversation(&mut world, fork)?;
    let ratio = |a: Duration, b: Duration| a.as_secs_f64() / b.as_secs_f64();
    println!(
        "plain round trip {bare:?}, miss {miss:?} ({:.2} of it), hit {hit:?} ({:.3} of it)",
        ratio(miss, bare),
        ratio(hit, bare)
    );
    println!("{:?}", world.counters());
    Ok(std::process::ExitCode::SUCCESS)
}

/// The median of many, because other processes disturb the mean.
fn timed(mut once: impl FnMut(u32) -> Result<(), Box<dyn Error>>) -> Result<Duration, Box<dyn Error>> {
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        let start = Instant::now();
        once(round)?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}
