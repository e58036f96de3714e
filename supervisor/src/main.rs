//! The `tracefork` command.

fn main() -> std::process::ExitCode {
    tracefork::main()
}
