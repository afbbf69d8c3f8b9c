//! Files that several processes replace, and their permissions.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use durable::{Access, create_folder, replace, replace_with};

const N_TURNS: usize = 100;
const N_BYTES: usize = 10_000;
/// Tells this program, started by itself, its task and the place of it.
const TASK: &str = "DURABLE_TEST_TASK";
const FOLDER: &str = "DURABLE_TEST_FOLDER";

fn child(task: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["does_what_it_is_told", "--exact", "--test-threads=1"]);
    command.env(TASK, task).env(FOLDER, folder).stdout(Stdio::piped());
    command
}

fn check(child: Child) {
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
}

/// The tasks of processes of the tests below.
#[test]
fn does_what_it_is_told() {
    let (Ok(task), Ok(folder)) = (std::env::var(TASK), std::env::var(FOLDER)) else { return };
    let folder = Path::new(&folder);
    match task.as_str() {
        "make" => {
            for (name, access) in [("umask", Access::Umask), ("owner", Access::Owner)] {
                create_folder(&folder.join(name), access).unwrap();
                replace_with(&folder.join(name).join("file"), access, b"x").unwrap();
            }
        }
        byte => {
            let byte = byte.as_bytes()[0];
            for _ in 0..N_TURNS {
                replace(&folder.join("list"), Access::Umask, |file| {
                    // In pieces, so that a reader could see a part.
                    (0..10).try_for_each(|_| file.write_all(&[byte; N_BYTES / 10]))
                })
                .unwrap();
            }
        }
    }
}

#[test]
fn a_reader_sees_whole_files_while_processes_replace_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("list");
    replace_with(&path, Access::Umask, &[b'a'; N_BYTES]).unwrap();
    let writers = ["a", "b"].map(|byte| child(byte, folder.path()).spawn().unwrap());
    let waits = thread::spawn(move || writers.into_iter().for_each(check));
    let mut n_read = 0;
    while !waits.is_finished() || n_read == 0 {
        let bytes = fs::read(&path).unwrap();
        assert_eq!(bytes.len(), N_BYTES);
        assert!(bytes.iter().all(|byte| *byte == bytes[0]), "a mixture");
        n_read += 1;
    }
    waits.join().unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
}

#[test]
fn the_umask_decides_but_for_what_only_the_user_may_read() {
    let own = [0o700, 0o600];
    for (umask, shared) in [("022", [0o755, 0o644]), ("077", own)] {
        let folder = tempfile::tempdir().unwrap();
        let task = child("make", folder.path());
        let mut shell = Command::new("sh");
        shell.args(["-c", "umask \"$1\"; shift; exec \"$@\"", "sh", umask]);
        shell.arg(task.get_program()).args(task.get_args());
        shell.envs(task.get_envs().filter_map(|(name, value)| Some((name, value?))));
        check(shell.stdout(Stdio::piped()).spawn().unwrap());
        let mode = |name: &str| {
            fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o777
        };
        assert_eq!([mode("umask"), mode("umask/file")], shared, "umask {umask}");
        assert_eq!([mode("owner"), mode("owner/file")], own, "umask {umask}");
    }
}
