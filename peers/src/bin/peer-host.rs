//! The process that stands between the supervisor and a peer, as a binary of its own, so that this crate's tests can launch peers without the `tracefork` binary.

fn main() -> std::process::ExitCode {
    peers::host::peer_main(std::env::args_os().skip(1))
}
