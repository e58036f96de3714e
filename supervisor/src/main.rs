//! The `tracefork` command.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    tracefork::main()
}
