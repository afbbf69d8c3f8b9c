//! The command `paddlewheel` without Python.

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
