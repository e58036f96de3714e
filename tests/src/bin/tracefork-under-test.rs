//! The `tracefork` command, built by this package so that its tests know where it is.

fn main() -> std::process::ExitCode {
    tracefork::main()
}
