//! The example without Python, started by the launcher and by hand.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use testing::cluster::{Cluster, Size, is_alive, wait_until};

const LIMIT: Duration = Duration::from_secs(60);
const EXAMPLE: &str = env!("CARGO_BIN_EXE_distributed_ctr");

fn launch(cluster: &mut Cluster, words: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_launcher"));
    command.args(["launch_ps", "--worker_num", "2", "--server_num", "2", EXAMPLE]);
    command.args(words.split_whitespace()).current_dir(cluster.folder());
    cluster.start("launcher", command);
}

fn log(cluster: &Cluster, name: &str) -> String {
    fs::read_to_string(cluster.folder().join("logs").join(name)).unwrap_or_default()
}

/// The losses that a trainer has reported.
fn losses(log: &str) -> Vec<f64> {
    let numbers = log.lines().filter_map(|line| line.split_once(": loss "));
    numbers.map(|(_, number)| number.trim().parse().unwrap()).collect()
}

/// A distributed model takes at most 35 lines of Rust; comments are not counted.
#[test]
fn it_is_short() {
    let text = include_str!("../../../examples/distributed_ctr.rs");
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
    assert!(text.lines().filter(is_code).count() <= 35);
}

#[test]
fn it_learns_in_every_mode() {
    for mode in ["sync", "ssp", "half_async", "async", "geo"] {
        let mut cluster = Cluster::new();
        launch(&mut cluster, &format!("--mode {mode} --batches 300"));
        let status = cluster.wait("launcher", LIMIT);
        assert_eq!(status.code(), Some(0), "{mode}: {}", cluster.logs());
        for id in 0..2 {
            let worker = log(&cluster, &format!("workerlog.{id}"));
            let losses = losses(&worker);
            assert_eq!(losses.len(), 6, "{worker}");
            // A model that knows nothing has ln 2.
            assert!(losses[5] < 0.45, "{mode}: {losses:?}");
            assert!(worker.contains("trained on 60000 samples together"), "{worker}");
            assert!(log(&cluster, &format!("serverlog.{id}")).contains("Server listening on"));
        }
        let saved = cluster.folder().join("ctr.model/SparseFeatFactors");
        assert!(fs::metadata(saved).unwrap().len() > 10_001 * 8 * 4, "the whole table is saved");
    }
}

#[test]
fn sync_is_the_same_for_any_number_of_servers() {
    // Where trainer 0 saves.
    let folder = tempfile::tempdir().unwrap();
    let run = |servers| {
        let mut cluster = Cluster::launch(Size { servers, trainers: 2 }, || {
            let mut command = Command::new(EXAMPLE);
            command.args(["--batches", "50"]).current_dir(folder.path());
            command
        });
        let names = (0..2).map(|id| format!("worker.{id}"));
        let found: Vec<_> = names
            .map(|name| {
                assert!(cluster.wait(&name, LIMIT).success(), "{}", cluster.logs());
                losses(&cluster.log(&name))
            })
            .collect();
        for id in 0..servers {
            let name = format!("server.{id}");
            assert!(cluster.wait(&name, LIMIT).success(), "{}", cluster.logs());
            assert!(cluster.log(&name).ends_with("all trainers have completed\n"));
        }
        found
    };
    assert_eq!(run(1), run(3));
}

#[test]
fn a_killed_trainer_ends_the_job_and_nobody_is_left() {
    let mut cluster = Cluster::launch(Size { servers: 2, trainers: 3 }, || {
        let mut command = Command::new(EXAMPLE);
        command.args(["--batches", "1000000"]);
        command
    });
    for id in 0..3 {
        cluster.wait_for_line(&format!("worker.{id}"), "batch   50", LIMIT);
    }
    let all: Vec<_> = ["server.0", "server.1", "worker.0", "worker.2"].into();
    let pids: Vec<u32> = all.iter().map(|name| cluster.pid(name)).collect();
    cluster.kill("worker.1");
    let killed = Instant::now();
    for name in ["worker.0", "worker.2"] {
        let left = Duration::from_secs(5).saturating_sub(killed.elapsed());
        assert_eq!(cluster.wait(name, left).code(), Some(1), "{}", cluster.logs());
        assert!(cluster.log(name).contains("trainer 1 died"), "{}", cluster.log(name));
    }
    for name in ["server.0", "server.1"] {
        assert_eq!(cluster.wait(name, Duration::from_secs(5)).code(), Some(1));
        assert!(cluster.log(name).contains("trainer 1 died"), "{}", cluster.log(name));
    }
    wait_until("nobody is left", Duration::from_secs(2), || !pids.iter().any(|&pid| is_alive(pid)));
}
