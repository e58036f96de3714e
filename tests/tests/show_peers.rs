//! `tracefork show` of a program with peers: what was said is in every view, and the packets of `--pcap` are what Wireshark's
//! dissectors expect.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use trace::{Connection, Event, Traffic, Transport, What, format};
use tracefork_tests::browser::Browser;
use tracefork_tests::directives::End;
use tracefork_tests::observe::{Scratch, TIME_LIMIT};
use tracefork_tests::process::{self, Finished};
use tracefork_tests::supervised::Tracefork;
use tracefork_tests::{command_under_test, guests, packages};

fn build(path: &str) -> PathBuf {
    guests::one(path)
        .and_then(|guest| guest.build())
        .expect("the guest builds")
}

/// Checks a chat server of this kind with two clients.
fn check_chat(scratch: &Scratch, kind: &str, options: &[&str], code: i32) {
    let server = build("net/chat_server.c");
    let client = build("peers/lines_client.c");
    let port = test_ports::free().expect("a free port").to_string();
    let mut command = Tracefork::new(command_under_test!()).command(&scratch.work());
    command
        .args(["check", "--quiet", "--expect-client-exit", "0"])
        .args(options);
    for name in ["anna", "bert"] {
        let client = format!("{} {{port}} chat {name} 2", client.display());
        command.args(["--client", &client]);
    }
    command.arg("--").arg(server).args([port.as_str(), "2", kind]);
    let finished = process::run(command, TIME_LIMIT).expect("it ends");
    let said = String::from_utf8_lossy(&finished.stderr).into_owned();
    assert_eq!(finished.end, End::Exit(code), "{said}");
}

/// The trace of a chat server that forgets a client.
fn chat(scratch: &Scratch) -> PathBuf {
    check_chat(scratch, "race", &["--json", "result.json"], 1);
    let result = fs::read(scratch.work().join("result.json")).expect("a result");
    let result: Value = serde_json::from_slice(&result).expect("JSON");
    let trace = result["violations"][0]["trace"].as_str();
    scratch.work().join(trace.expect("a counterexample"))
}

fn show(scratch: &Scratch, trace: &Path, options: &[&str]) -> Finished {
    let mut command = Tracefork::new(command_under_test!()).command(&scratch.work());
    command.arg("show").arg(trace).args(options);
    let finished = process::run(command, TIME_LIMIT).expect("it ends");
    let said = String::from_utf8_lossy(&finished.stderr).into_owned();
    assert_eq!(finished.end, End::Exit(0), "{said}");
    finished
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[test]
fn every_view_tells_what_was_said() {
    let scratch = Scratch::new().expect("a directory");
    let trace = chat(&scratch);
    let table = text(&show(&scratch, &trace, &[]).stdout);
    assert!(table.contains("→ client#0  \"from anna\\n\""), "{table}");
    assert!(table.contains("← client#1  connects"), "{table}");

    let view: Value = serde_json::from_slice(&show(&scratch, &trace, &["--json"]).stdout).expect("JSON");
    let peers = view["peers"].as_array().expect("peers");
    assert_eq!(peers.len(), 2);
    assert!(
        peers[0]["command"]
            .as_str()
            .is_some_and(|c| c.ends_with("chat anna 2"))
    );
    let messages = view["messages"].as_array().expect("messages");
    let received: Vec<&Value> = messages.iter().filter(|m| m["kind"] == "receive").collect();
    assert_eq!(received.len(), 2, "{view:#}");
    for message in received {
        let step = message["step"].as_u64().expect("a step");
        assert!(message["since"].as_u64().is_some_and(|since| since < step));
        let reader = &view["steps"][step as usize];
        assert_eq!(message["thread"], reader["thread"]);
        assert!(
            reader["label"]
                .as_str()
                .is_some_and(|label| label.starts_with("read("))
        );
    }
    let bert = messages.iter().find(|m| m["text"] == "from bert\\n");
    assert_eq!(bert.expect("it was said")["hex"], "66726f6d20626572740a");

    let mermaid = text(&show(&scratch, &trace, &["--mermaid", "-"]).stdout);
    assert!(mermaid.contains("participant P1 as client#35;1"), "{mermaid}");
    assert!(mermaid.contains("->>P0: \"from anna\\n\""), "{mermaid}");
    let log = text(&show(&scratch, &trace, &["--shiviz", "-"]).stdout);
    // The thread that has read knows of the peer, and the peer that was answered of the thread.
    assert!(
        log.contains("peer-client#1 {\"peer-client#1\":2}\nsays \"from bert\\n\""),
        "{log}"
    );
    assert!(log.contains("hears \"from bert\\n\""), "{log}");
    let events: Value =
        serde_json::from_slice(&show(&scratch, &trace, &["--chrome-trace", "-"]).stdout).expect("JSON");
    let events = events["traceEvents"].as_array().expect("events");
    let flows = |phase: &str| {
        let all = events
            .iter()
            .filter(|e| e["cat"] == "message" && e["ph"] == phase);
        all.map(|event| event["id"].to_string()).collect::<Vec<_>>()
    };
    assert!(flows("s").len() >= 6, "{events:?}");
    assert_eq!(flows("s"), flows("f"));
}

/// Runs tshark on a capture, with every checksum looked at.
fn tshark(scratch: &Scratch, capture: &str, options: &[&str]) -> String {
    let tshark = packages::command("tshark", "tshark").expect("tshark");
    let mut command = Command::new(tshark);
    command.current_dir(scratch.work()).env("HOME", scratch.work());
    command.args(["-n", "-r", capture]);
    for layer in ["ip", "tcp", "udp"] {
        command.args(["-o", &format!("{layer}.check_checksum:TRUE")]);
    }
    command.args(options);
    let finished = process::run(command, TIME_LIMIT).expect("it ends");
    let said = String::from_utf8_lossy(&finished.stderr).into_owned();
    assert_eq!(finished.end, End::Exit(0), "{said}");
    text(&finished.stdout)
}

/// What tshark finds in a packet.
struct Packet {
    time: String,
    flags: String,
    source_port: String,
    data: String,
}

/// The packets of a capture, none of which looks wrong: sums, sequence numbers, lengths.
fn packets(scratch: &Scratch, capture: &str) -> Vec<Packet> {
    const FIELDS: [&str; 8] = [
        "frame.time_epoch",
        "tcp.checksum.status",
        "udp.checksum.status",
        "tcp.analysis.flags",
        "_ws.malformed",
        "tcp.flags.str",
        "udp.srcport",
        "data.data",
    ];
    let fields = FIELDS.iter().flat_map(|field| ["-e", field]);
    let plain = [
        "-d",
        "udp.port==5300,data",
        "-d",
        "udp.port==5301,data",
        "-T",
        "fields",
    ];
    let options: Vec<&str> = plain.into_iter().chain(fields).collect();
    let table = tshark(scratch, capture, &options);
    let packet = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [time, tcp, udp, analysis, malformed, flags, source_port, data] = fields[..] else {
            panic!("not all fields: {line}");
        };
        // 1 is good, 0 is bad, 2 is not looked at.
        assert_eq!(format!("{tcp}{udp}"), "1", "the checksum of {line}");
        assert_eq!((analysis, malformed), ("", ""), "{line}");
        Packet {
            time: time.to_owned(),
            flags: flags.to_owned(),
            source_port: source_port.to_owned(),
            data: data.to_owned(),
        }
    };
    table.lines().map(packet).collect()
}

/// The two directions of the first streams, put together by tshark.
fn streams<const N: usize>(scratch: &Scratch, capture: &str) -> [[Vec<u8>; 2]; N] {
    let follow: Vec<String> = (0..N).map(|number| format!("follow,tcp,raw,{number}")).collect();
    let options = follow.iter().flat_map(|follow| ["-z", follow]);
    let followed = tshark(
        scratch,
        capture,
        &["-q"].into_iter().chain(options).collect::<Vec<_>>(),
    );
    let mut all: [[Vec<u8>; 2]; N] = std::array::from_fn(|_| [Vec::new(), Vec::new()]);
    let mut number = 0;
    for line in followed.lines() {
        if let Some(of) = line.strip_prefix("Filter: tcp.stream eq ") {
            number = of.parse().expect("a number");
        }
        // What the second party said is indented.
        let (digits, direction) = line.strip_prefix('\t').map_or((line, 0), |rest| (rest, 1));
        let byte = |at: usize| {
            digits
                .get(at..at + 2)
                .and_then(|pair| u8::from_str_radix(pair, 16).ok())
        };
        if let Some(bytes) = (0..digits.len())
            .step_by(2)
            .map(byte)
            .collect::<Option<Vec<u8>>>()
        {
            all[number][direction].extend(bytes);
        }
    }
    all
}

#[test]
fn a_capture_of_a_program_has_what_it_said() {
    let scratch = Scratch::new().expect("a directory");
    let trace = chat(&scratch);
    show(&scratch, &trace, &["--pcap", "chat.pcap"]);
    let packets = packets(&scratch, "chat.pcap");
    assert!(packets.iter().all(|packet| packet.time.starts_with("18934560")));
    let [[from_anna, to_anna], [from_bert, to_bert]] = streams(&scratch, "chat.pcap");
    assert_eq!(text(&from_anna), "from anna\n");
    assert_eq!(text(&to_anna), "from anna\nfrom bert\n");
    assert_eq!(text(&from_bert), "from bert\n");
    assert_eq!(text(&to_bert), "from bert\n");
}

/// Traffic of every kind: long messages, both versions of IP, ends of all sorts, datagrams, a Unix socket.
fn all_kinds() -> Traffic {
    let connection = |name: &str, transport, accepted, ends: Option<(&str, &str)>| Connection {
        name: name.to_owned(),
        peer: String::new(),
        transport,
        accepted,
        local: ends.map(|(local, _)| local.parse::<SocketAddr>().expect("an address")),
        remote: ends.map(|(_, remote)| remote.parse::<SocketAddr>().expect("an address")),
        internal: false,
    };
    let connections = vec![
        connection(
            "long",
            Transport::Tcp,
            false,
            Some(("127.0.0.1:40000", "127.0.0.1:9000")),
        ),
        connection("six", Transport::Tcp, true, Some(("[::1]:8080", "[::1]:30000"))),
        connection(
            "nobody",
            Transport::Tcp,
            false,
            Some(("127.0.0.1:40001", "127.0.0.1:9001")),
        ),
        connection(
            "names",
            Transport::Udp,
            false,
            Some(("127.0.0.1:20000", "127.0.0.1:5300")),
        ),
        connection(
            "reset",
            Transport::Tcp,
            false,
            Some(("127.0.0.1:40002", "127.0.0.1:9002")),
        ),
        connection("path", Transport::Unix, false, None),
        connection(
            "six datagrams",
            Transport::Udp,
            false,
            Some(("[::1]:20001", "[::1]:5301")),
        ),
    ];
    let long: Vec<u8> = (0..100_000u32).map(|n| (n % 251) as u8).collect();
    let whats = vec![
        (0, What::Opened),
        (1, What::Opened),
        (2, What::Refused),
        (0, What::Sent(b"GET\n".to_vec())),
        (0, What::Arrived(long)),
        (3, What::Opened),
        (3, What::Sent(b"who?".to_vec())),
        (3, What::Arrived(b"me".to_vec())),
        (6, What::Opened),
        (6, What::Sent(Vec::new())),
        (6, What::Arrived(b"odd".to_vec())),
        (5, What::Opened),
        (5, What::Sent(b"private".to_vec())),
        (1, What::Arrived(b"hello".to_vec())),
        (1, What::Read(5)),
        (1, What::Finished),
        (1, What::Ended),
        (1, What::Closed),
        (0, What::Ended),
        (0, What::Closed),
        (4, What::Opened),
        (4, What::Reset),
        (4, What::Closed),
    ];
    let event = |(step, (connection, what))| Event {
        step,
        time: 1_893_456_000_000_000_000 + step,
        connection,
        what,
    };
    Traffic {
        connections,
        events: (0..).zip(whats).map(event).collect(),
    }
}

#[test]
fn captures_of_all_kinds_of_traffic_are_in_order() {
    let scratch = Scratch::new().expect("a directory");
    let mut trace = format::read(&chat(&scratch)).expect("a trace");
    trace.traffic = all_kinds();
    let path = scratch.beside("all.trace");
    format::write(&path, &trace).expect("written");
    assert_eq!(format::read(&path).expect("a trace").traffic, trace.traffic);
    let shown = show(&scratch, &path, &["--pcap", "all.pcap"]);
    let note = String::from_utf8_lossy(&shown.stderr).into_owned();
    assert!(
        note.contains("1 connection(s) over Unix sockets are not in the capture"),
        "{note}"
    );
    let [[asked, answered], [greeting, silence]] = streams(&scratch, "all.pcap");
    assert_eq!(asked, b"GET\n");
    let long = (0..100_000u32).map(|n| (n % 251) as u8);
    assert!(answered.into_iter().eq(long), "the long answer is not the same");
    assert_eq!((text(&greeting), silence.len()), ("hello".to_owned(), 0));
    let packets = packets(&scratch, "all.pcap");
    let datagrams: Vec<(&str, &str)> = packets
        .iter()
        .filter(|packet| !packet.source_port.is_empty())
        .map(|packet| (packet.source_port.as_str(), packet.data.as_str()))
        .collect();
    assert_eq!(
        datagrams,
        [
            ("20000", "77686f3f"),
            ("5300", "6d65"),
            ("20001", ""),
            ("5301", "6f6464")
        ]
    );
    let with = |flag: char| {
        packets
            .iter()
            .filter(|packet| packet.flags.contains(flag))
            .count()
    };
    assert_eq!((with('F'), with('R'), with('S')), (4, 2, 7));
}

#[test]
fn the_page_has_a_column_per_peer_and_shows_bytes_on_a_click() {
    let scratch = Scratch::new().expect("a directory");
    let trace = chat(&scratch);
    show(&scratch, &trace, &["--html", "page.html", "--stacks"]);
    let mut browser = Browser::open(&scratch.work().join("page.html")).expect("the page loads");
    let mut page = |expression: &str| browser.evaluate(expression).expect("a value");
    assert_eq!(page("document.querySelectorAll('#lanes .lane').length"), 3);
    assert_eq!(page("document.querySelectorAll('#lanes .card').length"), 2);
    assert_ne!(page("document.querySelectorAll('#window .message').length"), 0);
    assert_ne!(page("document.querySelectorAll('#window .waiting').length"), 0);

    // Found by what was said, not by the step.
    browser.press("/").expect("a key");
    browser.type_text("send from bert").expect("typing");
    let found = browser.evaluate("document.getElementById('matches').textContent");
    assert_eq!(found.expect("shown"), "1 of 2");
    browser.press("Escape").expect("a key");
    browser.press("c").expect("a key");
    browser.click("#window .row.match").expect("a click");
    let mut shown = |selector: &str| {
        let text = browser.evaluate(&format!("document.querySelector('{selector}').textContent"));
        text.expect("shown").as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(shown("#detail .payload"), "from bert\\n");
    assert!(shown("#detail .hex").contains("66 72 6f 6d 20 62 65 72"));
    assert!(shown("#detail .source .here").contains("write(fd, text, length)"));
    assert_eq!(browser.exceptions, Vec::<String>::new());
}

#[test]
fn ten_thousand_messages_cost_no_more_than_those_in_sight() {
    const STEPS: usize = 10_000;
    let scratch = Scratch::new().expect("a directory");
    let mut trace = format::read(&chat(&scratch)).expect("a trace");
    trace.steps = trace.steps.iter().cycle().take(STEPS).cloned().collect();
    trace.locations = trace.locations.iter().cycle().take(STEPS).cloned().collect();
    let event = |step: u64| Event {
        step,
        time: 0,
        connection: (step % 2) as u32,
        what: match step % 4 {
            0 | 1 => What::Sent(format!("request {step}").into_bytes()),
            2 => What::Arrived(format!("{:08}", step).into_bytes()),
            _ => What::Arrived(format!("{:08}", step).into_bytes()),
        },
    };
    let mut events: Vec<Event> = (0..STEPS as u64).map(event).collect();
    events.extend((0..STEPS as u64).filter(|step| step % 4 > 1).map(|step| Event {
        what: What::Read(8),
        ..event(step)
    }));
    events.sort_by_key(|event| event.step);
    trace.traffic.events = events;
    let path = scratch.beside("long.trace");
    format::write(&path, &trace).expect("written");
    show(&scratch, &path, &["--html", "long.html"]);
    let mut browser = Browser::open(&scratch.work().join("long.html")).expect("the page loads");
    browser.press("End").expect("a key");
    browser.press("PageUp").expect("a key");
    let drawn = browser.evaluate("document.querySelectorAll('#window .said').length");
    let drawn = drawn.expect("a number").as_u64().expect("a number");
    assert!((5..100).contains(&drawn), "{drawn} messages are drawn");
    browser.press("/").expect("a key");
    browser
        .type_text("\"request 7777\"".trim_matches('"'))
        .expect("typing");
    let payload = browser.evaluate("document.querySelector('#detail .payload').textContent");
    assert_eq!(payload.expect("shown"), "request 7777");
    assert_eq!(browser.exceptions, Vec::<String>::new());
}

/// Two clients, each of which is told the two messages in either order.
#[test]
fn communication_trees_fork_where_schedules_differ() {
    let scratch = Scratch::new().expect("a directory");
    check_chat(
        &scratch,
        "full",
        &["--tree", "trees.txt", "--graph", "graph.html"],
        0,
    );
    let read = |name: &str| fs::read_to_string(scratch.work().join(name)).expect("written");
    let tree = read("trees.txt");
    for client in ["client#0: ", "client#1: "] {
        let line = tree
            .lines()
            .find(|line| line.starts_with(client))
            .expect("its tree");
        assert!(line.ends_with("misses 4, leaves 2"), "{tree}");
    }
    // On each of the two branches of the first client, after what the client said.
    assert!(tree.contains("  < from anna\\n\n"), "{tree}");
    // The client is told the one message or the other, and then the one that is left.
    for line in ["\n    > \"anna\\n\"  (hits ", "\n    > \"bert\\n\"  (hits "] {
        assert_eq!(tree.matches(line).count(), 2, "{tree}");
    }
    assert_eq!(tree.matches(", misses 1)").count(), 8, "{tree}");
    let graph = read("graph.html");
    assert!(graph.contains("class=\"state\"") && !graph.contains("step bad"));

    check_chat(&scratch, "full", &["--tree", "trees.dot"], 0);
    assert!(read("trees.dot").starts_with("digraph trees {"));
    check_chat(&scratch, "full", &["--tree", "trees.html"], 0);
    let mut browser = Browser::open(&scratch.work().join("trees.html")).expect("the page loads");
    let mut page = |expression: &str| browser.evaluate(expression).expect("a value");
    assert_eq!(page("document.querySelectorAll('svg .root').length"), 2);
    let written = "[...document.querySelectorAll('svg .node .wrote')].filter((text) => /(anna|bert)\\\\n/.test(text.textContent)).length";
    assert_eq!(page(written), 8);
    let overlap = "(() => { const boxes = [...document.querySelectorAll('svg rect')].map((box) => box.getBoundingClientRect()); \
         return boxes.some((a, i) => boxes.some((b, j) => i < j && a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)); })()";
    assert_eq!(page(overlap), false);
}

#[test]
fn gdb_shows_every_thread_of_a_server() {
    let scratch = Scratch::new().expect("a directory");
    let trace = chat(&scratch);
    let steps = format::read(&trace).expect("a trace").steps;
    // When the last thread is about to answer, the first one waits for it.
    let last = steps
        .iter()
        .rposition(|step| step.thread == 1002)
        .expect("it runs");
    let mut command = Tracefork::new(command_under_test!()).command(&scratch.work());
    command.args(["replay", "--quiet", "--core", "core", "--stop-at"]);
    command.arg((last - 1).to_string()).arg(&trace);
    let finished = process::run(command, TIME_LIMIT).expect("it ends");
    assert_eq!(
        finished.end,
        End::Exit(0),
        "{}",
        String::from_utf8_lossy(&finished.stderr)
    );
    let mut gdb = Command::new(packages::command("gdb", "gdb").expect("gdb"));
    gdb.args(["-nx", "-batch", "-iex", "set debuginfod enabled off"]);
    gdb.args(["-ex", "thread apply all bt"])
        .arg(build("net/chat_server.c"))
        .arg("core");
    gdb.current_dir(scratch.work());
    gdb.env_clear().envs(tracefork_tests::ENVIRONMENT);
    let finished = process::run(gdb, TIME_LIMIT).expect("gdb ends");
    let stacks = text(&finished.stdout);
    for expected in ["LWP 1000", "LWP 1002", "in main (", "serve (", "send_text ("] {
        assert!(stacks.contains(expected), "no {expected} in\n{stacks}");
    }
}

/// What was said in each direction of two streams, whichever was first.
fn said_on_both(scratch: &Scratch, capture: &str) -> Vec<[String; 2]> {
    let mut said: Vec<_> = streams::<2>(scratch, capture)
        .map(|ends| ends.map(|bytes| text(&bytes)))
        .to_vec();
    said.sort();
    said
}

#[test]
fn connections_among_processes_of_the_program_are_in_the_capture() {
    let scratch = Scratch::new().expect("a directory");
    let trace = scratch.beside("recorded.trace");
    let mut run = Tracefork::new(command_under_test!()).command(&scratch.work());
    run.args(["run", "--trace"])
        .arg(&trace)
        .arg("--")
        .arg(build("processes/tcp_fork_server.c"));
    let finished = process::run(run, TIME_LIMIT).expect("it ends");
    assert_eq!(finished.end, End::Exit(0));
    show(&scratch, &trace, &["--pcap", "own.pcap"]);
    packets(&scratch, "own.pcap");
    let said = said_on_both(&scratch, "own.pcap");
    assert_eq!(said, [["one", "ONE"], ["two", "TWO"]]);
    // Both ends are columns already.
    let view: Value = serde_json::from_slice(&show(&scratch, &trace, &["--json"]).stdout).expect("JSON");
    assert_eq!(view["peers"], Value::Array(Vec::new()));
}

#[test]
fn traffic_with_peers_that_are_executed_with_the_program_is_shown_as_with_others() {
    let scratch = Scratch::new().expect("a directory");
    let server = build("peers/lines_server.c");
    let client = build("net/alphabet_client.c");
    let port = test_ports::free().expect("a free port").to_string();
    let mut said = Vec::new();
    for peers in ["real", "inside", "explored"] {
        let trace = scratch.beside(&format!("{peers}.trace"));
        let mut run = Tracefork::new(command_under_test!()).command(&scratch.work());
        let server = format!("{} {port} alphabet", server.display());
        run.args(["run", "--peers", peers, "--server", &server, "--trace"])
            .arg(&trace)
            .arg("--")
            .arg(&client)
            .args([port.as_str(), "2", "1"]);
        let finished = process::run(run, TIME_LIMIT).expect("it ends");
        assert_eq!(finished.end, End::Exit(0), "{}", text(&finished.stderr));
        show(&scratch, &trace, &["--pcap", "peers.pcap"]);
        said.push(said_on_both(&scratch, "peers.pcap"));
        let table = text(&show(&scratch, &trace, &[]).stdout);
        // Where peers are processes with steps of their own, those tell it.
        let is_told = table.contains(&format!("← 127.0.0.1:{port}"));
        assert_eq!(is_told, peers != "explored", "{table}");
    }
    assert!(!said[0][0][0].is_empty() && !said[0][0][1].is_empty(), "{said:?}");
    assert_eq!(said[0], said[1]);
    assert_eq!(said[0], said[2]);
}
