//! `paddlewheel csv-reader`: tables of text become samples.

use std::io;

use clap::Args;
use data::{Csv, Native};

use crate::error::Result;

/// Makes samples of a table of text; a pipe command of datasets.
///
/// Lines of values, the first with the names of the columns, become slots. A word is a slot,
/// SLOT=COLUMN[,COLUMN…][:float|:id|:hash/N]: numbers (float, unless said otherwise), whole numbers from 0 (id), or
/// texts made ids below N (hash/N). sep=CHARACTER is what stands between values: a character, or comma (unless said
/// otherwise), tab, semicolon, space, pipe. na=VALUE is the number that an empty cell stands for, which is an error
/// otherwise (an empty text is a text).
#[derive(Args)]
#[command(after_help = "\
Examples:
  paddlewheel csv-reader label=clicked x=price,age city=city:hash/1000 < clicks.csv
  paddlewheel csv-reader sep=tab na=0 user=user_id:id < users.tsv")]
pub(crate) struct CsvReader {
    /// SLOT=COLUMN[,COLUMN…][:float|:id|:hash/N], sep=CHARACTER or na=VALUE
    #[arg(value_name = "SLOT=COLUMN", required = true)]
    slots: Vec<String>,
}

impl CsvReader {
    pub(crate) fn run(self) -> Result<i32> {
        let words: Vec<&str> = self.slots.iter().map(String::as_str).collect();
        let csv = Csv::from_arguments(&words)?;
        Native::Csv(csv).run(io::stdin().lock(), io::stdout().lock())?;
        Ok(0)
    }
}
