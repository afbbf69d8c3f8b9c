//! `paddlewheel parquet-reader`: Parquet files become samples.

use std::io;

use clap::Args;
use data::{Native, Parquet};

use crate::error::Result;

/// Makes samples of a Parquet file; a pipe command of datasets.
///
/// Rows become samples. A word is a slot, SLOT=COLUMN[,COLUMN…][:float|:id|:hash/N]: numbers (float, unless said
/// otherwise), whole numbers from 0 (id), or texts made ids below N (hash/N). A column of lists makes a slot as long
/// as the list. na=VALUE is the number that a missing value or an empty list stands for, which is an error otherwise.
#[derive(Args)]
#[command(after_help = "\
Examples:
  paddlewheel parquet-reader label=clicked:id x=price city=city:hash/1000 < clicks.parquet")]
pub(crate) struct ParquetReader {
    /// SLOT=COLUMN[,COLUMN…][:float|:id|:hash/N] or na=VALUE
    #[arg(value_name = "SLOT=COLUMN", required = true)]
    slots: Vec<String>,
}

impl ParquetReader {
    pub(crate) fn run(self) -> Result<i32> {
        let words: Vec<&str> = self.slots.iter().map(String::as_str).collect();
        let parquet = Parquet::from_arguments(&words)?;
        Native::Parquet(parquet).run(io::stdin().lock(), io::stdout().lock())?;
        Ok(0)
    }
}
