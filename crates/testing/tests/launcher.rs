//! The launchers, as real processes: the variables and the logs of children, the process that is
//! blamed, and that no process is left behind.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

#[path = "launcher/logs.rs"]
mod logs;
#[path = "launcher/machines.rs"]
mod machines;

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use fleet::role;
use rustix::process::{Pid, Signal, kill_process};
use testing::cluster::{Cluster, free_ports, is_alive, wait_until};

const LIMIT: Duration = Duration::from_secs(20);

/// A job in a folder of its own, run by a launcher.
struct Job {
    cluster: Cluster,
    script: PathBuf,
    /// A variable of the launcher.
    flags: Option<(&'static str, &'static str)>,
}

impl Job {
    /// A shell script that the job runs. Before the given lines it notes its number and starts
    /// something of its own, which must end with it.
    fn new(lines: &str) -> Self {
        let cluster = Cluster::new();
        let script = cluster.folder().join("train");
        let name = "${TRAINING_ROLE}.${PADDLE_TRAINER_ID:-$PADDLE_PORT}";
        let text = format!(
            "#!/bin/sh\nsleep 1000 &\necho $! > pid.child.{name}\necho $$ > pid.{name}\n{lines}\n"
        );
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        Self { cluster, script, flags: None }
    }

    fn launch(&mut self, name: &str, options: &str) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_launcher"));
        command.args(options.split_whitespace()).arg(&self.script).args(["--is_cloud=1", "a b"]);
        command.current_dir(self.cluster.folder()).env("http_proxy", "http://nowhere");
        command.envs(self.flags);
        self.cluster.start(name, command);
    }

    #[track_caller]
    fn run(&mut self, options: &str) -> i32 {
        self.launch("launcher", options);
        let code = self.cluster.wait("launcher", LIMIT).code();
        code.unwrap_or_else(|| panic!("killed\n{}", self.said()))
    }

    fn said(&self) -> String {
        self.cluster.log("launcher")
    }

    fn log(&self, name: &str) -> String {
        fs::read_to_string(self.cluster.folder().join("logs").join(name)).unwrap_or_default()
    }

    /// The folder of the newest job, as the launcher names it.
    fn own_logs(&self) -> String {
        let name = fs::read_link(self.cluster.folder().join("logs/latest")).unwrap();
        format!("logs/{}", name.display())
    }

    /// All processes that the job has started.
    fn pids(&self) -> Vec<u32> {
        let entries = fs::read_dir(self.cluster.folder()).unwrap().map(|entry| entry.unwrap());
        let notes = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("pid."));
        let texts = notes.map(|entry| fs::read_to_string(entry.path()).unwrap());
        texts.filter_map(|text| text.trim().parse().ok()).collect()
    }

    /// The number of one of them: `TRAINER.0`, or `PSERVER.` and its port.
    #[track_caller]
    fn pid(&self, name: &str) -> u32 {
        let note = self.cluster.folder().join(format!("pid.{name}"));
        fs::read_to_string(note).unwrap().trim().parse().unwrap()
    }

    /// `kill -9` of one of them; returns its number.
    #[track_caller]
    fn kill(&self, name: &str) -> u32 {
        let pid = self.pid(name);
        kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
        pid
    }

    #[track_caller]
    fn wait_for_log(&self, name: &str, text: &str) {
        let what = format!("`{text}` in {name}");
        wait_until(&what, LIMIT, || self.log(name).contains(text));
    }

    fn touch(&self, name: &str) {
        fs::write(self.cluster.folder().join(name), "").unwrap();
    }

    #[track_caller]
    fn wait_for(&self, n_processes: usize) {
        wait_until("all are running", LIMIT, || self.pids().len() == 2 * n_processes);
    }

    #[track_caller]
    fn expect_nobody(&self) {
        let pids = self.pids();
        assert!(!pids.is_empty());
        wait_until("nobody is left", Duration::from_secs(2), || {
            !pids.iter().any(|&pid| is_alive(pid))
        });
    }
}

#[test]
fn a_job_runs_and_everybody_goes_home() {
    let tell = "env | sort; echo \"arguments: $# $1 $2\"\n\
                [ $TRAINING_ROLE = PSERVER ] && exec sleep 1000; echo trained >&2";
    let mut job = Job::new(tell);
    assert_eq!(job.run("launch_ps --worker_num 2 --server_num 2"), 0, "{}", job.said());
    let said = job.said();
    let (workers, servers) = (
        "all workers exit, going to finish parameter server\n",
        "all parameter server are killed\n",
    );
    assert!(said.ends_with(&format!("{workers}{servers}the job has finished\n")), "{said}");
    assert!(said.contains("2 trainers; here 2 servers and 2 trainers, logs in logs"), "{said}");
    for name in ["serverlog.0", "serverlog.1", "workerlog.0", "workerlog.1"] {
        let log = job.log(name);
        let var = |wanted: &str| {
            let mut pairs = log.lines().filter_map(|line| line.split_once('='));
            pairs.find(|(name, _)| *name == wanted).map(|(_, value)| value.to_string())
        };
        let own = role::from_environment(&var).unwrap();
        let expected =
            format!("{}log.{}", if own.is_server() { "server" } else { "worker" }, own.id);
        assert_eq!(name, expected);
        assert_eq!((own.n_trainers, own.servers.len()), (2, 2));
        assert_eq!(var("http_proxy"), None);
        assert!(log.contains("arguments: 2 --is_cloud=1 a b"), "{log}");
        assert_eq!(log.contains("trained"), own.is_trainer(), "stderr is in the log too");
    }
    job.expect_nobody();
}

#[test]
fn the_one_that_failed_is_named() {
    let script = "[ \"$PADDLE_TRAINER_ID\" = 1 ] || exec sleep 1000\n\
                  for i in $(seq 40); do echo step $i; done; echo no such table >&2; exit 3";
    let mut job = Job::new(script);
    let start = Instant::now();
    assert_eq!(job.run("launch_ps --worker_num 3 --server_num 1"), 1);
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    let said = job.said();
    assert!(said.contains("worker 1 (pid "), "{said}");
    let log = format!("{}/workerlog.1", job.own_logs());
    let last = format!("failed with exit code 3; the last lines of {log}:");
    assert!(said.contains(&last), "{said}");
    assert!(said.contains("  | no such table\n") && said.contains("  | step 40\n"), "{said}");
    assert!(!said.contains("step 20\n"), "twenty lines are enough: {said}");
    assert!(!said.contains("worker 0 (pid"), "{said}");
    job.expect_nobody();
}

#[test]
fn a_tolerant_job_goes_on_without_a_worker() {
    let script = "[ $TRAINING_ROLE = PSERVER ] && exec sleep 1000\n\
                  [ $PADDLE_TRAINER_ID = 1 ] && exit 3; touch $PADDLE_TRAINER_ID.trains\n\
                  while ! [ -e enough ]; do sleep 0.05; done; echo trained";
    let mut job = Job::new(script);
    job.flags = Some(("FLAGS_tolerate_lost_trainers", "1"));
    job.launch("launcher", "launch_ps --worker_num 3 --server_num 1");
    job.cluster.wait_for_line("launcher", "worker 1 (pid", LIMIT);
    job.cluster.wait_for_line("launcher", "the others continue without it", LIMIT);
    fs::write(job.cluster.folder().join("enough"), "").unwrap();
    assert_eq!(job.cluster.wait("launcher", LIMIT).code(), Some(0), "{}", job.said());
    assert_eq!(job.said().matches("continue without it").count(), 1, "{}", job.said());
    assert!(job.log("workerlog.0").ends_with("trained\n"));
    job.expect_nobody();
    // Without trainers the job cannot continue.
    let mut job = Job::new("[ $TRAINING_ROLE = PSERVER ] && exec sleep 1000; exit 3");
    job.flags = Some(("FLAGS_tolerate_lost_trainers", "1"));
    assert_eq!(job.run("launch_ps --worker_num 2 --server_num 1"), 1, "{}", job.said());
    job.expect_nobody();
}

#[test]
fn a_server_that_dies_is_named_and_workers_do_not_wait_for_it() {
    let script = "[ $TRAINING_ROLE = TRAINER ] && exec sleep 1000; kill -9 $$";
    let mut job = Job::new(script);
    assert_eq!(job.run("launch_ps --worker_num 2 --server_num 1"), 1);
    let said = job.said();
    assert!(said.contains("server 0 (pid ") && said.contains("was killed by signal 9 (SIGKILL)"));
    assert!(said.contains(&format!("{}/serverlog.0 is empty", job.own_logs())), "{said}");
    job.expect_nobody();
}

#[test]
fn a_server_that_ends_well_is_no_failure() {
    let mut job = Job::new("[ $TRAINING_ROLE = TRAINER ] && sleep 0.3; exit 0");
    assert_eq!(job.run("launch_ps --worker_num 1 --server_num 1"), 0, "{}", job.said());
    job.expect_nobody();
}

#[test]
fn signals_end_a_job() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut job =
            Job::new("trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.05; done");
        job.launch("launcher", "launch_ps --worker_num 1 --server_num 1");
        job.wait_for(2);
        let is_ready = |name| job.log(name).contains("ready");
        wait_until("both are ready", LIMIT, || is_ready("workerlog.0") && is_ready("serverlog.0"));
        job.cluster.signal("launcher", signal);
        assert_eq!(job.cluster.wait("launcher", LIMIT).code(), Some(code), "{}", job.said());
        assert!(job.said().contains("ending the job"), "{}", job.said());
        assert!(job.log("workerlog.0").ends_with("asked\n"), "{}", job.log("workerlog.0"));
        job.expect_nobody();
    }
}

#[test]
fn the_stubborn_are_killed() {
    let script =
        "trap '' TERM; [ \"$PADDLE_TRAINER_ID\" = 0 ] && exit 9; while :; do sleep 1; done";
    let mut job = Job::new(script);
    let start = Instant::now();
    assert_eq!(job.run("launch_ps --worker_num 2 --server_num 1"), 1);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    job.expect_nobody();
}

#[test]
fn a_killed_launcher_leaves_nobody() {
    let mut job = Job::new("trap '' TERM HUP; while :; do sleep 1; done");
    job.launch("launcher", "launch_ps --worker_num 2 --server_num 2");
    job.wait_for(4);
    let pids = job.pids();
    assert!(pids.iter().all(|&pid| is_alive(pid)));
    job.cluster.kill("launcher");
    job.expect_nobody();
}

#[test]
fn ports_that_are_taken() {
    let mut job = Job::new("[ $TRAINING_ROLE = PSERVER ] && exec sleep 1000; exit 0");
    let port = free_ports(2)[0];
    let _taken = TcpListener::bind(("127.0.0.1", port)).unwrap();
    assert_eq!(job.run(&format!("launch_ps --start_port {port} --server_num 1")), 1);
    let text = format!("error: port {port} is in use: ");
    assert!(job.said().contains(&text) && job.said().contains("--start_port"), "{}", job.said());
    // Without an option, a launcher finds other ports. It does not matter if another process has
    // 6170 already.
    let _first = TcpListener::bind(("127.0.0.1", 6170));
    let mut job = Job::new("[ $TRAINING_ROLE = PSERVER ] && exec sleep 1000; exit 0");
    assert_eq!(job.run("launch_ps --worker_num 1 --server_num 2"), 0, "{}", job.said());
    assert!(job.said().contains("port 6170 is taken, using "), "{}", job.said());
    job.expect_nobody();
}

#[test]
fn two_machines_make_one_job() {
    let port = free_ports(1)[0];
    // Servers end when both workers have been there, as real ones do.
    let script = "[ $TRAINING_ROLE = TRAINER ] && sleep 0.$PADDLE_TRAINER_ID && \
                  touch done.$PADDLE_TRAINER_ID && exit 0\n\
                  while ! [ -e done.0 -a -e done.1 ]; do sleep 0.05; done; echo served";
    let mut job = Job::new(script);
    for host in ["127.0.0.2", "127.0.0.3"] {
        let options = format!(
            "launch_ps --cluster_node_ips 127.0.0.2,127.0.0.3 --node_ip {host} --worker_num 1 \
             --server_num 1 --start_port {port} --log_dir logs"
        );
        job.launch(host, &options);
    }
    for host in ["127.0.0.2", "127.0.0.3"] {
        let status = job.cluster.wait(host, LIMIT);
        assert!(status.success(), "{}", job.cluster.logs());
        let text = "all workers exit, going to finish parameter server";
        assert!(job.cluster.log(host).contains(text), "{}", job.cluster.logs());
    }
    for id in 0..2 {
        assert_eq!(job.log(&format!("serverlog.{id}")), "served\n");
    }
    job.expect_nobody();
}

#[test]
fn command_lines_that_make_no_sense() {
    let mut job = Job::new("exit 0");
    assert_eq!(job.run("launch_ps --workers 2"), 2);
    assert!(job.said().contains("error: unexpected argument '--workers'"), "{}", job.said());
    assert!(job.said().contains("Usage: paddlewheel launch_ps"), "{}", job.said());
    assert_eq!(job.run("launch_ps --help"), 0);
    job.script = "nowhere.py".into();
    assert_eq!(job.run("launch_ps"), 1);
    assert!(job.said().contains("error: cannot find nowhere.py: "), "{}", job.said());
}

#[test]
fn trainers_alone() {
    let script = "echo $PADDLE_TRAINER_ID of $PADDLE_TRAINERS_NUM at $PADDLE_CURRENT_ENDPOINT";
    let mut job = Job::new(script);
    let port = free_ports(2)[0];
    let options = format!("launch --nproc_per_node 2 --started_port {port}");
    assert_eq!(job.run(&options), 0, "{}", job.said());
    // Without a folder for logs they write where the launcher does.
    for (id, port) in [(0, port), (1, port + 1)] {
        assert!(job.said().contains(&format!("{id} of 2 at 127.0.0.1:{port}\n")), "{}", job.said());
    }
    let mut job = Job::new("exit $PADDLE_TRAINER_ID");
    assert_eq!(job.run("launch --nproc_per_node 2 --log_dir logs"), 1);
    assert!(job.said().contains("worker 1 (pid "), "{}", job.said());
    job.expect_nobody();
}

/// Says which start it is, and works until it is told that it is enough.
const WORK: &str = "echo start $PADDLE_RESTARTS at ${PADDLE_PORT:-here} in $FLAGS_snapshot_dir\n\
                    while ! [ -e enough ]; do sleep 0.05; done; echo through";

#[test]
fn what_died_is_started_again() {
    let port = free_ports(1)[0];
    let mut job = Job::new(WORK);
    let options = format!(
        "launch_ps --worker_num 2 --server_num 1 --start_port {port} --snapshot_dir snapshots \
         --snapshot_secs 0.5"
    );
    job.launch("launcher", &options);
    for name in ["serverlog.0", "workerlog.0", "workerlog.1"] {
        job.wait_for_log(name, "start 0");
    }
    let server = format!("PSERVER.{port}");
    let (first, worker) = (job.kill(&server), job.kill("TRAINER.1"));
    for (name, pid, log) in
        [("server 0", first, "serverlog.0"), ("worker 1", worker, "workerlog.1")]
    {
        let said = job.cluster.wait_for_line("launcher", &format!("{name} (pid {pid})"), LIMIT);
        assert!(said.contains("was killed by signal 9 (SIGKILL)"), "{said}");
        assert!(said.ends_with("; it is started again (1 of 5)"), "{said}");
        job.wait_for_log(log, "start 1");
    }
    // It is the same process in all but its number, and its log continues.
    let full = job.cluster.folder().canonicalize().unwrap().join("snapshots");
    let log = job.log("serverlog.0");
    let line = format!("launch_ps: server 0 (pid {first}) was killed");
    assert!(log.starts_with(&format!("start 0 at {port} in {}\n{line}", full.display())), "{log}");
    assert!(log.ends_with(&format!("start 1 at {port} in {}\n", full.display())), "{log}");
    assert_ne!(job.pid(&server), first);
    assert!(!job.log("workerlog.0").contains("launch_ps"), "the others are left alone");
    // Once more.
    job.kill(&server);
    job.cluster.wait_for_line("launcher", "it is started again (2 of 5)", LIMIT);
    job.wait_for_log("serverlog.0", "start 2");
    job.touch("enough");
    assert_eq!(job.cluster.wait("launcher", LIMIT).code(), Some(0), "{}", job.said());
    assert!(full.join("finished").exists());
    job.expect_nobody();
}

#[test]
fn who_wants_restarts_and_names_no_folder_has_snapshots_beside_the_logs() {
    let mut job = Job::new(WORK);
    job.launch("launcher", "launch_ps --worker_num 1 --server_num 1 --max_restarts 1");
    job.wait_for_log("workerlog.0", "start 0");
    job.kill("TRAINER.0");
    job.wait_for_log("workerlog.0", "start 1");
    let full = job.cluster.folder().canonicalize().unwrap().join("logs/snapshots");
    let log = job.log("workerlog.0");
    assert!(log.ends_with(&format!("start 1 at here in {}\n", full.display())), "{log}");
    job.touch("enough");
    assert_eq!(job.cluster.wait("launcher", LIMIT).code(), Some(0), "{}", job.said());
    job.expect_nobody();
}

#[test]
fn one_that_fails_at_once_ends_the_job() {
    let script = "[ $TRAINING_ROLE = PSERVER ] && exec sleep 1000; echo no such table >&2; exit 3";
    let mut job = Job::new(script);
    let options = "launch_ps --worker_num 1 --server_num 1 --snapshot_dir s --max_restarts 100";
    assert_eq!(job.run(options), 1, "{}", job.said());
    let said = job.said();
    assert_eq!(said.matches("failed with exit code 3; it is started again").count(), 3, "{said}");
    let last = format!(
        "failed with exit code 3; the last lines of {}/workerlog.0:\n  | no such table\n\
         worker 0 failed at once 4 times in a row; starting it again does not help\n",
        job.own_logs()
    );
    assert!(said.contains(&last), "{said}");
    assert_eq!(job.log("workerlog.0").matches("no such table\n").count(), 4);
    job.expect_nobody();
}

#[test]
fn restarts_have_a_limit() {
    let script = "[ $TRAINING_ROLE = TRAINER ] && exec sleep 1000; kill -9 $$";
    let mut job = Job::new(script);
    let options = "launch_ps --worker_num 1 --server_num 1 --snapshot_dir s --max_restarts 2";
    assert_eq!(job.run(options), 1, "{}", job.said());
    let said = job.said();
    assert!(said.contains("it is started again (2 of 2)"), "{said}");
    assert!(said.contains("server 0 was started again 2 times within 600 s"), "{said}");
    assert!(!job.cluster.folder().join("s/finished").exists());
    job.expect_nobody();
    // A flag is as good as an option, and 0 means that the job ends.
    let mut job = Job::new(script);
    job.flags = Some(("FLAGS_max_restarts", "0"));
    assert_eq!(job.run("launch_ps --worker_num 1 --server_num 1 --snapshot_dir s"), 1);
    assert!(!job.said().contains("started again"), "{}", job.said());
    job.expect_nobody();
}

#[test]
fn sigterm_ends_a_job_that_can_go_on() {
    let script = "[ $TRAINING_ROLE = PSERVER ] && trap 'echo saved; exit 0' TERM\necho ready\n\
                  while ! [ -e enough ]; do sleep 0.05; done";
    let mut job = Job::new(script);
    let options = "launch_ps --worker_num 1 --server_num 1 --snapshot_dir s";
    job.launch("launcher", options);
    job.wait_for_log("serverlog.0", "ready");
    job.wait_for_log("workerlog.0", "ready");
    job.cluster.signal("launcher", Signal::TERM);
    assert_eq!(job.cluster.wait("launcher", LIMIT).code(), Some(75), "{}", job.said());
    assert!(job.said().contains("all processes have ended in order"), "{}", job.said());
    assert!(job.said().contains("has not finished (exit code 75)"), "{}", job.said());
    assert!(job.log("serverlog.0").ends_with("saved\n"));
    job.expect_nobody();
    // The same command resumes the job, and its logs.
    job.launch("again", options);
    wait_until("the server is back", LIMIT, || job.log("serverlog.0").ends_with("ready\n"));
    assert!(job.cluster.log("again").contains("resuming the job in "));
    assert!(job.log("serverlog.0").contains("saved\nlaunch_ps: a launcher resumes this job\n"));
    job.touch("enough");
    assert_eq!(job.cluster.wait("again", LIMIT).code(), Some(0), "{}", job.cluster.log("again"));
    // It has come to its end: the third is a new one.
    assert_eq!(job.run(options), 0);
    assert!(job.said().contains("has finished, this is a new one"), "{}", job.said());
    assert!(!job.log("serverlog.0").contains("saved"), "{}", job.log("serverlog.0"));
}

#[test]
fn one_that_does_not_end_in_time_is_killed() {
    let script = "[ $TRAINING_ROLE = TRAINER ] && trap '' TERM\necho ready\n\
                  while :; do sleep 0.05; done";
    for (grace, n_signals) in [("0.2", 1), ("1000", 2)] {
        let mut job = Job::new(script);
        let options = format!(
            "launch_ps --worker_num 1 --server_num 1 --snapshot_dir s --grace_secs {grace}"
        );
        job.launch("launcher", &options);
        job.wait_for_log("serverlog.0", "ready");
        job.wait_for_log("workerlog.0", "ready");
        job.cluster.signal("launcher", Signal::TERM);
        if n_signals == 2 {
            job.cluster.wait_for_line("launcher", "ending the job", LIMIT);
            job.cluster.signal("launcher", Signal::TERM);
        }
        assert_eq!(job.cluster.wait("launcher", LIMIT).code(), Some(143), "{}", job.said());
        assert!(job.said().contains("worker 0 did not end in time"), "{}", job.said());
        job.expect_nobody();
    }
}

#[test]
fn a_killed_launcher_can_be_started_again() {
    let mut job = Job::new(WORK);
    let options = "launch_ps --worker_num 1 --server_num 1 --snapshot_dir s";
    job.launch("launcher", options);
    job.wait_for_log("workerlog.0", "start 0");
    job.wait_for(2);
    job.cluster.kill("launcher");
    job.expect_nobody();
    job.launch("again", options);
    wait_until("two starts", LIMIT, || job.log("workerlog.0").matches("start 0").count() == 2);
    job.touch("enough");
    assert_eq!(job.cluster.wait("again", LIMIT).code(), Some(0), "{}", job.cluster.log("again"));
    assert!(job.cluster.log("again").contains("resuming the job in "));
}

/// The shells that end a job when its launcher is gone.
fn keepers(launcher: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
    let pids = entries.filter_map(|name| name.to_str()?.parse::<u32>().ok());
    let read = |pid: u32, what| fs::read_to_string(format!("/proc/{pid}/{what}"));
    let is_keeper = |pid: &u32| {
        let parent = format!("PPid:\t{launcher}\n");
        read(*pid, "status").is_ok_and(|text| text.contains(&parent))
            && read(*pid, "cmdline").is_ok_and(|text| text.contains("read -r _"))
    };
    pids.filter(is_keeper).collect()
}

#[test]
fn a_killed_keeper_has_a_successor() {
    let mut job = Job::new("trap '' TERM HUP; while :; do sleep 1; done");
    job.launch("launcher", "launch_ps --worker_num 1 --server_num 1");
    job.wait_for(2);
    let launcher = job.cluster.pid("launcher");
    for _ in 0..2 {
        let [old] = keepers(launcher)[..] else { panic!("{:?}", keepers(launcher)) };
        kill_process(Pid::from_raw(old.cast_signed()).unwrap(), Signal::KILL).unwrap();
        wait_until("another keeper", LIMIT, || {
            let now = keepers(launcher);
            now.len() == 1 && now[0] != old
        });
    }
    job.cluster.kill("launcher");
    job.expect_nobody();
}

#[test]
fn folders_that_cannot_be_used_are_refused_at_the_start() {
    let mut job = Job::new(WORK);
    let mut check = |options: &str, code: i32, text: &str| {
        let options = format!("launch_ps --worker_num 1 --server_num 1 {options}");
        assert_eq!(job.run(&options), code, "{}", job.said());
        assert!(job.said().contains(text), "{text}: {}", job.said());
        assert!(job.pids().is_empty(), "nobody was started");
    };
    check("--snapshot_dir /proc/none", 1, "error: snapshots cannot be written to /proc/none: ");
    check("--snapshot_dir train", 1, "error: snapshots cannot be written to train: ");
    check("--resume nowhere", 1, "error: --resume nowhere: there are no snapshots of a job in it");
    check("--snapshot_secs -1", 2, "error: invalid value '-1' for '--snapshot_secs <S>'");
    // Two jobs at once, and then another one.
    let options = "launch_ps --worker_num 1 --server_num 1 --snapshot_dir s";
    job.launch("first", options);
    job.wait_for(2);
    assert_eq!(job.run(options), 1);
    assert!(job.said().contains("error: another job is running and writes its snapshots to "));
    job.touch("enough");
    assert!(job.cluster.wait("first", LIMIT).success(), "{}", job.cluster.logs());
    assert_eq!(job.run(&options.replace("server_num 1", "server_num 2")), 1);
    let text = "are those of another job (";
    assert!(job.said().contains(text), "{}", job.said());
    assert!(job.said().contains("1 servers, 1 trainers), this one is "), "{}", job.said());
}

#[test]
fn a_full_disk_is_an_error_at_the_start() {
    let mut job = Job::new(WORK);
    let limited = format!(
        "ulimit -f 64; trap '' XFSZ; exec {} launch_ps --snapshot_dir s {}",
        env!("CARGO_BIN_EXE_launcher"),
        job.script.display()
    );
    let mut command = Command::new("sh");
    command.args(["-c", &limited]).current_dir(job.cluster.folder());
    job.cluster.start("launcher", command);
    assert_eq!(job.cluster.wait("launcher", LIMIT).code(), Some(1), "{}", job.said());
    assert!(job.said().contains("error: no space is left for snapshots in "), "{}", job.said());
}

/// All processes of a job know one secret, which no other process sees.
#[test]
fn processes_share_a_secret_that_nobody_sees() {
    let mut job = Job::new(
        "echo $PADDLEWHEEL_SECRET > secret.$$; tr '\\0' ' ' < /proc/$$/cmdline; echo done",
    );
    assert_eq!(job.run("launch_ps --worker_num 2 --server_num 1"), 0, "{}", job.said());
    let entries = fs::read_dir(job.cluster.folder()).unwrap().map(|entry| entry.unwrap());
    let notes = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("secret."));
    let secrets: Vec<String> =
        notes.map(|entry| fs::read_to_string(entry.path()).unwrap()).collect();
    let secret = secrets[0].trim();
    assert_eq!((secrets.len(), secret.len()), (3, 64), "{secrets:?}");
    assert!(secrets.iter().all(|other| other.trim() == secret), "{secrets:?}");
    let logs = ["serverlog.0", "workerlog.0", "workerlog.1"].map(|name| job.log(name));
    for text in logs.into_iter().chain([job.said()]) {
        assert!(text.contains("done") || text == job.said(), "{text}");
        assert!(!text.contains(secret), "{text}");
    }
}

#[test]
fn a_job_on_several_machines_needs_a_secret() {
    let port = free_ports(1)[0];
    let wide = &format!(
        "launch_ps --cluster_node_ips 127.0.0.1,192.0.2.2 --node_ip 127.0.0.1 --start_port {port}"
    );
    let mut job = Job::new("true");
    assert_eq!(job.run(wide), 1);
    let said = job.said();
    assert!(said.contains("--secret_file") && said.contains("--insecure"), "{said}");
    let missing = format!("{wide} --secret_file /no/such/file");
    let mut job = Job::new("true");
    assert_eq!(job.run(&missing), 1);
    assert!(job.said().contains("/no/such/file"), "{}", job.said());
    let mut job = Job::new("echo short > secret; true");
    fs::write(job.cluster.folder().join("secret"), "short").unwrap();
    assert_eq!(job.run("launch_ps --secret_file secret"), 1);
    assert!(job.said().contains("at least 16"), "{}", job.said());
}
