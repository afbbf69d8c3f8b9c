//! The command `paddlewheel`: its options and sub-commands.
//!
//! A sub-command is a file in [`commands`]: its options as a struct, from which `clap` makes the help, the
//! completion and the errors, and a call of the crate that does the work.
//!
//! **Invariant:** the only crate that knows `clap`. A command does nothing that a Rust program could not do
//! by calling the crates above.

mod caller;
mod commands;
mod error;
mod page;
mod values;
mod words;

pub use caller::Caller;
pub use commands::tree::tree;
pub use page::page;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::FromArgMatches;
use clap::error::ErrorKind;
use fleet::launch::Console;
use fleet::logging::printable;

use commands::SubCommand;
use error::Error;

/// Exit code of a command that failed.
const FAILED: i32 = 1;

/// The command as a program of its own.
pub fn main() -> ExitCode {
    fleet::bug::report_panics(commands::tree::VERSION);
    // The start of an executor or launcher reports invalid settings, with a name for them.
    let _ = fleet::logging::begin();
    let process = fleet::env::own_process();
    let code = run(&process.words, &Caller::plain(process.program));
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

/// Runs the command of the words behind `paddlewheel`; returns the exit code. Everything worth knowing has been
/// printed.
pub fn run(words: &[OsString], caller: &Caller) -> i32 {
    let mut tree = tree();
    tree.build();
    let words = words::in_order(&tree, words);
    let found = tree.try_get_matches_from_mut(words).and_then(|matches| {
        let command = SubCommand::from_arg_matches(&matches)?;
        let name = matches.subcommand_name().unwrap_or_default().to_string();
        Ok((command, name))
    });
    let (command, name) = match found {
        Ok(found) => found,
        Err(error) => return explain(&error),
    };
    let is_launcher = command.is_launcher();
    match command.run(caller) {
        Ok(code) => code,
        Err(error) if error.is_usage() => {
            let used = tree
                .find_subcommand_mut(&name)
                .map(|used| used.error(ErrorKind::ValueValidation, error.to_string()));
            used.map_or(FAILED, |used| explain(&used))
        }
        // The usual end of a pipe.
        Err(Error::Output(source)) if source.kind() == io::ErrorKind::BrokenPipe => FAILED,
        Err(error) => {
            if is_launcher {
                Console::stderr().say(&printable(&format!("error: {error}")));
            } else {
                // A closed stderr is not an error of this process.
                let error = error.to_string();
                drop(writeln!(io::stderr(), "paddlewheel: {}", printable(&error)));
            }
            FAILED
        }
    }
}

/// Prints help or the error in the words; returns the exit code.
fn explain(error: &clap::Error) -> i32 {
    let _ = error.print();
    error.exit_code()
}
