//! The list of a job's servers in its folder of snapshots, if they are others than at the start.
//!
//! A launcher that gives a running job another number of servers starts the new ones beforehand. They stand
//! by until the list names them. It is written when the old ones have ended: from then on nobody writes
//! to their folders, and trainers that look for servers find the new ones.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use durable::Access;

/// The list.
const LIST: &str = "servers";
/// Before the names of what servers leave that stand by.
const STANDBY: &str = "standby.";

/// Names the servers of a job.
pub fn write(folder: &Path, endpoints: &[String]) -> io::Result<()> {
    durable::replace_with(&folder.join(LIST), Access::Owner, to_text(endpoints).as_bytes())
}

/// The servers of a job, if they are others than at its start.
pub fn read(folder: &Path) -> Option<Vec<String>> {
    let text = fs::read_to_string(folder.join(LIST)).ok()?;
    let (list, _) = text.split_once(' ')?;
    let list: Vec<String> = list.split(',').map(str::to_string).collect();
    // One that is damaged names nobody: its launcher writes it again.
    (to_text(&list) == text).then_some(list).filter(|list| !list.iter().any(String::is_empty))
}

/// The list and its checksum.
fn to_text(endpoints: &[String]) -> String {
    let list = endpoints.join(",");
    format!("{list} {:08x}\n", crc32fast::hash(list.as_bytes()))
}

/// The servers are those of the start.
pub fn remove(folder: &Path) -> io::Result<()> {
    removed(&folder.join(LIST))
}

/// The file by which a server says that it stands by.
pub fn standing_by(folder: &Path, endpoint: &str) -> PathBuf {
    folder.join(format!("{STANDBY}{}", endpoint.replace(['/', ':'], "_")))
}

/// The folder in which a server that stands by writes what it takes over. Nothing in it counts.
pub fn aside(folder: &Path, server: u32) -> PathBuf {
    folder.join(format!("{STANDBY}server.{server}"))
}

/// Removes what servers that stood by have left, in a folder in which none does.
pub fn clear_standby(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(STANDBY)) {
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?
            } else {
                removed(&entry.path())?
            }
        }
    }
    Ok(())
}

/// A server stands by no more.
pub fn stood_by(folder: &Path, endpoint: &str) -> io::Result<()> {
    removed(&standing_by(folder, endpoint))
}

fn removed(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(read(home.path()), None);
        let list = vec!["127.0.0.1:6170".to_string(), "127.0.0.1:6171".to_string()];
        write(home.path(), &list).unwrap();
        assert_eq!(read(home.path()), Some(list));
        let bytes = fs::read(home.path().join(LIST)).unwrap();
        for bit in 0..8 * bytes.len() {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            fs::write(home.path().join(LIST), &bad).unwrap();
            assert_eq!(read(home.path()), None, "{bad:?}");
        }
        for bad in ["".to_string(), "\n".to_string(), to_text(&[String::new()]), "a:1".to_string()]
        {
            fs::write(home.path().join(LIST), &bad).unwrap();
            assert_eq!(read(home.path()), None, "{bad:?}");
        }
        remove(home.path()).unwrap();
        remove(home.path()).unwrap();
    }

    #[test]
    fn what_stood_by_leaves_nothing() {
        let home = tempfile::tempdir().unwrap();
        let aside = aside(home.path(), 2);
        fs::create_dir(&aside).unwrap();
        fs::write(aside.join("base.3"), "rows").unwrap();
        fs::write(standing_by(home.path(), "127.0.0.1:6170"), "").unwrap();
        fs::write(home.path().join("job"), "").unwrap();
        clear_standby(home.path()).unwrap();
        let left: Vec<_> =
            fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["job"]);
    }
}
