//! The script of a job's processes.

use std::path::PathBuf;

/// The script to start, and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptCommand {
    /// The script or executable.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
}

impl ScriptCommand {
    /// Whether Python runs it.
    pub fn is_python(&self) -> bool {
        self.path.extension().is_some_and(|ending| ending == "py")
    }
}
