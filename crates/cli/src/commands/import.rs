//! `paddlewheel import`: rows for a saved table.

use std::path::PathBuf;

use clap::Args;

use super::print;
use crate::error::Result;

/// Puts the rows of a file into a table of a saved folder.
///
/// Rows that are not there yet are added, if the folder keeps only the rows that exist.
#[derive(Args)]
#[command(after_help = "\
Examples:
  paddlewheel import model emb rows.parquet")]
pub(crate) struct Import {
    /// The saved folder
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The table
    #[arg(value_name = "TABLE")]
    table: String,
    /// The rows, .parquet or .safetensors
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Import {
    pub(crate) fn run(self) -> Result<i32> {
        let imported = ::export::import_rows(&self.dir, &self.table, &self.file)?;
        let table = &self.table;
        let replaced = imported.replaced;
        let added = imported.added;
        print(&format!("{table}: {replaced} rows replaced, {added} added\n"))
    }
}
