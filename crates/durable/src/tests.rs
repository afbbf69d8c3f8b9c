use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;

const N_TURNS: usize = 100;
const N_BYTES: usize = 10_000;

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn replace_often(path: &Path, byte: u8) {
    for _ in 0..N_TURNS {
        replace(path, Access::Umask, |file| {
            // In pieces, so that a reader could see a part.
            (0..10).try_for_each(|_| file.write_all(&[byte; N_BYTES / 10]))
        })
        .unwrap();
    }
}

#[test]
fn a_reader_sees_whole_files_while_threads_replace_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("list");
    replace_with(&path, Access::Umask, &[b'a'; N_BYTES]).unwrap();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut n_read = 0;
            while !is_done.load(Ordering::Relaxed) || n_read == 0 {
                let bytes = fs::read(&path).unwrap();
                assert_eq!(bytes.len(), N_BYTES);
                assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a mixture");
                n_read += 1;
            }
        });
        let writers = [b'a', b'b'].map(|byte| {
            let path = &path;
            scope.spawn(move || replace_often(path, byte))
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        is_done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    assert_eq!(names(folder.path()), ["list"]);
}

#[test]
fn after_an_error_the_old_file_is_there_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    replace_with(&path, Access::Umask, b"one").unwrap();
    let failed = replace(&path, Access::Umask, |file| {
        file.write_all(b"tw")?;
        Err(io::Error::other("the disk is full"))
    });
    assert_eq!(failed.unwrap_err().to_string(), "the disk is full");
    assert_eq!(fs::read(&path).unwrap(), b"one");
    assert_eq!(names(folder.path()), ["x"]);
    let error = replace_with(&folder.path().join("no/x"), Access::Umask, b"").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

#[test]
fn what_dead_processes_left_is_removed_and_what_others_write_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    let other = Replacement::begin(&path, Access::Umask).unwrap();
    fs::write(folder.path().join(".x.12-0-0123456789abcdef.new"), "half").unwrap();
    fs::write(folder.path().join(".x.mine.new"), "of a user").unwrap();
    fs::write(folder.path().join(".x.y.12-0-0123456789abcdef.new"), "of x.y").unwrap();
    replace_with(&path, Access::Umask, b"1").unwrap();
    let left = names(folder.path());
    assert_eq!(left.len(), 4, "{left:?}");
    other.commit().unwrap();
    assert_eq!(names(folder.path()), [".x.mine.new", ".x.y.12-0-0123456789abcdef.new", "x"]);
    assert_eq!(fs::read(&path).unwrap(), b"");
}

#[test]
fn folders_and_links_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (fresh, path) = (folder.path().join("fresh"), folder.path().join("model"));
    for turn in 0..3 {
        fs::create_dir(&fresh).unwrap();
        fs::write(fresh.join("y"), turn.to_string()).unwrap();
        replace_folder(&fresh, &path).unwrap();
        assert_eq!(fs::read_to_string(path.join("y")).unwrap(), turn.to_string());
    }
    assert_eq!(names(folder.path()), ["model"]);
    // A folder that cannot be placed leaves the old one.
    assert!(replace_folder(&fresh, &path).is_err());
    assert_eq!(fs::read_to_string(path.join("y")).unwrap(), "2");
    let link = folder.path().join("link");
    for target in ["model", "elsewhere"] {
        replace_link(&link, Path::new(target)).unwrap();
        assert_eq!(fs::read_link(&link).unwrap(), Path::new(target));
    }
    assert_eq!(names(folder.path()), ["link", "model"]);
}

#[test]
fn only_the_user_may_read_what_is_the_users() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own");
    create_folder(&own, Access::Owner).unwrap();
    replace_with(&own.join("file"), Access::Owner, b"x").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&own), mode(&own.join("file"))), (0o700, 0o600));
}

#[test]
fn long_names_are_no_problem() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ä".repeat(120));
    replace_with(&path, Access::Umask, b"x").unwrap();
    assert_eq!(fs::metadata(&path).unwrap().size(), 1);
}
