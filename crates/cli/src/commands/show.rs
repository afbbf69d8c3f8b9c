//! `paddlewheel show`: the contents of a saved folder.

use std::path::PathBuf;

use clap::Args;

use super::print;
use crate::error::Result;

/// Says what a saved folder holds: variables, rows, bytes, saves, and its program.
///
/// The folder may also be the prefix of fluid.save, a folder of checkpoints, or the folder of launch_ps
/// --snapshot_dir.
#[derive(Args)]
#[command(after_help = "\
Examples:
  paddlewheel show model
  paddlewheel show model --svg model.svg")]
pub(crate) struct Show {
    /// The saved folder
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Draw the program into this file instead
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Replace the file if it is there
    #[arg(long, requires = "svg")]
    force: bool,
}

impl Show {
    pub(crate) fn run(self) -> Result<i32> {
        match &self.svg {
            None => print(&::export::text(&self.dir)?),
            Some(svg) => {
                ::export::draw(&self.dir, svg, self.force)?;
                print(&format!("{}\n", svg.display()))
            }
        }
    }
}
