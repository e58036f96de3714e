//! The decoders of tracefork, each with what is done with what it decodes.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use hooks::{ModuleRole, Preempt, scan_bytes};
use peers::{Address, PeerState, PeerWorld, Readable};
use sweep::baseline::Baseline;
use sweep::merge::{Allowed, merge};
use sweep::{Plan, Selection, Source};
use symbols::{FileMapping, Symbolizer, UnwindRegs};
use trace::format;
use views::View;

/// A trace, and all that can be shown of it without executing it.
pub fn trace(file: &[u8]) -> Result<(), String> {
    let trace = format::decode(file).map_err(|failure| failure.to_string())?;
    let view = View::of(&trace);
    let page = views::html(&view).map_err(|failure| failure.to_string())?;
    let shown = [views::mermaid(&view), views::shiviz(&view), page];
    let events = views::chrome_trace(&view).to_string();
    let capture = views::pcap(&trace);
    let table = views::table(&trace);
    std::hint::black_box((shown, events, capture.file.len(), table));
    let _ = session::network::Peers::recorded(&trace.communication);
    trace.inputs.changed_files();
    // What was read can be written and read again.
    let again = format::encode(&trace).map_err(|failure| failure.to_string())?;
    let same = format::decode(&again).map_err(|failure| failure.to_string())? == trace;
    assert!(same, "a trace changes when it is written again");
    Ok(())
}

/// A saved cache, and a program that walks through it.
pub fn cache(file: &[u8]) -> Result<(), String> {
    let config = peers::Config {
        offline: true,
        ..peers::Config::default()
    };
    let mut world = PeerWorld::new(config).map_err(|error| error.to_string())?;
    world.load_bytes(file)?;
    std::hint::black_box((world.render_text(), world.render_dot(), world.render_html()));
    let servers: Vec<Address> = world
        .trees()
        .filter_map(|(key, _)| match key {
            peers::store::TreeKey::Server(address, _) => Some(address.clone()),
            peers::store::TreeKey::Client(_) | peers::store::TreeKey::Process(_) => None,
        })
        .collect();
    for address in servers {
        converse(&mut world, &address);
    }
    serve(&mut world);
    let bytes = world.to_bytes()?;
    std::hint::black_box(bytes);
    Ok(())
}

/// Says what was said before, as far as it is known, and reads what comes.
fn converse(world: &mut PeerWorld, address: &Address) {
    let mut state = PeerState::new();
    let Ok(Ok(key)) = world.open(&mut state, address) else {
        return;
    };
    for said in [&b"a"[..], b"b", b"hello\n", b"\0", b"GET / HTTP/1.0\r\n\r\n", b""] {
        let mut branch = state.clone();
        let _ = world.write(&mut branch, &key, said);
        for _ in 0..4 {
            let readable = world.readable(&branch, &key);
            let _ = world.peek(&branch, &key, 3);
            let taken = world.read(&mut branch, &key, 7);
            if !matches!(readable, Ok(Readable::Data(_))) || taken.is_err() {
                break;
            }
        }
        let _ = world.fin(&mut branch, &key);
        let _ = world.readable(&branch, &key);
        let _ = world.close(&mut branch, &key);
        std::hint::black_box((world.sent(&branch), branch.id()));
        let _ = world.write(&mut state, &key, said);
    }
}

/// Accepts who comes.
fn serve(world: &mut PeerWorld) {
    let mut state = PeerState::new();
    let here = Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
    let Ok(bound) = world.bind(&mut state, &here) else {
        return;
    };
    world.listen(&mut state, &bound);
    for _ in 0..4 {
        let _ = world.acceptable(&state, &bound);
        let Ok(Some(key)) = world.accept(&mut state, &bound) else {
            break;
        };
        let _ = world.read(&mut state, &key, 100);
        let _ = world.write(&mut state, &key, b"answer\n");
        let _ = world.close(&mut state, &key);
    }
    for client in 0..3 {
        let _ = world.client_exit(&state, client);
    }
}

/// A sweep file, as far as it goes before anything runs.
pub fn sweep(file: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(file).into_owned();
    let source = Source::new(Path::new("sweep.toml"), text);
    let selection = Selection::default();
    let plan = Plan::make(&source, &selection, &tracefork::cli::settings::schema())
        .map_err(|failure| failure.to_string())?;
    std::hint::black_box(plan.hash());
    Ok(())
}

/// The result of a sweep, to be merged.
pub fn result(file: &[u8]) -> Result<(), String> {
    with_file(file, |path| {
        let allowed = Allowed {
            missing: true,
            other_programs: true,
        };
        let whole = merge(&[path.to_owned()], allowed).map_err(|failure| failure.to_string())?;
        std::hint::black_box(whole);
        Ok(())
    })
}

/// A baseline, or a result as one.
pub fn baseline(file: &[u8]) -> Result<(), String> {
    with_file(file, |path| {
        let baseline = Baseline::read(path).map_err(|failure| failure.to_string())?;
        std::hint::black_box(baseline);
        Ok(())
    })
}

/// A program or a library: what is to be hooked, and what a report makes of it.
pub fn module(file: &[u8]) -> Result<(), String> {
    let mut refusal = None;
    for (role, mode) in [
        (ModuleRole::Own, Preempt::Memory),
        (ModuleRole::Own, Preempt::Sync),
        (ModuleRole::System, Preempt::Sync),
    ] {
        if let Err(error) = scan_bytes(file, role, mode) {
            refusal = Some(error.to_string());
        }
    }
    with_file(file, |path| {
        let mut symbols = Symbolizer::new();
        symbols.set_mappings(vec![FileMapping {
            range: 0x40_0000..0x80_0000,
            file_offset: 0,
            file: path.to_owned(),
            path: path.to_owned(),
            is_executable: true,
            is_own: true,
        }]);
        let regs = UnwindRegs {
            rip: 0x40_1200,
            rsp: 0x7fff_0000,
            rbp: 0x7fff_0100,
        };
        let stack = |address: u64| Some(0x40_1000 + address % 0x4000);
        std::hint::black_box(symbols.backtrace(regs, stack, |_| None, 16));
        Ok(())
    })?;
    refusal.map_or(Ok(()), Err)
}

fn with_file(bytes: &[u8], body: impl FnOnce(&Path) -> Result<(), String>) -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = directory.path().join("file");
    fs::write(&path, bytes).map_err(|error| error.to_string())?;
    body(&path)
}
