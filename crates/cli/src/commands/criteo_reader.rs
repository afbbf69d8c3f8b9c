//! `paddlewheel criteo-reader`: click logs become samples.

use std::io;

use clap::{Args, ValueEnum};
use data::{Criteo, Dense, Hash, Native};

use crate::error::Result;

/// How a text becomes an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum HashName {
    /// As hash of Python does, with PYTHONHASHSEED=0
    Python,
    /// By the checksum of "SLOT:TEXT"
    Crc32,
}

/// How a number becomes small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DenseName {
    /// (x - least) / range, by column
    Scaled,
    /// log(1 + x) / 8
    Log,
    /// log(1 + x)
    Log1p,
}

/// Makes samples of a click log as Criteo published it; a pipe command of datasets.
///
/// Lines of a label, 13 numbers and 26 texts, separated by tabs, become dense_input (13 numbers), C1 … C26 (an id
/// below N each) and label. Text on standard input becomes samples on standard output; a dataset whose pipe
/// command this is does the same without a process.
#[derive(Args)]
#[command(after_help = "\
Examples:
  paddlewheel criteo-reader 1000001 < part-0 > samples
  paddlewheel criteo-reader 1000001 --hash crc32 --dense log < part-0")]
pub(crate) struct CriteoReader {
    /// Ids are below this
    #[arg(value_name = "N", value_parser = clap::value_parser!(u64).range(1..=i64::MAX as u64))]
    n_ids: u64,
    /// How texts become ids
    #[arg(long, value_name = "HOW", default_value = "python")]
    hash: HashName,
    /// How numbers become small
    #[arg(long, value_name = "HOW", default_value = "scaled")]
    dense: DenseName,
}

impl CriteoReader {
    pub(crate) fn run(self) -> Result<i32> {
        let criteo = Criteo {
            n_ids: self.n_ids,
            hash: match self.hash {
                HashName::Python => Hash::Python,
                HashName::Crc32 => Hash::Crc32,
            },
            dense: match self.dense {
                DenseName::Scaled => Dense::Scaled,
                DenseName::Log => Dense::Log,
                DenseName::Log1p => Dense::Log1p,
            },
        };
        Native::Criteo(criteo).run(io::stdin().lock(), io::stdout().lock())?;
        Ok(0)
    }
}
