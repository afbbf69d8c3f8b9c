//! How a server that keeps cuts starts and ends.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use server::{BadSnapshot, Error, Serving, SnapshotSettings, serve};
use testing::cluster::free_endpoints;
use testing::linear::Linear;
use transpile::{Config, Job, RoundRobin, transpile};

/// Serves until `stops` says so; returns its lines, and how it ended.
fn run(folder: &Path, stops: impl FnMut() -> bool) -> (Vec<String>, server::Result<()>) {
    let endpoint = free_endpoints(1)[0].to_string();
    let mut net = Linear { table: true, ..Linear::default() }.build().0;
    let (job, config) = (Job::new(0, &endpoint, 1), Config::default());
    let (main, startup) = (&mut net.main, &mut net.startup);
    let split = transpile(main, startup, &config, &job, &mut RoundRobin::default()).unwrap();
    let (main, scope) = testing::stores::started_server(&split, &endpoint);
    let said = Arc::new(Mutex::new(Vec::new()));
    let lines = said.clone();
    let serving = Serving {
        keeping: Some(SnapshotSettings::new(folder)),
        log: Arc::new(move |line| lines.lock().unwrap().push(line.text.clone())),
        ..Serving::default()
    };
    let served = serve(&main, &scope, &serving, stops);
    let said = said.lock().unwrap().clone();
    (said, served)
}

#[test]
fn a_server_without_trainers_ends_when_it_is_asked_to() {
    let folder = tempfile::tempdir().unwrap();
    let mut n_asked = 0;
    let begin = Instant::now();
    let (said, served) = run(folder.path(), || {
        n_asked += 1;
        n_asked == 1
    });
    assert!(matches!(served, Err(Error::Train(train::Error::Interrupted { .. }))), "{served:?}");
    assert!(n_asked > 3, "it waited for somebody to make a cut with");
    assert!(begin.elapsed() < Duration::from_secs(15));
    assert!(said.iter().any(|line| line.contains("asked to end")), "{said:?}");
    assert!(folder.path().join("server.0/base.0").exists());
}

#[test]
fn who_asks_twice_is_not_kept_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let mut n_asked = 0;
    let (_, served) = run(folder.path(), || {
        n_asked += 1;
        n_asked <= 2
    });
    assert!(matches!(served, Err(Error::Train(train::Error::Interrupted { .. }))), "{served:?}");
    assert!(n_asked <= 4, "asked {n_asked} times");
}

#[test]
fn a_folder_that_cannot_be_used_is_an_error_at_the_start() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let (_, served) = run(file.path(), || true);
    let error = served.unwrap_err();
    assert!(matches!(error, Error::Snapshot(BadSnapshot::NotWritable { .. })), "{error}");
}
