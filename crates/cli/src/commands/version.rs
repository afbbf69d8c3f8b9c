//! `paddlewheel version`.

use clap::Args;

use super::print;
use crate::commands::tree::VERSIONS;
use crate::error::Result;

/// Prints our version and that of Fluid whose behaviour we have.
#[derive(Args)]
#[command(after_help = "\
Examples:
  paddlewheel version")]
pub(crate) struct Version {}

impl Version {
    pub(crate) fn run(self) -> Result<i32> {
        print(&format!("paddlewheel {VERSIONS}\n"))
    }
}
