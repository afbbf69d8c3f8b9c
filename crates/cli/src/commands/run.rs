//! `paddlewheel run`: Python, in which `import paddle` means us.

use std::ffi::OsString;
use std::io::{self, Write};

use clap::Args;

use crate::caller::Caller;
use crate::error::Result;

/// Runs a script with Python; in it, `import paddle` imports paddlewheel.
///
/// Everything behind `run` goes to Python as it is. Ids that a script makes with `hash` are the same in every
/// run (PYTHONHASHSEED is 0 unless it is set).
#[derive(Args)]
#[command(after_help = "\
Examples:
  paddlewheel run train.py --epochs 3
  paddlewheel run -m pytest tests")]
pub(crate) struct Run {
    /// A script, or options of Python, and arguments of the script
    #[arg(
        value_name = "SCRIPT",
        required = true,
        num_args = 1..,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    script: Vec<OsString>,
}

impl Run {
    pub(crate) fn run(self, caller: &Caller) -> Result<i32> {
        let python = caller.interpreter()?;
        if let Some(other) = python.other_paddle() {
            let (text, other) = ("`import paddle` means paddlewheel here", other.display());
            // A closed stderr is not a reason to stop training.
            let _ = writeln!(io::stderr(), "paddlewheel: {text}, not the one in {other}");
        }
        Err(python.exec(&self.script).into())
    }
}
