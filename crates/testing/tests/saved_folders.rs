//! Folders that processes save into while others load from them, and while they are killed.
#![allow(clippy::unwrap_used)] // Helpers of tests are tests too.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use testing::kept_saves::{self, Kept};
use testing::saver::{Way, fill, values};
use testing::sim::Rng;
use train::folder::Folder;
use train::io::Checkpoints;

/// A process that saves without end.
struct Saver {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Saver {
    fn start(at: &Path, folder: &str, way: Way, from: u32) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_saver"));
        command.args([folder, &way.name(), &from.to_string()]).current_dir(at);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Waits for the end of a save, and says which.
    fn saved(&mut self) -> Option<u32> {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim().parse().ok()
    }

    /// Kills it, and says which save was the last that it had done.
    fn kill(mut self) -> Option<u32> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::iter::from_fn(|| self.saved()).last()
    }
}

impl Drop for Saver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Which save a folder holds; all of it must be of one.
#[track_caller]
fn loaded(way: Way, dir: &Path) -> u32 {
    let (program, scope) = way.program();
    way.load(&program, &scope, dir).unwrap_or_else(|error| panic!("{way:?}: {error}"));
    let found = values(&program, &scope);
    assert_eq!(found.len(), 1, "{way:?}: numbers of {} saves: {found:?}", found.len());
    found.into_iter().next().unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn n_kills() -> u64 {
    std::env::var("SAVE_KILLS").ok().map_or(40, |n| n.parse().unwrap())
}

fn seed() -> u64 {
    std::env::var("SEED").ok().map_or(0, |n| n.parse().unwrap())
}

/// Where a saver may be told to save: the folder itself, the current folder, through a link.
fn places(root: &Path) -> [(PathBuf, &'static str); 3] {
    let dir = root.join("model");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("notes.txt"), "mine").unwrap();
    std::os::unix::fs::symlink("model", root.join("link")).unwrap();
    [(root.to_path_buf(), "model"), (dir, "."), (root.to_path_buf(), "link")]
}

#[test]
fn a_saver_that_is_killed_leaves_one_save_whole() {
    let mut rng = Rng::new(seed());
    for way in Way::ALL {
        let root = tempfile::tempdir().unwrap();
        let places = places(root.path());
        let dir = root.path().join("model");
        let mut done = None;
        for kill in 0..n_kills().div_ceil(Way::ALL.len() as u64) {
            let (at, folder) = &places[rng.below(3) as usize];
            let mut saver = Saver::start(at, folder, way, done.map_or(0, |n| n + 1));
            let first = saver.saved().expect("it saves");
            // A moment of the saves that follow.
            thread::sleep(Duration::from_micros(rng.below(30_000)));
            let last = saver.kill().unwrap_or(first);
            let found = loaded(way, &dir);
            let hint = format!("SEED={} {way:?} kill {kill}", seed());
            assert!(found == last || found == last + 1, "{hint}: {found} after {last} was done");
            done = Some(found);
        }
        // The next save cleans up.
        let (program, scope) = way.program();
        fill(&program, &scope, 7);
        way.save(&program, &scope, &dir).unwrap();
        assert_eq!(loaded(way, &dir), 7);
        let own: Vec<_> = names(&dir).into_iter().filter(|name| name.starts_with('.')).collect();
        assert_eq!(own, [".paddlewheel"], "{way:?}");
        assert_eq!(fs::read(dir.join("notes.txt")).unwrap(), b"mine");
        // Readers without a list find the same files.
        fs::remove_file(dir.join(".paddlewheel")).unwrap();
        assert_eq!(loaded(way, &dir), 7);
    }
}

#[test]
fn a_saver_of_checkpoints_that_is_killed_leaves_one_whole() {
    let mut rng = Rng::new(seed());
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("points");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("notes.txt"), "mine").unwrap();
    let mut done = None;
    for kill in 0..n_kills().div_ceil(4) {
        let from = done.map_or(0, |n| n + 1);
        let mut saver = Saver::start(root.path(), "points", Way::Checkpoint, from);
        let first = saver.saved().expect("it saves");
        thread::sleep(Duration::from_micros(rng.below(30_000)));
        let last = saver.kill().unwrap_or(first);
        let found = Checkpoints::new(&dir).newest().unwrap();
        let (newest, errors) = (found.serial, found.errors);
        let hint = format!("SEED={} kill {kill}: {errors:?}", seed());
        assert!(newest.is_some() && errors.is_empty(), "{hint}");
        let found = loaded(Way::Checkpoint, &dir);
        assert!(found == last || found == last + 1, "{hint}: {found} after {last} was done");
        done = Some(found);
    }
    let (program, scope) = Way::Checkpoint.program();
    fill(&program, &scope, 7);
    Way::Checkpoint.save(&program, &scope, &dir).unwrap();
    assert_eq!(loaded(Way::Checkpoint, &dir), 7);
    let [one, two, notes] = &names(&dir)[..] else { panic!("{:?}", names(&dir)) };
    assert!(one.starts_with("checkpoint_") && two.starts_with("checkpoint_"));
    assert_eq!(notes, "notes.txt");
}

#[test]
fn readers_see_one_save_while_others_are_made() {
    for way in Way::ALL {
        let root = tempfile::tempdir().unwrap();
        let mut saver = Saver::start(root.path(), "model", way, 0);
        let mut newest = saver.saved().expect("it saves");
        for _ in 0..20 {
            let found = loaded(way, &root.path().join("model"));
            assert!(found >= newest, "{way:?}: {found} after {newest}");
            newest = found;
        }
    }
}

/// Two workers save their parts into one folder.
#[test]
fn two_savers_share_a_folder() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("model");
    let ways = [Way::Separate, Way::Others, Way::State];
    let mut savers = ways.map(|way| Saver::start(root.path(), "model", way, 0));
    let mut newest = savers.each_mut().map(|saver| saver.saved().expect("it saves"));
    for _ in 0..12 {
        for (way, newest) in ways.into_iter().zip(&mut newest) {
            let found = loaded(way, &dir);
            assert!(found >= *newest, "{way:?}: {found} after {newest}");
            *newest = found;
        }
    }
    let [one, two, three] = savers;
    let last = [one.kill(), two.kill(), three.kill()];
    for ((way, newest), last) in ways.into_iter().zip(newest).zip(last) {
        let (found, last) = (loaded(way, &dir), last.unwrap_or(newest));
        assert!(found == last || found == last + 1, "{way:?}: {found} after {last} was done");
    }
}

/// Scripts save one group of variables after the other.
#[test]
fn saves_of_parts_add_up() {
    let dir = tempfile::tempdir().unwrap();
    for (n, way) in Way::ALL.into_iter().enumerate() {
        let (program, scope) = way.program();
        fill(&program, &scope, n as u32);
        way.save(&program, &scope, dir.path()).unwrap();
    }
    // The model has the variables of the first.
    let found = Way::ALL.map(|way| loaded(way, dir.path()));
    assert_eq!(found, [3, 1, 2, 3, 4]);
    let (program, scope) = Way::Separate.program();
    let some = program.list_vars().filter(|var| var.name == "var/1");
    scope.set("var/1", tensor::Tensor::full([100], 9.0f32));
    train::io::save_vars(&scope, dir.path(), some, None).unwrap();
    Way::Separate.load(&program, &scope, dir.path()).unwrap();
    assert_eq!(values(&program, &scope), [3, 9].into());
}

#[test]
fn folders_that_cannot_be_written_stay_as_they_are() {
    let root = tempfile::tempdir().unwrap();
    let (program, scope) = Way::Separate.program();
    fill(&program, &scope, 1);
    let save = |dir: &Path| Way::Separate.save(&program, &scope, dir).unwrap_err();
    fs::write(root.path().join("file"), "").unwrap();
    let is_write = |error: &train::Error| matches!(error, train::Error::WriteFile { .. });
    let error = save(&root.path().join("file"));
    assert!(is_write(&error), "{error}");
    let error = save(&root.path().join("file/below"));
    assert!(is_write(&error), "{error}");
    // No user can write here, not even root.
    let error = save(Path::new("/proc/self"));
    assert!(is_write(&error), "{error}");
    assert_eq!(names(root.path()), ["file"]);
}

/// Folders of all versions of the format that there ever were.
#[test]
fn what_older_versions_saved_is_loaded() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/saves_v1");
    for kept in Kept::ALL {
        let (folder, expected) =
            (golden.join(kept.name()), golden.join(format!("{}.txt", kept.name())));
        let expected = fs::read_to_string(expected).unwrap();
        // Readers write nothing, but a job's servers may be told to save into what they loaded.
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join(kept.name());
        kept_saves::copy(&folder, &dir);
        let found = kept.read(&dir).unwrap_or_else(|error| panic!("{kept:?}: {error}"));
        assert_eq!(found, expected, "{kept:?}");
        // Its checksums count.
        let names: Vec<PathBuf> = match kept {
            Kept::Checkpoints => vec![dir.join("checkpoint_2")],
            _ => vec![dir],
        };
        for dir in names {
            let opened = Folder::open(&dir).unwrap();
            opened.verify().unwrap();
            assert!(opened.manifest().is_some(), "{kept:?}");
        }
    }
}
