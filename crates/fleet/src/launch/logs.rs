//! Where the logs of a job go. Two jobs that run at the same time do not write into one folder.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

/// Where locks lie: one file for each folder of logs ever used.
const FOLDER: &str = "paddlewheel-logs";
/// The end of a path says enough; file names have a limit.
const NAME_MAX: usize = 200;

/// A folder that is this job's as long as this lives.
#[derive(Debug)]
pub(super) struct Logs {
    pub(super) folder: PathBuf,
    /// What to tell the user, if it is not the one that was asked for.
    pub(super) line: Option<String>,
    _lock: Option<File>,
}

impl Logs {
    /// Takes a folder, or a folder inside it while another job writes there. If no lock is possible
    /// (a full or foreign folder), it is used without one. Launchers of one job on several nodes
    /// may share a folder, because their files have different names.
    pub(super) fn take(wanted: &Path, node: Option<&str>) -> Self {
        let lock = lock_file(wanted, node.unwrap_or_default());
        let is_taken = |file: &File| matches!(file.try_lock(), Err(TryLockError::WouldBlock));
        if !lock.as_ref().is_some_and(is_taken) {
            return Self { folder: wanted.to_path_buf(), line: None, _lock: lock };
        }
        let folder = wanted.join(format!("job.{}", std::process::id()));
        let line = format!(
            "another job is running and writes its logs to {}; those of this one go to {}",
            wanted.display(),
            folder.display()
        );
        Self { folder, line: Some(line), _lock: None }
    }
}

fn lock_file(wanted: &Path, node: &str) -> Option<File> {
    let folder = std::env::temp_dir().join(FOLDER);
    fs::create_dir_all(&folder).ok()?;
    let full = fs::canonicalize(wanted).or_else(|_| std::path::absolute(wanted)).ok()?;
    let name = format!("{}@{node}", full.to_string_lossy()).replace('/', "_");
    let letters: Vec<char> = name.chars().collect();
    let name: String = letters[letters.len().saturating_sub(NAME_MAX)..].iter().collect();
    let path = folder.join(name);
    File::open(&path).or_else(|_| File::create(&path)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_jobs_have_two_folders() {
        let home = tempfile::tempdir().unwrap();
        let wanted = home.path().join("logs");
        let first = Logs::take(&wanted, None);
        assert_eq!((&first.folder, &first.line), (&wanted, &None));
        let second = Logs::take(&wanted, None);
        assert_eq!(second.folder, wanted.join(format!("job.{}", std::process::id())));
        assert!(second.line.is_some());
        assert_eq!(Logs::take(&wanted, Some("10.0.0.2")).folder, wanted, "another node of a job");
        drop(first);
        assert_eq!(Logs::take(&wanted, None).folder, wanted);
    }
}
