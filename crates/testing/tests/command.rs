//! The command `paddlewheel` without Python, as real processes.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use program::Net;
use program::layers::{self, Data, Fc};
use rustix::process::Signal;
use testing::cluster::Cluster;
use train::io::{SaveInference, save_inference_model};
use train::{Executor, Feed, Scope};

const LIMIT: Duration = Duration::from_secs(60);
const PADDLEWHEEL: &str = env!("CARGO_BIN_EXE_launcher");
const EXAMPLE: &str = env!("CARGO_BIN_EXE_distributed_ctr");

/// The command, where there is no Python at all.
fn without_python() -> Command {
    let mut command = Command::new(PADDLEWHEEL);
    command.env_remove("PADDLEWHEEL_PYTHON").env("PATH", "/nowhere");
    command
}

fn run(folder: &Path, words: &[&str]) -> Output {
    without_python().args(words).current_dir(folder).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A model whose prediction is the sum of both numbers and 1.
fn save_model(dir: &Path) {
    let mut net = Net::with_seed(1);
    let b = &mut net.builder();
    let x = layers::data(b, "x", &[2], Data::default()).unwrap();
    let out = layers::fc(b, &[x], 1, Fc::default()).unwrap();
    let scope = Scope::new();
    Executor::new().run(&net.startup, &scope, &mut Feed::new(), &[]).unwrap();
    let (feeds, targets) = (["x"], [out.name()]);
    let what = SaveInference { feeds: &feeds, targets: &targets, ..SaveInference::default() };
    save_inference_model(&scope, dir, &net.main, &what).unwrap();
}

#[test]
fn a_rust_program_is_launched_where_there_is_no_python() {
    let mut cluster = Cluster::new();
    let mut command = without_python();
    // The launcher has a small shell, which needs one.
    command.env("PATH", "/bin:/usr/bin").env("PADDLEWHEEL_PYTHON", "/nowhere/python3");
    command.args(["launch_ps", "--worker_num", "2", "--server_num", "1", EXAMPLE]);
    command.args(["--mode", "sync", "--batches", "60"]).current_dir(cluster.folder());
    cluster.start("command", command);
    assert_eq!(cluster.wait("command", LIMIT).code(), Some(0), "{}", cluster.logs());
    let log = fs::read_to_string(cluster.folder().join("logs/workerlog.1")).unwrap();
    assert!(log.contains("samples together"), "{log}");
}

#[test]
fn a_script_needs_a_python_with_the_package() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("train.py"), "print('started')\n").unwrap();
    for words in [&["run", "train.py"][..], &["launch_ps", "train.py"], &["launch", "train.py"]] {
        let told = run(folder.path(), words);
        assert_eq!(told.status.code(), Some(1), "{words:?}");
        let told = text(&told.stderr);
        assert!(told.contains("scripts need Python, and python3 cannot be asked"), "{told}");
        assert!(told.contains("PADDLEWHEEL_PYTHON"), "{told}");
        // A Python that answers, but has no package.
        let other = folder.path().join("python");
        fs::write(&other, "#!/bin/sh\necho\necho /nowhere\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&other, mode).unwrap();
        let mut command = Command::new(PADDLEWHEEL);
        command.args(words).env("PADDLEWHEEL_PYTHON", &other).current_dir(folder.path());
        let told = command.output().unwrap();
        assert_eq!(told.status.code(), Some(1), "{words:?}");
        let told = text(&told.stderr);
        assert!(told.contains("package paddlewheel") && told.contains("pip install"), "{told}");
    }
    assert!(!folder.path().join("logs").exists(), "nothing was started");
}

/// A Python of which only the words matter.
#[test]
fn run_becomes_the_python_that_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let python = folder.path().join("python");
    let answers = "#!/bin/sh\nif [ \"$1\" = -c ]; then echo /pkg/paddlewheel; echo /lib; exit 0; fi\n\
                   echo \"$PYTHONPATH|$PYTHONHASHSEED|$*\"; exit 7\n";
    fs::write(&python, answers).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&python, mode).unwrap();
    let mut command = Command::new(PADDLEWHEEL);
    command.args(["run", "train.py", "--help", "--", "-x"]).env("PADDLEWHEEL_PYTHON", &python);
    command.env("PYTHONPATH", "/mine").env_remove("PYTHONHASHSEED");
    let done = command.output().unwrap();
    assert_eq!(done.status.code(), Some(7), "{}", text(&done.stderr));
    let expected = "/pkg/paddlewheel/_alias:/mine|0|train.py --help -- -x\n";
    assert_eq!(text(&done.stdout), expected);
}

/// Asks a server; returns its whole answer.
fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_model_is_served_until_a_signal_comes() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut cluster = Cluster::new();
        save_model(&cluster.folder().join("model"));
        let mut command = without_python();
        command.args(["serve", "model", "--port", "0"]).current_dir(cluster.folder());
        cluster.start("serve", command);
        let line = cluster.wait_for_line("serve", "serving on http://", LIMIT);
        let address = line.split("http://").nth(1).unwrap().trim().to_string();
        let body = "{\"columns\": {\"x\": [[1, 2]]}}";
        let length = body.len();
        let request = format!(
            "POST /predict HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let answer = ask(&address, &request);
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("predictions"), "{answer}");
        cluster.signal("serve", signal);
        assert_eq!(cluster.wait("serve", LIMIT).code(), Some(0), "{}", cluster.logs());
    }
}

#[test]
fn a_saved_folder_is_shown_and_exported() {
    let folder = tempfile::tempdir().unwrap();
    save_model(&folder.path().join("model"));
    let shown = run(folder.path(), &["show", "model"]);
    assert!(text(&shown.stdout).contains("fc_0.w_0"), "{shown:?}");
    for (words, file) in [
        (&["export", "model", "--to", "onnx"][..], "model.onnx"),
        (&["export", "model", "--to", "safetensors", "-o", "all"], "all"),
        (
            &["export", "model", "--to=parquet", "--table", "fc_0.w_0", "-o", "rows.parquet"],
            "rows.parquet",
        ),
        (&["show", "model", "--svg", "model.svg"], "model.svg"),
    ] {
        let done = run(folder.path(), words);
        assert_eq!(done.status.code(), Some(0), "{words:?}: {}", text(&done.stderr));
        assert!(text(&done.stdout).contains(file) && folder.path().join(file).exists(), "{done:?}");
    }
    let imported = run(folder.path(), &["import", "model", "fc_0.w_0", "rows.parquet"]);
    assert_eq!(text(&imported.stdout), "fc_0.w_0: 2 rows replaced, 0 added\n", "{imported:?}");
    let failed = run(folder.path(), &["show", "nothing"]);
    assert_eq!(failed.status.code(), Some(1));
    assert_eq!(text(&failed.stderr), "paddlewheel: there is no folder nothing\n");
}

#[test]
fn made_clicks_go_through_a_reader_in_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let made = run(folder.path(), &["make-criteo", "log", "--rows", "50", "--files", "2"]);
    assert_eq!(text(&made.stdout), "50 rows in 2 files, 0 MB, in log\n", "{made:?}");
    let line = format!("cat log/* | {PADDLEWHEEL} criteo-reader 1000 --hash crc32 | wc -l");
    let mut shell = Command::new("sh");
    let counted = shell.arg("-c").arg(&line).current_dir(folder.path()).output().unwrap();
    assert_eq!(text(&counted.stdout).trim(), "50", "{counted:?}");
    let line = format!("printf 'a,b\\n1,x\\n2,y\\n' | {PADDLEWHEEL} csv-reader s=a t=b:hash/10");
    let mut shell = Command::new("sh");
    let read = shell.arg("-c").arg(&line).current_dir(folder.path()).output().unwrap();
    assert_eq!(text(&read.stdout).lines().count(), 2, "{read:?}");
    // A reader that closes its end is not a bug.
    let line = format!("cat log/* log/* | {PADDLEWHEEL} criteo-reader 1000 | head -n 1");
    let mut shell = Command::new("sh");
    let first = shell.arg("-c").arg(&line).current_dir(folder.path()).output().unwrap();
    assert_eq!(text(&first.stdout).lines().count(), 1, "{first:?}");
    assert!(!text(&first.stderr).contains("bug"), "{first:?}");
}

#[test]
fn a_table_becomes_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let rows = (0..400).map(|row| format!("{},{}\n", i32::from(row % 3 == 0), row % 3));
    let table = format!("clicked,ad_id\n{}", rows.collect::<String>());
    fs::write(folder.path().join("clicks.csv"), table).unwrap();
    let words = ["fit", "clicks.csv", "--target", "clicked", "--test", "clicks.csv", "--save", "m"];
    let done = run(folder.path(), &words);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    assert!(text(&done.stdout).contains("test AUC 1.0"), "{}", text(&done.stdout));
    assert!(folder.path().join("m").exists());
}
