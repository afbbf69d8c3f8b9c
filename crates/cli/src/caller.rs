//! The caller of the command.

use std::path::PathBuf;

use fleet::launch::Host;
use fleet::{Interpreter, ScriptCommand};

use crate::error::Result;

/// The caller of the command: a Python with our package, or a plain program.
#[derive(Clone, Debug)]
pub struct Caller {
    python: Option<Interpreter>,
    /// The words that are `paddlewheel` on this machine.
    program: Vec<String>,
}

impl Caller {
    /// A program of its own, at this path.
    pub fn plain(program: PathBuf) -> Self {
        Self { python: None, program: vec![program.to_string_lossy().into_owned()] }
    }

    /// A Python process.
    pub fn python(python: Interpreter) -> Self {
        let path = python.python.to_string_lossy().into_owned();
        let program = vec![path, "-m".to_string(), "paddlewheel".to_string()];
        Self { python: Some(python), program }
    }

    /// The Python that runs scripts; it is looked for if none has called.
    pub(crate) fn interpreter(&self) -> Result<Interpreter> {
        match &self.python {
            Some(python) => Ok(python.clone()),
            None => Ok(Interpreter::find()?),
        }
    }

    /// The programs that start the processes of a job. An executable needs no Python; the launcher reports a
    /// missing script.
    pub(crate) fn host(&self, script: &ScriptCommand) -> Result<Host> {
        let needs_python = script.is_python() && script.path.exists();
        if needs_python || self.python.is_some() {
            self.python_host()
        } else {
            Ok(Host { python: "python3".into(), alias: None, program: self.program.clone() })
        }
    }

    /// The same, with Python in any case.
    pub(crate) fn python_host(&self) -> Result<Host> {
        let Interpreter { python, alias, .. } = self.interpreter()?;
        Ok(Host { python, alias: Some(alias), program: self.program.clone() })
    }
}
