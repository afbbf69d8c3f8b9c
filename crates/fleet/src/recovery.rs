//! Settings of recovery: the folder of snapshots, the interval between them, and the number of this
//! start. A launcher sets them in the environment.

use std::path::PathBuf;
use std::time::Duration;

use crate::env::{self, EnvVars};
use crate::error::Result;
use crate::flags::Flags;

/// Settings of recovery of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The folder of snapshots and journals; none: a process that dies is lost.
    pub snapshot_dir: Option<PathBuf>,
    /// How often snapshots are written.
    pub snapshot_every: Duration,
    /// The snapshots of another job to continue from, or of this one with other numbers of
    /// processes.
    pub resume: Option<PathBuf>,
    /// How often the launcher has started this process again: 0 in the first process.
    pub n_restarts: u32,
}

impl Recovery {
    /// Reads it from the environment.
    pub fn from_environment(var: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let flags = Flags::from_environment(var)?;
        let restarts = EnvVars(var).first(env::RESTARTS);
        Ok(Self {
            snapshot_dir: flags.snapshot_dir(),
            snapshot_every: flags.snapshot_every()?,
            resume: flags.resume(),
            n_restarts: restarts.map_or(Ok(0), |found| found.number())?,
        })
    }

    /// The variables that tell a process the same.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let Some(folder) = &self.snapshot_dir else { return Vec::new() };
        let mut variables = vec![
            ("FLAGS_snapshot_dir", folder.to_string_lossy().into_owned()),
            ("FLAGS_snapshot_secs", self.snapshot_every.as_secs_f64().to_string()),
            (env::RESTARTS[0], self.n_restarts.to_string()),
        ];
        let resume = self.resume.as_ref().map(|folder| folder.to_string_lossy().into_owned());
        variables.extend(resume.map(|folder| ("FLAGS_resume", folder)));
        variables
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use crate::env::tests::vars;

    #[test]
    fn a_process_reads_what_its_launcher_wrote() {
        let told = Recovery {
            snapshot_dir: Some("/data/job 7".into()),
            snapshot_every: Duration::from_millis(1500),
            resume: Some("/data/old".into()),
            n_restarts: 3,
        };
        let variables = told.variables();
        let list: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_eq!(Recovery::from_environment(&vars(&list)).unwrap(), told);
        let nothing = Recovery::from_environment(&vars(&[])).unwrap();
        assert_eq!((nothing.snapshot_dir.clone(), nothing.n_restarts), (None, 0));
        assert!(nothing.variables().is_empty());
    }

    #[test]
    fn refuses_what_is_no_number() {
        let check = |name: &str, value: &str| {
            let list = [(name, value)];
            Recovery::from_environment(&vars(&list)).unwrap_err()
        };
        assert!(matches!(check("PADDLE_RESTARTS", "-1"), Error::BadVariable { .. }));
        assert!(matches!(check("FLAGS_snapshot_secs", "-1"), Error::BadFlag { .. }));
    }
}
