//! How fast 1 GB of variables and of rows is saved and loaded, against `dd` with fsync in the same turns.
//!
//! `BENCH <name> ratio=…`: megabytes a second of ours against those of `dd`. Files to load are in the page cache;
//! `_cache` is against a `dd` that reads from there and throws away. `SAVE_BENCH_DIR` names the folder to save
//! to; otherwise it is the folder of temporary files.
#![allow(clippy::print_stdout, missing_docs)]

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use program::{Meta, Program, VarDesc};
use protocol::server::Store;
use tensor::{DType, Tensor};
use testing::big_table;
use train::{Scope, io};
use wire::message::{Phase, Save};

const N_TURNS: usize = 5;
const N_VARS: usize = 4;
const MEGABYTES: usize = 1024;
/// Numbers in a row of a table.
const TABLE_WIDTH: usize = 64;

fn main() {
    let dir = std::env::var_os("SAVE_BENCH_DIR").map_or_else(std::env::temp_dir, Into::into);
    let dir = tempfile::tempdir_in(dir).expect("a folder");
    let (program, scope) = (&mut Program::default(), Scope::new());
    let n = MEGABYTES * (1 << 20) / N_VARS / 4;
    for at in 0..N_VARS {
        let meta = Meta::dense(DType::F32, &[n as i64]);
        program.block_mut(0).put_var(VarDesc::new(&format!("w{at}"), meta).persistable());
        let numbers: Vec<f32> = (0..n).map(|i| (i * (at + 1)) as f32).collect();
        scope.set(&format!("w{at}"), Tensor::new([n], &numbers).expect("numbers"));
    }
    for (name, file) in [("1gb", None), ("1gb_combined", Some("all"))] {
        let mut saves = Vec::new();
        let mut loads = Vec::new();
        let mut cached = Vec::new();
        let folder = dir.path().join(name);
        for turn in 0..N_TURNS + 1 {
            let saved =
                rate(|| io::save_persistables(&scope, &folder, program, file).expect("space"));
            let written = rate(|| dd("/dev/zero", &dir.path().join("dd"), "conv=fsync"));
            let read = rate(|| dd(dir.path().join("dd"), Path::new("/dev/null"), "bs=1M"));
            let loaded =
                rate(|| io::load_persistables(&scope, &folder, program, file).expect("files"));
            // The first turn only makes the files.
            if turn > 0 {
                saves.push((saved, written));
                loads.push((loaded, written));
                cached.push((loaded, read));
            }
        }
        std::fs::remove_dir_all(&folder).expect("our own");
        report(&format!("save_{name}"), "dd", &saves);
        report(&format!("load_{name}"), "dd", &loads);
        report(&format!("load_{name}_cache"), "dd", &cached);
    }
    drop(scope);
    save_table(dir.path());
}

/// A server's table of which rows exist here and there: they are sorted, fetched from all over the memory and written.
fn save_table(dir: &Path) {
    let store = big_table::store(TABLE_WIDTH);
    big_table::fill(&store, (MEGABYTES << 20) as u64 / TABLE_WIDTH as u64 / 4);
    let stage = dir.join(".paddlewheel.saving/stage-0123456789abcdef").display().to_string();
    let save = |phase| {
        let (table, dir) = ("table".to_string(), stage.clone());
        store.save(&Save { weights_only: false, table, dir, phase }).expect("space");
    };
    let mut saves = Vec::new();
    for turn in 0..N_TURNS + 1 {
        let saved = rate(|| save(Phase::Write));
        save(Phase::GiveUp);
        let written = rate(|| dd("/dev/zero", &dir.join("dd"), "conv=fsync"));
        if turn > 0 {
            saves.push((saved, written));
        }
    }
    report("save_1gb_table", "dd", &saves);
}

/// Megabytes a second.
fn rate(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    MEGABYTES as f64 / start.elapsed().as_secs_f64()
}

fn dd(from: impl AsRef<Path>, to: &Path, how: &str) {
    let count = format!("count={MEGABYTES}");
    let (from, to) = (from.as_ref().display(), to.display());
    let words =
        [format!("if={from}"), format!("of={to}"), "bs=1M".to_string(), count, how.to_string()];
    let ended = Command::new("dd").args(words).output().expect("dd is there");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

fn report(name: &str, what: &str, turns: &[(f64, f64)]) {
    let median = |values: Vec<f64>| {
        let mut values = values;
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let ratio = median(turns.iter().map(|(ours, other)| ours / other).collect());
    let ours = median(turns.iter().map(|turn| turn.0).collect());
    let other = median(turns.iter().map(|turn| turn.1).collect());
    println!("BENCH {name} ratio={ratio:.3} ours={ours:.0} against={what}={other:.0}");
}
