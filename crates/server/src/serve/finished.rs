//! That a job came to its end, in the folder of a server. The next run of the job finds it there, and begins anew
//! instead of going on from its end. Launchers have a mark of their own and clear the folder themselves.

use std::fs;
use std::io::ErrorKind;

use super::SnapshotSettings;
use crate::bad_snapshot::BadSnapshot;
use crate::error::{Error, Result};

/// The file, with the run in it.
const MARK: &str = "finished";
/// A run has a short name; a longer file is something else.
const RUN_BYTES_MAX: u64 = 4096;

/// Clears the folder of a server if its job finished in another run; whether it did.
pub(super) fn clear(keeping: &SnapshotSettings, server: u32) -> Result<bool> {
    let folder = keeping.folder_of(server);
    let mark = folder.join(MARK);
    let Some(run) = &keeping.run else { return Ok(false) };
    match fs::metadata(&mark) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Ok(data) if data.len() > RUN_BYTES_MAX => return Ok(false),
        Ok(_) | Err(_) => {}
    }
    let read = |source| train::Error::ReadFile { path: mark.clone(), source };
    let finished = fs::read_to_string(&mark).map_err(read)?;
    if finished == *run {
        // It was started again for a trainer that had not heard of the end.
        return Ok(false);
    }
    // The mark goes last: a crash in between is cleared again.
    let failed = |source| Error::from(BadSnapshot::writing(&folder, source));
    for entry in fs::read_dir(&folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path == mark {
            continue;
        }
        let removed =
            if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(failed)?;
    }
    fs::remove_file(&mark).map_err(failed)?;
    Ok(true)
}

/// Notes that the job came to its end.
pub(super) fn mark(keeping: &SnapshotSettings, server: u32) -> Result<()> {
    let Some(run) = &keeping.run else { return Ok(()) };
    let folder = keeping.folder_of(server);
    let done = durable::replace_with(&folder.join(MARK), durable::Access::Owner, run.as_bytes());
    done.map_err(|source| BadSnapshot::writing(&folder, source).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finished_job_is_cleared_by_the_next_run_only() {
        let folder = tempfile::tempdir().unwrap();
        let of_run = |run: Option<&str>| SnapshotSettings {
            run: run.map(str::to_string),
            ..SnapshotSettings::new(folder.path())
        };
        let own = folder.path().join("server.1");
        fs::create_dir_all(own.join("inner")).unwrap();
        fs::write(own.join("a cut"), "kept").unwrap();
        let (first, second) = (of_run(Some("first")), of_run(Some("second")));
        assert!(!clear(&second, 1).unwrap(), "it has not finished");
        mark(&first, 1).unwrap();
        assert!(!clear(&first, 1).unwrap() && !clear(&of_run(None), 1).unwrap());
        assert!(own.join("a cut").exists());
        assert!(clear(&second, 1).unwrap());
        assert_eq!(fs::read_dir(&own).unwrap().count(), 0);
        assert!(!clear(&second, 1).unwrap());
        mark(&of_run(None), 1).unwrap();
        assert_eq!(fs::read_dir(&own).unwrap().count(), 0, "nobody counts runs");
    }
}
