//! Which folders are taken and which are refused.

use super::*;
use crate::Error;

fn identity(script: &str, n_servers: usize) -> Identity {
    let arguments = vec!["--days=3".to_string(), "two\nlines \\n".to_string()];
    Identity { script: script.into(), arguments, n_servers, n_trainers: 2, n_began: None }
}

fn take(folder: &Path, resume: Option<&Path>, identity: Identity) -> Result<Snapshots> {
    Snapshots::take(&FolderRequest { folder, resume, node: None, identity })
}

#[track_caller]
fn refusal(taken: Result<Snapshots>) -> SnapshotError {
    match taken {
        Err(Error::Snapshots(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_job_finds_its_folder_again() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("a/b");
    let mut first = take(&folder, None, identity("/train.py", 2)).unwrap();
    assert!(!first.is_begun && !first.clear_finished([].into_iter()).unwrap());
    let inside = || {
        let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(inside(), ["job", "job.again", "launcher.lock"]);
    let second = refusal(take(&folder, None, identity("/train.py", 2)));
    assert!(matches!(second, SnapshotError::InUse { .. }), "{second}");
    drop(first);
    let again = take(&folder, None, identity("/train.py", 2)).unwrap();
    assert!(again.is_begun);
}

#[test]
fn a_finished_job_begins_anew() {
    let home = tempfile::tempdir().unwrap();
    let own = || ["server.0", "trainer.1"].map(str::to_string).into_iter();
    let first = take(home.path(), None, identity("/train.py", 2)).unwrap();
    for name in ["server.0", "trainer.1", "trainer.7", "notes"] {
        fs::create_dir(home.path().join(name)).unwrap();
    }
    first.finish().unwrap();
    drop(first);
    let mut again = take(home.path(), None, identity("/train.py", 2)).unwrap();
    assert!(again.clear_finished(own()).unwrap() && !again.is_begun);
    let is_there = |name: &str| home.path().join(name).exists();
    assert!(!is_there("server.0") && !is_there("trainer.1") && !is_there("finished"));
    assert!(is_there("trainer.7") && is_there("notes"), "what is another's stays");
    drop(again);
    let mut unfinished = take(home.path(), None, identity("/train.py", 2)).unwrap();
    assert!(!unfinished.clear_finished(own()).unwrap() && unfinished.is_begun);
}

#[test]
fn another_job_is_refused() {
    let home = tempfile::tempdir().unwrap();
    drop(take(home.path(), None, identity("/train.py", 2)).unwrap());
    for other in [identity("/other.py", 2), identity("/train.py", 3)] {
        let error = refusal(take(home.path(), None, other));
        let SnapshotError::OtherJob { theirs, ours, .. } = &error else { panic!("{error}") };
        assert!(theirs.starts_with("/train.py --days=3") && theirs != ours, "{error}");
    }
    // Other numbers of processes resume from it, another script does not.
    let resume = Some(home.path());
    let other = refusal(take(home.path(), resume, identity("/other.py", 2)));
    assert!(matches!(other, SnapshotError::OtherJob { .. }), "{other}");
    drop(take(home.path(), resume, identity("/train.py", 3)).unwrap());
    assert!(take(home.path(), None, identity("/train.py", 3)).unwrap().is_begun);
    // Into another folder, any script may resume.
    let fresh = tempfile::tempdir().unwrap();
    let fresh = take(fresh.path(), resume, identity("/other.py", 1)).unwrap();
    assert_eq!(fresh.resume, Some(home.path().canonicalize().unwrap()));
}

#[test]
fn folders_without_snapshots_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let (nowhere, empty) = (home.path().join("nowhere"), home.path());
    for from in [nowhere.as_path(), empty] {
        let error = refusal(take(&home.path().join("s"), Some(from), identity("/a", 1)));
        assert!(matches!(error, SnapshotError::Nothing { .. }), "{error}");
    }
}

#[test]
fn folders_that_cannot_be_written_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    fs::write(&file, "").unwrap();
    // Not even the superuser can make a folder in these places.
    for folder in [file.as_path(), Path::new("/proc/paddlewheel")] {
        let error = refusal(take(folder, None, identity("/a", 1)));
        assert!(matches!(error, SnapshotError::NotWritable { .. }), "{error}");
    }
    let full = unusable(home.path(), io::Error::from_raw_os_error(28));
    assert!(matches!(full, SnapshotError::NoSpace { .. }), "{full}");
}

#[test]
fn damaged_and_newer_files_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("job");
    drop(take(home.path(), None, identity("/train.py", 2)).unwrap());
    let good = fs::read_to_string(&path).unwrap();
    let check = |text: &[u8]| {
        // If only one of them is damaged, the other one is used.
        [JOB, JOB_AGAIN].iter().for_each(|name| fs::write(home.path().join(name), text).unwrap());
        refusal(take(home.path(), None, identity("/train.py", 2)))
    };
    // A later release writes another form: this one's with another number is damaged.
    let damaged = check(good.replace("job 1", "job 2").as_bytes());
    assert!(matches!(damaged, SnapshotError::Damaged { .. }), "{damaged}");
    let (start, _) = good.split_once("\ncheck ").unwrap();
    let newer = check(format!("{}\nend\n", start.replace("job 1", "job 2")).as_bytes());
    assert!(matches!(newer, SnapshotError::Newer { version: 2, known: 1, .. }), "{newer}");
    for text in ["", "hello", &good[..good.len() - 4], &good.replace("servers 2", "servers x")] {
        let error = check(text.as_bytes());
        assert!(matches!(error, SnapshotError::Damaged { .. }), "{text}: {error}");
    }
    let error = check(b"\xff\xfe");
    assert!(matches!(error, SnapshotError::Damaged { .. }), "{error}");
}

/// The number of servers was changed while the job ran: the command that it was started with resumes it.
#[test]
fn the_same_command_goes_on_with_other_servers() {
    let home = tempfile::tempdir().unwrap();
    let ours = |n_servers| identity("/train.py", n_servers);
    drop(take(home.path(), None, ours(2)).unwrap());
    assert_eq!(scaled(home.path(), &ours(2)).unwrap(), None);
    write_job(home.path(), &Identity { n_began: Some(2), ..ours(3) }).unwrap();
    let found = Some(Scaled { n_servers: 3, n_began: 2 });
    assert_eq!(scaled(home.path(), &ours(2)).unwrap(), found);
    assert_eq!(scaled(home.path(), &ours(3)).unwrap(), found);
    assert_eq!(scaled(home.path(), &ours(4)).unwrap(), None);
    assert_eq!(scaled(home.path(), &identity("/other.py", 2)).unwrap(), None);
    let other = refusal(take(home.path(), None, ours(4)));
    assert!(matches!(other, SnapshotError::OtherJob { .. }), "{other}");
    take(home.path(), None, ours(2)).unwrap().finish().unwrap();
    assert_eq!(scaled(home.path(), &ours(2)).unwrap(), None, "the next job is a new one");
}

/// Wherever a bit is flipped, the other file says whose the folder is, and both are whole again then.
#[test]
fn one_of_two_files_may_be_damaged() {
    let home = tempfile::tempdir().unwrap();
    let own = Identity { n_began: Some(2), ..identity("/train.py", 3) };
    write_job(home.path(), &own).unwrap();
    let bytes = fs::read(home.path().join(JOB)).unwrap();
    for (bit, name) in (0..8 * bytes.len()).zip([JOB, JOB_AGAIN].into_iter().cycle()) {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        fs::write(home.path().join(name), &damaged).unwrap();
        assert_eq!(read_job(home.path()).unwrap().as_ref(), Some(&own), "{name}, bit {bit}");
        keep_job(home.path());
        assert_eq!(fs::read(home.path().join(name)).unwrap(), bytes, "{name}, bit {bit}");
    }
}
