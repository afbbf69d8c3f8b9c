//! Where the logs of a job are.

use super::*;

#[test]
fn each_job_has_a_folder_of_logs() {
    let mut job = Job::new("[ $TRAINING_ROLE = PSERVER ] && exec sleep 1000; echo \"$MARK\"");
    let mut folders = Vec::new();
    for mark in ["first", "second"] {
        job.flags = Some(("MARK", mark));
        assert_eq!(job.run("launch_ps --worker_num 1 --server_num 1"), 0, "{}", job.said());
        folders.push(job.cluster.folder().join(job.own_logs()));
        assert_eq!(job.log("workerlog.0"), format!("{mark}\n"), "Fluid's name leads to the newest");
    }
    let logs = folders.iter().map(|folder| fs::read_to_string(folder.join("workerlog.0")).unwrap());
    assert_eq!(logs.collect::<Vec<_>>(), ["first\n", "second\n"], "the older one is kept");
    // A folder that was named is used as it is, and a link in it is not followed.
    job.flags = Some(("MARK", "third"));
    assert_eq!(job.run("launch_ps --worker_num 1 --server_num 1 --log_dir logs"), 0);
    assert_eq!(job.log("workerlog.0"), "third\n");
    assert_eq!(fs::read_to_string(folders[1].join("workerlog.0")).unwrap(), "second\n");
    // A folder that cannot be made is reported before anything starts.
    let text = "error: cannot make a folder of logs in ";
    fs::remove_dir_all(job.cluster.folder().join("logs")).unwrap();
    fs::write(job.cluster.folder().join("logs"), "a file").unwrap();
    assert_eq!(job.run("launch_ps --worker_num 1 --server_num 1"), 1);
    assert!(job.said().contains(text), "{}", job.said());
    job.expect_nobody();
}
