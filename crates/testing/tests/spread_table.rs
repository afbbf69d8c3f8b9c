//! A table made with `is_distributed=True`: rows spread over servers by a hash of their ids, made when
//! they are first used, saved by each server and loaded again.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use program::distributed::{Mode, server_of};
use program::stream;
use tensor::{Rows, Tensor, Value};
use testing::job::{self, Outcome, Plan};
use testing::linear::{COMMON, LR, Linear, ROW_GRAD, own_row};
use train::{Error, io};
use transpile::Config;

const SPREAD: Linear = Linear { table: true, is_distributed: true, halving: false };

fn run(plan: &Plan, n_steps: usize) -> Outcome {
    job::run(plan, || SPREAD.build(), |trainer, step| SPREAD.feed(trainer, step), n_steps)
}

/// The rows that a server wrote.
fn shard(outcome: &Outcome, number: usize) -> Rows {
    let path = outcome.folder.path().join(format!("__lookup_table__/table_{number}"));
    stream::rows_from_bytes(&std::fs::read(path).unwrap()).unwrap()
}

/// The rows of all servers after these many uses of the common row and of each trainer's own.
#[track_caller]
fn assert_rows(outcome: &Outcome, n_servers: usize, uses: &[(i64, usize)]) {
    for number in 0..n_servers {
        let here = uses.iter().filter(|(id, _)| server_of(*id, n_servers) == number);
        let mut expected: Vec<(i64, f32)> =
            here.map(|&(id, n)| (id, 0.5 - LR * ROW_GRAD * n as f32)).collect();
        expected.sort_by_key(|(id, _)| *id);
        let rows = shard(outcome, number);
        assert_eq!(rows.ids, expected.iter().map(|(id, _)| *id).collect::<Vec<_>>());
        assert_eq!(rows.height, 10_001);
        let values: Vec<f32> = expected.iter().flat_map(|&(_, value)| [value; 4]).collect();
        assert_eq!(rows.value, Tensor::new([rows.ids.len(), 4], &values).unwrap());
    }
}

#[test]
fn rows_exist_once_they_were_used_and_learn() {
    let queued = Config::of(Mode::Async);
    let half_async = Config::of(Mode::HalfAsync);
    let plans = [
        ("sync", Plan::sync(3, 2)),
        ("async", Plan::asynchronous(3, 2)),
        ("queued", Plan::with(3, 2, queued)),
        ("half async", Plan::with(3, 2, half_async)),
    ];
    for (mode, plan) in plans {
        println!("{mode}");
        let outcome = run(&plan, 4);
        // Gradients of trainers are added up, in sync too: not divided by their number.
        assert_rows(&outcome, 3, &[(COMMON, 8), (own_row(0), 4), (own_row(1), 4)]);
        let n_rows: u64 = outcome.stats.iter().map(|stats| stats.rows).sum();
        assert_eq!(n_rows, 3 + 4, "three rows of the table, four of `w`");
        assert!(!outcome.saved.contains_key("table"));
    }
}

#[test]
fn trainers_see_what_rows_learnt() {
    let outcome = run(&Plan::sync(2, 1), 3);
    let x = |step: usize| 1.0 + (step + 1) as f64 + 0.5 - 1.0;
    // The first loss is that of unused rows.
    assert_eq!(outcome.losses[0][0], x(0) + 0.5);
    assert!(outcome.losses[0][1] < x(1) + 0.5);
}

#[test]
fn a_saved_table_is_loaded_by_as_many_servers() {
    let first = run(&Plan::sync(2, 1), 4);
    let dir = first.folder.path().to_path_buf();
    let again = Plan { model: Some(dir.clone()), ..Plan::sync(2, 2) };
    let second = run(&again, 2);
    assert_rows(&second, 2, &[(COMMON, 8), (own_row(0), 6), (own_row(1), 2)]);
    assert_ne!(second.saved["w"], first.saved["w"], "it went on from what was saved");
    // As many servers as there are files may not be as many as wrote them.
    let folder = dir.join("__lookup_table__");
    let with_rows = (0..2).find(|&k| !shard(&first, k).ids.is_empty()).unwrap();
    let other = 1 - with_rows;
    let file = |number: usize| folder.join(format!("table_{number}"));
    std::fs::copy(file(with_rows), file(other)).unwrap();
    let load = || load(&dir, &format!("127.0.0.1:700{}", other + 1)).unwrap_err();
    assert!(matches!(load(), Error::FileDiffers { path, .. } if path == file(other)));
    std::fs::remove_file(file(other)).unwrap();
    assert!(matches!(load(), Error::FileLost { path, .. } if path == file(other)));
    // Without a list of files, the contents must tell.
    forget_list(&dir);
    assert!(matches!(load(), Error::MissingPart { path, n: 2, .. } if path == file(other)));
    std::fs::copy(file(with_rows), file(other)).unwrap();
    assert!(matches!(load(), Error::RowsFile { path, .. } if path == file(other)));
}

#[test]
fn any_number_of_servers_loads_what_any_number_saved() {
    for (n_before, n_after) in (1..=3).flat_map(|n| (1..=3).map(move |m| (n, m))) {
        let first = run(&Plan::sync(n_before, 2), 4);
        let dir = first.folder.path().to_path_buf();
        let again = Plan { model: Some(dir.clone()), ..Plan::sync(n_after, 1) };
        let second = run(&again, 2);
        let uses = [(COMMON, 10), (own_row(0), 6), (own_row(1), 4)];
        assert_rows(&second, n_after, &uses);
    }
}

#[test]
fn a_save_that_is_not_whole_is_refused() {
    let first = run(&Plan::sync(3, 2), 1);
    let dir = first.folder.path().to_path_buf();
    let folder = dir.join("__lookup_table__");
    let file = |number: usize| folder.join(format!("table_{number}"));
    assert_eq!(std::fs::read(folder.join("table_parts")).unwrap(), b"3 hash");
    let last = std::fs::read(file(2)).unwrap();
    std::fs::remove_file(file(2)).unwrap();
    let load = || load(&dir, "127.0.0.1:7001").unwrap_err();
    assert!(matches!(load(), Error::FileLost { path, .. } if path == file(2)));
    // A part too many.
    std::fs::write(file(2), &last).unwrap();
    std::fs::write(file(3), &last).unwrap();
    assert!(matches!(load(), Error::SurplusPart { path, n: 3, .. } if path == file(3)));
    std::fs::remove_file(file(3)).unwrap();
    // Files of different saves.
    let with_rows = (0..3).find(|&k| !shard(&first, k).ids.is_empty()).unwrap();
    let other = (with_rows + 1) % 3;
    std::fs::copy(file(with_rows), file(other)).unwrap();
    assert!(matches!(load(), Error::FileDiffers { path, .. } if path == file(other)));
    forget_list(&dir);
    assert!(matches!(load(), Error::RowsFile { path, .. } if path == file(other)));
}

/// As a version left it that knew no list of files.
fn forget_list(dir: &std::path::Path) {
    std::fs::remove_file(dir.join(".paddlewheel")).unwrap();
}

/// Files as servers wrote them when the server of an id was `id % n_servers`.
#[test]
fn a_folder_of_the_former_layout_is_loaded_by_any_number_of_servers() {
    let uses = [(COMMON, 4), (own_row(0), 4)];
    for (n_before, n_after) in (1..=3).flat_map(|n| (1..=3).map(move |m| (n, m))) {
        let first = run(&Plan::sync(1, 1), 4);
        let dir = first.folder.path().to_path_buf();
        let all = shard(&first, 0);
        let folder = dir.join("__lookup_table__");
        forget_list(&dir);
        std::fs::remove_file(folder.join("table_parts")).unwrap();
        for number in 0..n_before {
            let is_here = |id: i64| id % n_before as i64 == number as i64;
            let mut rows = all.clone();
            rows.retain(|at| is_here(all.ids[at]));
            rows.height = (10_001 + n_before as i64 - 1) / n_before as i64;
            let bytes = stream::to_bytes(&Value::Rows(rows)).unwrap();
            std::fs::write(folder.join(format!("table_{number}")), bytes).unwrap();
        }
        if n_before == 2 {
            std::fs::write(folder.join("table_parts"), "2").unwrap();
        }
        let again = Plan { model: Some(dir), ..Plan::sync(n_after, 1) };
        let second = run(&again, 2);
        assert_rows(&second, n_after, &uses.map(|(id, n)| (id, n + 2)));
    }
}

/// Starts a server from a folder, up to where it would serve.
fn load(dir: &std::path::Path, endpoint: &str) -> train::Result<()> {
    use transpile::{Job, RoundRobin, transpile};
    let (mut net, _) = SPREAD.build();
    let job = Job::new(0, "127.0.0.1:7001,127.0.0.1:7002", 1);
    let (main, startup) = (&mut net.main, &mut net.startup);
    let split =
        transpile(main, startup, &Config::default(), &job, &mut RoundRobin::default()).unwrap();
    let (main, scope) = testing::stores::started_server(&split, endpoint);
    io::load_slices(main.distributed.as_ref().unwrap(), &scope, dir)?;
    let op = transpile::server_op(&main).unwrap();
    match server::BlockStore::new(&main, op, &scope) {
        Err(server::Error::Train(error)) => Err(error),
        started => {
            started.unwrap();
            Ok(())
        }
    }
}
