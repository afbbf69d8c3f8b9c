//! Launchers of several machines, which are addresses of this one.

use super::*;

#[test]
fn each_machine_starts_its_own_again() {
    let port = free_ports(1)[0];
    let mut job = Job::new(WORK);
    for host in ["127.0.0.2", "127.0.0.3"] {
        let options = format!(
            "launch_ps --cluster_node_ips 127.0.0.2,127.0.0.3 --node_ip {host} --worker_num 1 \
             --server_num 1 --start_port {port} --log_dir logs --snapshot_dir shared"
        );
        job.launch(host, &options);
        let id = if host.ends_with('2') { 0 } else { 1 };
        job.wait_for_log(&format!("workerlog.{id}"), "start 0");
    }
    job.kill("TRAINER.1");
    job.cluster.wait_for_line("127.0.0.3", "it is started again (1 of 5)", LIMIT);
    job.wait_for_log("workerlog.1", "start 1");
    job.touch("enough");
    for host in ["127.0.0.2", "127.0.0.3"] {
        assert!(job.cluster.wait(host, LIMIT).success(), "{}", job.cluster.logs());
        let mark = format!("shared/finished.{host}");
        assert!(job.cluster.folder().join(mark).exists());
    }
    assert!(!job.cluster.log("127.0.0.2").contains("started again"), "{}", job.cluster.logs());
    job.expect_nobody();
}

/// A machine that died when its trainer was through, and comes back when the others have ended: its
/// trainer would wait for their servers.
#[test]
fn a_machine_that_comes_back_after_the_end_ends() {
    let port = free_ports(1)[0];
    let line = protocol::JOB_OVER;
    let mut job = Job::new(&format!(
        "[ $TRAINING_ROLE = PSERVER ] && echo \"{line} at cut 3\" && exit 0; sleep 1000"
    ));
    let options = format!(
        "launch_ps --cluster_node_ips 127.0.0.2,127.0.0.3 --node_ip 127.0.0.3 --worker_num 1 \
         --server_num 1 --start_port {port} --log_dir logs --snapshot_dir shared"
    );
    assert_eq!(job.run(&options), 0, "{}", job.said());
    assert!(job.said().contains("no trainer has come back"), "{}", job.said());
    assert!(job.cluster.folder().join("shared/finished.127.0.0.3").exists());
    job.expect_nobody();
}

/// The same of a machine that has no servers: those that have left a mark in the folder that all share.
#[test]
fn a_machine_without_servers_that_comes_back_after_the_end_ends() {
    let port = free_ports(1)[0];
    let mut job = Job::new("while :; do [ -e enough ] && exit 0; sleep 0.05; done");
    let options = format!(
        "launch_ps --cluster_node_ips 127.0.0.2,127.0.0.3 --node_ip 127.0.0.3 --worker_num 1 \
         --endpoints 127.0.0.2:{port} --log_dir logs --snapshot_dir shared"
    );
    job.launch("first", &options);
    job.wait_for(1);
    job.cluster.kill("first");
    job.expect_nobody();
    // The others train on: so does this machine.
    job.launch("second", &options);
    wait_until("another start", LIMIT, || job.cluster.log("second").contains("resuming the job"));
    job.wait_for_log("workerlog.1", "a launcher resumes this job");
    job.cluster.kill("second");
    job.expect_nobody();
    job.touch("shared/finished.127.0.0.2");
    assert_eq!(job.run(&options), 0, "{}", job.said());
    assert!(job.said().contains("on all machines with servers (127.0.0.2)"), "{}", job.said());
    assert!(job.cluster.folder().join("shared/finished.127.0.0.3").exists());
    // All have come to their end: the same command is a new job, in any order of starts.
    job.touch("enough");
    job.launch("new", &options);
    assert!(job.cluster.wait("new", LIMIT).success(), "{}", job.cluster.logs());
    let said = job.cluster.log("new");
    assert!(said.contains("has finished, this is a new one"), "{said}");
    assert!(!said.contains("the job is over"), "{said}");
}

#[test]
fn a_job_on_several_machines_keeps_its_servers_and_says_why() {
    let port = free_ports(1)[0];
    let mut job = Job::new(WORK);
    let options = format!(
        "launch_ps --cluster_node_ips 127.0.0.2,127.0.0.3 --node_ip 127.0.0.3 --worker_num 1 \
         --server_num 1 --start_port {port} --log_dir logs --snapshot_dir shared"
    );
    job.launch("first", &options);
    job.wait_for(2);
    let mut command = Command::new(env!("CARGO_BIN_EXE_launcher"));
    command.args(["scale", "shared", "--servers", "3"]).current_dir(job.cluster.folder());
    job.cluster.start("scale", command);
    let code = job.cluster.wait("scale", LIMIT).code();
    let said = job.cluster.log("scale");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("runs on several machines (127.0.0.3)"), "{said}");
    assert!(!job.cluster.folder().join("shared/scale").exists(), "nobody would answer");
    job.cluster.kill("first");
    job.expect_nobody();
}
