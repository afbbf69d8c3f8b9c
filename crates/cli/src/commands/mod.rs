//! The sub-commands, one file each. *Add a sub-command: a file, its `mod`, and a line in [`SubCommand`] and in
//! its `run`.*

mod completion;
mod criteo_reader;
mod csv_reader;
mod export;
mod fit;
mod import;
mod job;
mod launch;
mod launch_ps;
mod make_criteo;
mod on;
mod parquet_reader;
mod pods;
mod render;
mod run;
mod scale;
mod serve;
mod show;
pub(crate) mod tree;
mod version;
mod watch;

use clap::Parser;

use crate::caller::Caller;
use crate::commands::tree::VERSIONS;
use crate::error::Result;

/// Trains, serves and inspects sparse models; runs Fluid scripts.
///
/// Trains click-through models and others that are written as PaddlePaddle Fluid programs, on one machine or
/// with parameter servers on many; answers predictions of trained models over HTTP; shows and converts what
/// was saved.
#[derive(Parser)]
#[command(
    name = "paddlewheel",
    version = VERSIONS,
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = "\
Examples:
  paddlewheel run train.py --epochs 3
  paddlewheel launch_ps --worker_num 2 --server_num 2 train.py
  paddlewheel serve model --follow
  paddlewheel help launch_ps"
)]
pub(crate) enum SubCommand {
    Run(run::Run),
    #[command(name = "launch_ps")]
    LaunchPs(Box<launch_ps::LaunchPs>),
    Launch(Box<launch::Launch>),
    Scale(scale::Scale),
    Watch(watch::WatchCommand),
    Render(Box<render::Render>),
    Serve(Box<serve::Serve>),
    Fit(Box<fit::Fit>),
    Show(show::Show),
    Export(export::Export),
    Import(import::Import),
    CriteoReader(criteo_reader::CriteoReader),
    CsvReader(csv_reader::CsvReader),
    ParquetReader(parquet_reader::ParquetReader),
    MakeCriteo(make_criteo::MakeCriteo),
    Completion(completion::Completion),
    Version(version::Version),
}

impl SubCommand {
    /// Does it; returns the exit code.
    pub(crate) fn run(self, caller: &Caller) -> Result<i32> {
        match self {
            SubCommand::Run(command) => command.run(caller),
            SubCommand::LaunchPs(command) => command.run(caller),
            SubCommand::Launch(command) => command.run(caller),
            SubCommand::Scale(command) => command.run(),
            SubCommand::Watch(command) => command.run(),
            SubCommand::Render(command) => command.run(),
            SubCommand::Serve(command) => command.run(),
            SubCommand::Fit(command) => command.run(),
            SubCommand::Show(command) => command.run(),
            SubCommand::Export(command) => command.run(),
            SubCommand::Import(command) => command.run(),
            SubCommand::CriteoReader(command) => command.run(),
            SubCommand::CsvReader(command) => command.run(),
            SubCommand::ParquetReader(command) => command.run(),
            SubCommand::MakeCriteo(command) => command.run(),
            SubCommand::Completion(command) => command.run(),
            SubCommand::Version(command) => command.run(),
        }
    }

    /// Whether it speaks as launchers do.
    pub(crate) fn is_launcher(&self) -> bool {
        matches!(
            self,
            SubCommand::LaunchPs(_)
                | SubCommand::Launch(_)
                | SubCommand::Scale(_)
                | SubCommand::Watch(_)
        )
    }
}

/// Prints a text; returns the exit code of a command that has succeeded.
fn print(text: &str) -> Result<i32> {
    use std::io::Write;
    fleet::logging::make_room();
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(0)
}

#[cfg(test)]
mod tests;
