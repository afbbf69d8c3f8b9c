//! Another number of servers for a job that runs: `paddlewheel scale DIR --servers N`.
//!
//! The command writes the wanted number into the folder of snapshots. The launcher of the job finds
//! it there, does it (see [`moving`](super::moving)), and answers in another file of the folder.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use durable::Access;

use super::console::Console;
use super::options::ScaleOptions;
use super::snapshots;
use crate::error::{Error, Result, ScaleError};

/// What is wanted.
const WANTED: &str = "scale";
/// What the launcher says to it.
const ANSWER: &str = "scale.answer";
/// How often the folder is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The word before the reason of a refusal.
const REFUSED: &str = "refused";

/// The number of servers that this job should have, if it was asked for.
pub(super) fn wanted(folder: &Path) -> Option<usize> {
    let text = fs::read_to_string(folder.join(WANTED)).ok()?;
    text.strip_prefix("servers ")?.trim_end().parse().ok().filter(|&n| n > 0)
}

/// Tells who asked what became of it; the request is done with.
pub(super) fn answer(folder: &Path, text: &str) -> Result<()> {
    put(folder, ANSWER, text)?;
    remove(folder, WANTED)
}

/// Refuses a request for another number of servers.
pub(super) fn refuse(folder: &Path, why: &str) -> Result<()> {
    answer(folder, &format!("{REFUSED} {why}"))
}

/// Asks the launcher of a job, and waits until it has done it.
pub(super) fn ask(options: &ScaleOptions, console: &mut Console) -> Result<()> {
    let folder = options.folder.as_path();
    let is_running = || snapshots::is_in_use(folder);
    let n_before = snapshots::n_servers(folder)?;
    let n_before = n_before.ok_or_else(|| ScaleError::NoJob(folder.to_path_buf()))?;
    if !is_running() {
        let (folder, nodes) = (folder.to_path_buf(), snapshots::nodes_in_use(folder));
        return Err(match nodes.is_empty() {
            true => ScaleError::NotRunning(folder).into(),
            false => ScaleError::SeveralMachines { folder, nodes }.into(),
        });
    }
    if n_before == options.n_servers {
        console.say(&format!("the job has {n_before} servers already"));
        return Ok(());
    }
    remove(folder, ANSWER)?;
    put(folder, WANTED, &format!("servers {}\n", options.n_servers))?;
    let began = Instant::now();
    loop {
        if let Ok(text) = fs::read_to_string(folder.join(ANSWER)) {
            return match text.strip_prefix(REFUSED) {
                Some(why) => Err(ScaleError::Refused(why.trim().to_string()).into()),
                None => {
                    let seconds = began.elapsed().as_secs_f64();
                    console.say(&format!("{}, after {seconds:.1} s", text.trim_end()));
                    Ok(())
                }
            };
        }
        let waited = began.elapsed();
        if waited >= options.patience || !is_running() {
            remove(folder, WANTED)?;
            let folder = folder.to_path_buf();
            return Err(ScaleError::NoAnswer { folder, seconds: waited.as_secs() }.into());
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Replaces a file atomically: a reader finds the old or the new one.
fn put(folder: &Path, name: &str, text: &str) -> Result<()> {
    let path = folder.join(name);
    let written = durable::replace_with(&path, Access::Owner, text.as_bytes());
    written.map_err(|source| Error::File { what: "write", path, source })
}

fn remove(folder: &Path, name: &str) -> Result<()> {
    let path = folder.join(name);
    match fs::remove_file(&path) {
        Err(source) if source.kind() != ErrorKind::NotFound => {
            Err(Error::File { what: "remove", path, source })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_there_until_it_is_answered() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(wanted(home.path()), None);
        put(home.path(), WANTED, "servers 3\n").unwrap();
        assert_eq!(wanted(home.path()), Some(3));
        refuse(home.path(), "no").unwrap();
        assert_eq!(wanted(home.path()), None);
        assert_eq!(fs::read_to_string(home.path().join(ANSWER)).unwrap(), "refused no");
    }

    #[test]
    fn what_is_no_number_of_servers_is_no_request() {
        let home = tempfile::tempdir().unwrap();
        for text in ["servers 0\n", "servers -1", "servers", "3", "servers 3 4"] {
            put(home.path(), WANTED, text).unwrap();
            assert_eq!(wanted(home.path()), None, "{text}");
        }
    }

    #[test]
    fn a_folder_without_a_job_cannot_be_scaled() {
        let home = tempfile::tempdir().unwrap();
        for folder in [home.path().to_path_buf(), home.path().join("nowhere")] {
            let options = ScaleOptions { folder, n_servers: 3, patience: Duration::ZERO };
            let mut console = Console::new(Box::new(std::io::sink()));
            let error = ask(&options, &mut console).unwrap_err();
            let is_told =
                matches!(&error, Error::Scale(ScaleError::NoJob(at)) if *at == options.folder);
            assert!(is_told && !error.to_string().contains("--resume"), "{error}");
        }
    }
}
