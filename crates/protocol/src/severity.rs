//! How serious a line of the log is, and the line that launchers wait for. The lines are written elsewhere.

/// Says that a server found its job over when it started; launchers look for it.
pub const JOB_OVER: &str = "the job is over: all trainers were through";

/// How serious a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// All is well.
    Info,
    /// Worth a look.
    Warning,
    /// Something went wrong.
    Error,
}

impl Severity {
    /// The letter that a line of Fluid begins with.
    pub fn letter(self) -> char {
        match self {
            Self::Info => 'I',
            Self::Warning => 'W',
            Self::Error => 'E',
        }
    }
}
