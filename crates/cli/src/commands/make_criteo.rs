//! `paddlewheel make-criteo`: click logs to try things with.

use std::path::PathBuf;

use clap::Args;
use data::ClickLog;

use super::print;
use crate::error::Result;

/// Makes up a click log in Criteo's format, to try things with.
///
/// Writes FOLDER/part-0, part-1 … Nothing else may be in the folder. The same seed gives the same log.
#[derive(Args)]
#[command(after_help = "\
Examples:
  paddlewheel make-criteo clicks
  paddlewheel make-criteo clicks --rows 1000000 --files 8 --seed 2")]
pub(crate) struct MakeCriteo {
    /// Where the log goes
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Rows of all files
    #[arg(long, value_name = "N", default_value_t = ClickLog::default().n_rows)]
    rows: u64,
    /// Files
    #[arg(
        long,
        value_name = "N",
        default_value_t = ClickLog::default().n_files as u64,
        value_parser = clap::value_parser!(u64).range(1..=1_000_000)
    )]
    files: u64,
    /// Which log
    #[arg(long, value_name = "N", default_value_t = ClickLog::default().seed)]
    seed: u64,
}

impl MakeCriteo {
    pub(crate) fn run(self) -> Result<i32> {
        let (n_rows, n_files) = (self.rows, self.files);
        let log = ClickLog { n_rows, n_files: n_files as usize, seed: self.seed };
        let megabytes = log.write(&self.folder)? / 1_000_000;
        let folder = self.folder.display();
        print(&format!("{n_rows} rows in {n_files} files, {megabytes} MB, in {folder}\n"))
    }
}
