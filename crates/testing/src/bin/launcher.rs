//! The command `paddlewheel` without Python, for tests: `launcher launch_ps …`.

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
