//! `paddlewheel export`: saved models in other formats.

use std::path::PathBuf;

use ::export::{ExportFormat, ExportOptions};
use clap::Args;

use super::print;
use crate::error::Result;
use crate::values::one_of;

/// Writes what a saved folder holds as ONNX, safetensors or Parquet.
#[derive(Args)]
#[command(after_help = "\
Examples:
  paddlewheel export model --to onnx
  paddlewheel export model --to parquet -o rows.parquet --table emb")]
pub(crate) struct Export {
    /// The saved folder
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The format
    #[arg(
        long,
        value_name = "FORMAT",
        value_parser = one_of(ExportFormat::ALL.map(ExportFormat::name), ExportFormat::from_name)
    )]
    to: ExportFormat,
    /// Where to [default: DIR with another ending]
    #[arg(short = 'o', long, value_name = "OUT")]
    out: Option<PathBuf>,
    /// Replace what is there
    #[arg(long)]
    force: bool,
    /// safetensors, parquet: only this variable; OUT is one file
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// onnx: every sequence has exactly one id
    #[arg(long)]
    one_id: bool,
    /// onnx: tables larger than this are inputs of the graph
    #[arg(long, value_name = "N", default_value_t = 1 << 30)]
    table_bytes_max: u64,
}

impl Export {
    pub(crate) fn run(self) -> Result<i32> {
        let mut options = ExportOptions::new(self.to);
        (options.out, options.force, options.table) = (self.out, self.force, self.table);
        options.onnx.one_id = self.one_id;
        options.onnx.table_bytes_max = self.table_bytes_max;
        print(&format!("{}\n", ::export::export(&self.dir, &options)?.text))
    }
}
