//! Encrypted jobs of real processes, started by the launcher: their results, and their errors if files or
//! processes do not fit together.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use testing::cluster::{Cluster, free_endpoints, take_local_name};

const LIMIT: Duration = Duration::from_secs(60);
const EXAMPLE: &str = env!("CARGO_BIN_EXE_distributed_ctr");
/// Where `make.sh` has made certificates.
const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tls");

/// A job of one server and two trainers, which meet over TCP.
struct Job {
    cluster: Cluster,
    endpoint: String,
    _name: OwnedFd,
}

impl Job {
    /// Runs the example; `lines` of a shell script come before each process.
    fn start(options: &str, lines: &str) -> Self {
        let mut cluster = Cluster::new();
        let script = cluster.folder().join("train");
        let text = format!("#!/bin/sh\n{lines}\nexec {EXAMPLE} --batches 50\n");
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let endpoint = &free_endpoints(1)[0];
        let name = take_local_name(endpoint);
        let mut command = Command::new(env!("CARGO_BIN_EXE_launcher"));
        command.args(["launch_ps", "--worker_num", "2", "--endpoints", &endpoint.to_string()]);
        command.args(options.split_whitespace()).arg(script).current_dir(cluster.folder());
        cluster.start("launcher", command);
        Self { cluster, endpoint: endpoint.to_string(), _name: name }
    }

    #[track_caller]
    fn ends_with(&mut self, code: i32) {
        let status = self.cluster.wait("launcher", LIMIT);
        assert_eq!(status.code(), Some(code), "{}", self.cluster.logs());
    }

    fn log(&self, name: &str) -> String {
        fs::read_to_string(self.cluster.folder().join("logs").join(name)).unwrap_or_default()
    }
}

fn certificates(certificate: &str, authorities: &str) -> String {
    let key = format!("{FILES}/process.key");
    format!("--tls_cert {FILES}/{certificate} --tls_key {key} --tls_ca {FILES}/{authorities}")
}

#[test]
fn a_job_computes_the_same_encrypted() {
    let losses = |options: &str| {
        let mut job = Job::start(options, "");
        job.ends_with(0);
        assert!(job.log("serverlog.0").contains("come over TCP"), "{}", job.log("serverlog.0"));
        let log = job.log("workerlog.0");
        let losses: Vec<_> = log.lines().filter(|line| line.contains(": loss ")).collect();
        losses.join("\n")
    };
    let plain = losses("");
    assert!(plain.contains(": loss "), "{plain}");
    for options in ["--tls".to_string(), certificates("good.pem", "ours.pem")] {
        assert_eq!(losses(&options), plain, "{options}");
    }
    let named = certificates("elsewhere.pem", "ours.pem") + " --tls_name elsewhere.test";
    assert_eq!(losses(&named), plain, "one certificate for all, whatever their addresses");
}

/// The settings of a job, those of one side instead, and the words of both then.
struct Misfit {
    options: String,
    lines: String,
    trainer: &'static str,
    server: &'static str,
}

#[test]
fn processes_that_do_not_fit_together_say_why() {
    let good = certificates("good.pem", "ours.pem");
    let of = |role: &str, what: &str| format!("[ $TRAINING_ROLE = {role} ] && {what}");
    let show = |role: &str, file: &str| {
        let ca = "export PADDLEWHEEL_TLS_CA";
        let (cert, ours) =
            (format!("PADDLEWHEEL_TLS_CERT={FILES}/{file}"), format!("{FILES}/ours.pem"));
        of(role, &format!("export {cert} && {ca}={ours}"))
    };
    let misfits = [
        Misfit {
            options: "--tls".to_string(),
            lines: of("TRAINER", "unset PADDLEWHEEL_TLS"),
            trainer: "it uses TLS, and this process does not",
            server: "it does not use TLS, and this process does",
        },
        Misfit {
            options: "--tls".to_string(),
            lines: of("PSERVER", "unset PADDLEWHEEL_TLS"),
            trainer: "it does not use TLS, and this process does",
            server: "it uses TLS, and this process does not",
        },
        Misfit {
            options: good.clone(),
            lines: show("TRAINER", "foreign.pem"),
            trainer: "foreign.pem), which is of an authority",
            server: "its certificate is of an authority",
        },
        Misfit {
            options: good,
            lines: show("PSERVER", "elsewhere.pem"),
            trainer: "its certificate is not for `127.0.0.1`",
            server: "elsewhere.pem)",
        },
    ];
    for Misfit { options, lines, trainer, server } in misfits {
        let mut job = Job::start(&options, &lines);
        job.ends_with(1);
        // The first of them to fail ends the job.
        let worker = job.log("workerlog.0") + &job.log("workerlog.1");
        let server_log = job.log("serverlog.0");
        assert!(worker.contains(trainer), "{lines}: {trainer}: {worker}");
        assert!(worker.contains(&job.endpoint), "{worker}");
        assert!(server_log.contains(server), "{lines}: {server}: {server_log}");
    }
}

#[test]
fn files_that_are_of_no_use_end_a_job_at_its_start() {
    let good = certificates("good.pem", "ours.pem");
    let cases = [
        (certificates("missing.pem", "ours.pem"), "missing.pem"),
        (certificates("good.pem", "make.sh"), "make.sh"),
        (certificates("expired.pem", "ours.pem"), "expired.pem"),
        // A folder cannot be read.
        (good.replace("process.key", ""), FILES),
        (good.replace("process.key", "other.key"), "other.key"),
        (format!("--tls_cert {FILES}/good.pem"), "PADDLEWHEEL_TLS_KEY"),
        ("--tls --insecure".to_string(), "need its secret"),
    ];
    for (options, words) in cases {
        let mut job = Job::start(&options, "");
        job.ends_with(1);
        let said = job.cluster.log("launcher");
        assert!(said.contains(words), "{options}: {said}");
        assert!(!Path::new(&job.cluster.folder().join("logs")).join("workerlog.0").exists());
    }
}
