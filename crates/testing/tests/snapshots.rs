//! Snapshots of servers: whatever a server holds, it is the same to the last bit after it went back to a
//! cut, in the same process or in another one; damaged, foreign or newer files are refused.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::path::Path;
use std::sync::Arc;

use program::distributed::Mode;
use program::optimizer::*;
use program::{GradClip, Regularizer};
use protocol::server::{CutRecord, Store};
use server::SnapshotSettings;
use testing::stores::{Model, OUTPUTS, Servers, TableKind};
use transpile::Config;

const ALL_TABLES: [TableKind; 5] = [
    TableKind::Touched,
    TableKind::Spread,
    TableKind::Whole,
    TableKind::Filtered("count_filter_entry:3"),
    TableKind::Filtered("probability_entry:0.5"),
];

fn model(optimizer: fn(LearningRate) -> Optimizer) -> Model {
    Model { optimizer, tables: ALL_TABLES.to_vec(), outputs: OUTPUTS, falls: true, seed: 90 }
}

fn sgd(rate: LearningRate) -> Optimizer {
    Optimizer::new(Sgd, rate)
}

fn keep_cuts(servers: &mut Servers, folder: &Path) {
    for server in &mut servers.all {
        server.store.keep(&SnapshotSettings::new(folder), Arc::new(|_| ())).unwrap();
    }
}

/// Every server's part of a cut; steps continue while it is written.
fn cut(servers: &Servers, number: u64, meanwhile: impl FnOnce()) {
    for server in &servers.all {
        server.store.mark(number).unwrap();
    }
    meanwhile();
    for server in &servers.all {
        let (state, journal) = (vec![number as u8; 3].into(), vec![100 + number as u8; 2].into());
        let record = CutRecord { cut: number, term: 1, complete: 0, state, journal };
        assert!(server.store.write_cut(&record).unwrap().bytes > 0);
    }
}

fn roll_back(servers: &Servers, number: u64, term: u64) {
    for server in &servers.all {
        let state = server.store.roll_back(number, term).unwrap();
        assert_eq!(state, vec![number as u8; 3]);
        let journal: Vec<u8> = (0..=number).flat_map(|cut| [100 + cut as u8; 2]).collect();
        assert_eq!(server.store.journal(number).unwrap(), journal);
    }
}

#[track_caller]
fn assert_same(left: &Servers, right: &Servers, what: &str) {
    let ((left, left_size), (right, right_size)) = (left.observe(), right.observe());
    for (name, value) in &left {
        assert!(right.get(name) == Some(value), "{what}: {name} differs");
    }
    assert_eq!((left.len(), left_size), (right.len(), right_size), "{what}");
}

/// Trains, cuts, trains, goes back, trains on: all is as if nothing had happened.
fn check(model: &Model, config: &Config, n_trainers: usize) {
    let folder = tempfile::tempdir().unwrap();
    let start = || Servers::start(model, config, 1, n_trainers);
    let (mut kept, plain) = (start(), start());
    keep_cuts(&mut kept, folder.path());
    assert!(kept.all[0].store.on_disk().unwrap().cuts.is_empty());
    cut(&kept, 0, || ());
    let both = |from: u64, to: u64| {
        for step in from..to {
            assert_eq!(kept.step(step), plain.step(step), "step {step}");
        }
    };
    both(0, 4);
    cut(&kept, 1, || both(4, 5));
    both(5, 8);
    // Later steps are dropped.
    cut(&kept, 2, || (100..103).for_each(|step| drop(kept.step(step))));
    cut(&kept, 3, || drop(kept.step(103)));
    roll_back(&kept, 2, 2);
    assert_same(&kept, &plain, "back at cut 2");
    both(8, 11);
    cut(&kept, 3, || both(11, 12));
    assert_same(&kept, &plain, "after cut 3");
    roll_back(&kept, 1, 3);
    let again = start();
    (0..4).for_each(|step| drop(again.step(step)));
    assert_same(&kept, &again, "back at cut 1");
    drop(kept);
    // Another process.
    let mut kept = start();
    keep_cuts(&mut kept, folder.path());
    let on_disk = kept.all[0].store.on_disk().unwrap();
    assert_eq!((on_disk.term, on_disk.cuts), (3, vec![0, 1]));
    roll_back(&kept, 1, 4);
    for step in 4..9 {
        assert_eq!(kept.step(step), again.step(step), "step {step} of another process");
    }
    assert_same(&kept, &again, "another process");
    roll_back(&kept, 0, 5);
    assert_same(&kept, &start(), "back at the beginning");
}

/// Optimizers that leave rows alone, or treat all alike: tables are kept by rows.
const BY_ROWS: [fn(LearningRate) -> Optimizer; 13] = [
    sgd,
    |rate| Optimizer::new(Momentum { momentum: 0.9, use_nesterov: false }, rate),
    |rate| Optimizer::new(Momentum { momentum: 0.9, use_nesterov: true }, rate),
    |rate| Optimizer::new(Adam::default(), rate),
    |rate| Optimizer::new(Adam { lazy_mode: true, ..Adam::default() }, rate),
    |rate| Optimizer::new(Adagrad::default(), rate),
    |rate| Optimizer::new(Adagrad { initial_accumulator_value: 0.5, ..Adagrad::default() }, rate),
    |rate| Optimizer::new(DecayedAdagrad::default(), rate),
    |rate| Optimizer::new(Adamax::default(), rate),
    |rate| Optimizer::new(Adadelta::default(), rate),
    |rate| Optimizer::new(RmsProp::default(), rate),
    |rate| Optimizer::new(RmsProp { momentum: 0.9, centered: true, ..RmsProp::default() }, rate),
    |rate| Optimizer::new(Ftrl::default(), rate),
];

/// Optimizers that look at all of a table.
const WHOLE: [fn(LearningRate) -> Optimizer; 5] = [
    |rate| Optimizer::new(Ftrl { l1: 0.1, l2: 0.1, lr_power: -0.7 }, rate),
    |rate| Optimizer::new(LarsMomentum { momentum: 0.9, ..LarsMomentum::default() }, rate),
    |rate| Optimizer::new(Lamb::default(), rate),
    |rate| Optimizer::new(Dpsgd { clip: 0.7, batch_size: 16.0, sigma: 0.0 }, rate),
    |rate| {
        let mut sgd = Optimizer::new(Sgd, rate);
        sgd.regularization = Some(Regularizer::L2(0.5));
        sgd.grad_clip = Some(GradClip::Value { min: -0.3, max: 0.3 });
        sgd
    },
];

#[test]
fn every_optimizer_goes_back_to_the_bit() {
    let all = BY_ROWS.iter().map(|&optimizer| model(optimizer));
    let whole = |&optimizer| Model { tables: vec![TableKind::Whole], ..model(optimizer) };
    for (at, model) in all.chain(WHOLE.iter().map(whole)).enumerate() {
        println!("optimizer {at}");
        check(&model, &Config::default(), 2);
    }
}

#[test]
fn every_mode_goes_back_to_the_bit() {
    let adam = |rate| Optimizer::new(Adam { lazy_mode: true, ..Adam::default() }, rate);
    check(&model(adam), &Config::of(Mode::Async), 2);
    check(&model(sgd), &Config::of(Mode::Ssp { staleness: 2 }), 3);
    let compensated = Config { enable_dc_asgd: true, mode: Mode::Async, ..Config::default() };
    check(&Model { tables: Vec::new(), ..model(sgd) }, &compensated, 3);
    let tables = vec![TableKind::Touched, TableKind::Whole];
    check(&Model { tables, ..model(sgd) }, &Config::of(Mode::Geo { push_every: 1 }), 3);
}
