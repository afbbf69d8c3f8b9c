//! Another number of servers for a job that runs: `paddlewheel scale DIR --servers N`.
//!
//! The command writes the wanted number into the folder of snapshots, with a name that no other request has. The
//! launcher of the job finds it there, does it (see [`moving`](super::moving)), and answers in another file of the
//! folder, by that name.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use durable::Access;

use super::console::Console;
use super::options::ScaleOptions;
use super::snapshots;
use crate::error::{Error, Result, ScaleError};

/// The file of the request.
const WANTED: &str = "scale";
/// The file of the launcher's answer.
const ANSWER: &str = "scale.answer";
/// Locked as long as a command waits for an answer.
const LOCK: &str = "scale.lock";
/// How often the folder is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The words before the outcome, and before the reason of a refusal.
const DONE: &str = "done";
const REFUSED: &str = "refused";

/// A request for another number of servers. An answer names its request, so that no command takes the answer to another
/// one for its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScaleRequest {
    pub(super) n_servers: usize,
    id: String,
}

impl ScaleRequest {
    fn new(n_servers: usize) -> Self {
        let random = || RandomState::new().hash_one((std::process::id(), n_servers));
        Self { n_servers, id: format!("{:016x}{:016x}", random(), random()) }
    }

    fn to_text(&self) -> String {
        format!("servers {} request {}\n", self.n_servers, self.id)
    }

    fn from_text(text: &str) -> Option<Self> {
        let (number, id) = text.strip_prefix("servers ")?.split_once(" request ")?;
        let id = id.strip_suffix('\n')?;
        let is_id = id.len() == 32 && id.bytes().all(|letter| letter.is_ascii_hexdigit());
        let n_servers = number.parse().ok().filter(|&n| n > 0 && is_id)?;
        Some(Self { n_servers, id: id.to_string() })
    }

    /// The launcher's answer to this request, if there is one yet.
    fn answer(&self, folder: &Path) -> Option<std::result::Result<String, String>> {
        let text = fs::read_to_string(folder.join(ANSWER)).ok()?;
        let text = text.strip_prefix(&format!("request {} ", self.id))?;
        let (word, rest) = text.split_once(' ')?;
        let rest = rest.trim_end().to_string();
        match word {
            DONE => Some(Ok(rest)),
            REFUSED => Some(Err(rest)),
            _ => None,
        }
    }

    /// Removes the request.
    fn withdraw(&self, folder: &Path) -> Result<()> {
        match wanted(folder) {
            Some(other) if other != *self => Ok(()),
            _ => remove(folder, WANTED),
        }
    }
}

/// The number of servers that this job should have, if it was asked for.
pub(super) fn wanted(folder: &Path) -> Option<ScaleRequest> {
    ScaleRequest::from_text(&fs::read_to_string(folder.join(WANTED)).ok()?)
}

/// Drops the request to an earlier launcher, unless a command still waits for the answer: then it is a
/// request to this one.
pub(super) fn begin(folder: &Path) -> Result<()> {
    if snapshots::is_held(&folder.join(LOCK)) { Ok(()) } else { remove(folder, WANTED) }
}

/// Tells the asker that the job has the servers that were asked for; the request is done with.
pub(super) fn done(folder: &Path, request: &ScaleRequest, text: &str) -> Result<()> {
    answer(folder, request, DONE, text)
}

/// Refuses a request for another number of servers.
pub(super) fn refuse(folder: &Path, request: &ScaleRequest, why: &str) -> Result<()> {
    answer(folder, request, REFUSED, why)
}

fn answer(folder: &Path, request: &ScaleRequest, word: &str, text: &str) -> Result<()> {
    put(folder, ANSWER, &format!("request {} {word} {text}\n", request.id))?;
    request.withdraw(folder)
}

/// Asks the launcher of a job, and waits until it has done it.
pub(super) fn ask(options: &ScaleOptions, console: &mut Console) -> Result<()> {
    let folder = options.folder.as_path();
    let n_before = n_servers(folder)?;
    if !snapshots::is_in_use(folder) {
        let (folder, nodes) = (folder.to_path_buf(), snapshots::nodes_in_use(folder));
        return Err(if nodes.is_empty() {
            ScaleError::NotRunning(folder).into()
        } else {
            ScaleError::SeveralMachines { folder, nodes }.into()
        });
    }
    if n_before == options.n_servers {
        console.say(&format!("the job has {n_before} servers already"));
        return Ok(());
    }
    let path = folder.join(LOCK);
    let lock = File::options().create(true).append(true).open(&path);
    let lock = lock.map_err(|source| Error::File { what: "write", path, source })?;
    if snapshots::is_locked(&lock) {
        let why =
            "another command waits for another number of servers; ask again when that is over";
        return Err(ScaleError::Refused(why.to_string()).into());
    }
    let request = ScaleRequest::new(options.n_servers);
    put(folder, WANTED, &request.to_text())?;
    let began = Instant::now();
    let text = wait(options, &request, began)?;
    let n_found = n_servers(folder)?;
    if n_found != options.n_servers {
        let (folder, n_wanted) = (folder.to_path_buf(), options.n_servers);
        return Err(ScaleError::NotDone { folder, n_found, n_wanted }.into());
    }
    console.say(&format!("{text}, after {:.1} s", began.elapsed().as_secs_f64()));
    Ok(())
}

/// How many servers the job of a folder has.
fn n_servers(folder: &Path) -> Result<usize> {
    let found = snapshots::n_servers(folder)?;
    Ok(found.ok_or_else(|| ScaleError::NoJob(folder.to_path_buf()))?)
}

/// Waits for the answer to a request.
fn wait(options: &ScaleOptions, request: &ScaleRequest, began: Instant) -> Result<String> {
    let folder = options.folder.as_path();
    loop {
        // An answer that came before the end of the launcher counts.
        let is_running = snapshots::is_in_use(folder);
        match request.answer(folder) {
            Some(Ok(text)) => return Ok(text),
            Some(Err(why)) => return Err(ScaleError::Refused(why).into()),
            None => {}
        }
        let waited = began.elapsed();
        if waited >= options.patience || !is_running {
            request.withdraw(folder)?;
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
        let request = ScaleRequest::new(3);
        put(home.path(), WANTED, &request.to_text()).unwrap();
        assert_eq!(wanted(home.path()), Some(request.clone()));
        refuse(home.path(), &request, "no").unwrap();
        assert_eq!(wanted(home.path()), None);
        assert_eq!(request.answer(home.path()), Some(Err("no".to_string())));
    }

    #[test]
    fn an_answer_is_for_one_request() {
        let home = tempfile::tempdir().unwrap();
        let (old, new) = (ScaleRequest::new(3), ScaleRequest::new(3));
        assert_ne!(old, new);
        put(home.path(), WANTED, &new.to_text()).unwrap();
        done(home.path(), &old, "the job has 3 servers").unwrap();
        assert_eq!(new.answer(home.path()), None);
        assert_eq!(wanted(home.path()), Some(new.clone()), "it stays until it is answered");
        done(home.path(), &new, "the job has 3 servers").unwrap();
        assert_eq!(new.answer(home.path()), Some(Ok("the job has 3 servers".to_string())));
    }

    #[test]
    fn launchers_that_share_a_folder_answer_at_once() {
        let home = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for at in 0..4 {
                let home = home.path();
                scope.spawn(move || {
                    let request = ScaleRequest::new(at + 1);
                    for _ in 0..50 {
                        refuse(home, &request, "no").unwrap();
                    }
                });
            }
        });
        let names = fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), [ANSWER], "nothing else is left");
    }

    #[test]
    fn a_launcher_drops_what_nobody_waits_for() {
        let home = tempfile::tempdir().unwrap();
        let request = ScaleRequest::new(3);
        put(home.path(), WANTED, &request.to_text()).unwrap();
        let lock = File::create(home.path().join(LOCK)).unwrap();
        lock.lock().unwrap();
        begin(home.path()).unwrap();
        assert_eq!(wanted(home.path()), Some(request), "a command waits for it");
        drop(lock);
        begin(home.path()).unwrap();
        assert_eq!(wanted(home.path()), None);
    }

    #[test]
    fn what_is_no_number_of_servers_is_no_request() {
        let home = tempfile::tempdir().unwrap();
        let id = "0".repeat(32);
        for text in ["servers 0", "servers -1", "servers", "3", "servers 3 4"] {
            put(home.path(), WANTED, &format!("{text} request {id}\n")).unwrap();
            assert_eq!(wanted(home.path()), None, "{text}");
        }
        for text in ["servers 3\n", "servers 3 request 12\n"] {
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
