use super::*;

fn own(parent: &Path) -> Logs {
    let request = LogRequest { folder: parent, is_own: true, node: None, snapshots: None };
    Logs::take(&request).unwrap()
}

#[test]
fn two_jobs_have_two_folders() {
    let home = tempfile::tempdir().unwrap();
    let wanted = home.path().join("logs");
    let first = Logs::named(&wanted, None);
    assert_eq!((&first.folder, &first.line), (&wanted, &None));
    let second = Logs::named(&wanted, None);
    assert_eq!(second.folder, wanted.join(format!("job.{}", std::process::id())));
    assert!(second.line.is_some());
    assert_eq!(Logs::named(&wanted, Some("10.0.0.2")).folder, wanted, "another node of a job");
    drop(first);
    assert_eq!(Logs::named(&wanted, None).folder, wanted);
}

#[test]
fn a_job_has_a_folder_of_its_own() {
    let home = tempfile::tempdir().unwrap();
    let parent = home.path().join("logs");
    let (first, second) = (own(&parent), own(&parent));
    assert_ne!(first.folder, second.folder);
    assert_eq!(first.folder.parent(), Some(parent.as_path()));
    assert_eq!(first.snapshots, parent.join("snapshots"), "the same command finds them again");
    assert_eq!(second.snapshots, second.folder.join("snapshots"), "they are another job's");
    for job in [&first, &second] {
        fs::write(job.folder.join("workerlog.0"), job.folder.to_str().unwrap()).unwrap();
        job.lead_to(["workerlog.0".to_string()].into_iter());
        for name in ["latest/workerlog.0", "workerlog.0"] {
            let found = fs::read_to_string(parent.join(name)).unwrap();
            assert_eq!(found, job.folder.to_str().unwrap(), "{name}");
        }
    }
    let folders = [first.folder.clone(), second.folder.clone()];
    drop((first, second));
    assert!(folders.iter().all(|folder| folder.is_dir()), "logs are kept");
    // A job that was not begun leaves nothing.
    let unused = own(&parent);
    let folder = unused.folder.clone();
    drop(unused);
    assert!(!folder.exists());
}

#[test]
fn a_file_of_the_user_is_no_link() {
    let home = tempfile::tempdir().unwrap();
    let parent = home.path().to_path_buf();
    fs::write(parent.join("workerlog.0"), "mine").unwrap();
    let job = own(&parent);
    job.lead_to(["workerlog.0".to_string(), "workerlog.1".to_string()].into_iter());
    assert_eq!(fs::read_to_string(parent.join("workerlog.0")).unwrap(), "mine");
    unlink(&parent.join("workerlog.0"));
    unlink(&parent.join("workerlog.1"));
    assert!(parent.join("workerlog.0").exists());
    assert!(fs::symlink_metadata(parent.join("workerlog.1")).is_err());
}

#[test]
fn who_goes_on_with_a_job_goes_on_with_its_logs() {
    let home = tempfile::tempdir().unwrap();
    let parent = home.path().join("logs");
    let first = own(&parent);
    let (folder, snapshots) = (first.folder.clone(), first.snapshots.clone());
    fs::create_dir_all(&snapshots).unwrap();
    fs::write(folder.join("workerlog.0"), "").unwrap();
    first.note(&snapshots);
    drop(first);
    assert_eq!(own(&parent).folder, std::path::absolute(&folder).unwrap());
    fs::write(snapshots.join("finished"), "").unwrap();
    assert_ne!(own(&parent).folder, std::path::absolute(&folder).unwrap(), "a new job");
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error() {
    let request =
        LogRequest { folder: Path::new("/proc/none"), is_own: true, node: None, snapshots: None };
    let error = Logs::take(&request).unwrap_err();
    assert!(matches!(&error, Error::File { path, .. } if path == Path::new("/proc/none")));
}
