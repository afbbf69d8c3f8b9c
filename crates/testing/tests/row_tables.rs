//! Tables whose rows exist once they are used: as if they were whole, with every optimizer and
//! initializer; as high as ids get; with rules about which rows are taken in; saved and loaded.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use program::backward::Limits;
use program::distributed::{EntryRule, Mode, Spread};
use program::layers::{self, Data, Elementwise, Reduce, SparseEmbedding};
use program::optimizer::*;
use program::{GradClip, Initializer, Net, ParamAttr, Regularizer, Var, stream};
use protocol::server::Store;
use server::BlockStore;
use server::table::EntryFilter;
use tensor::{DType, Rows, Tensor, Value};
use testing::id_of;
use testing::job::{self, Outcome, Plan};
use testing::session::Session;
use train::Feed;
use transpile::{Config, Error, Job, RoundRobin, Transpiled, transpile};
use wire::TrainerId;
use wire::message::{Grad, Phase, Save};

/// `sum(table[ids] * x)` over a batch, where x is one number for each id.
#[derive(Clone)]
struct Table {
    height: i64,
    init: Initializer,
    entry: Option<&'static str>,
    is_test: bool,
    optimizer: fn() -> Optimizer,
}

const WIDTH: usize = 4;
const HALF: Initializer = Initializer::Constant { value: 0.5 };
const UNIFORM: Initializer = Initializer::Uniform { low: -1.0, high: 1.0, seed: 0 };
const NORMAL: Initializer = Initializer::Normal { loc: 0.0, scale: 1.0, seed: 0 };

fn sgd() -> Optimizer {
    Optimizer::new(Sgd, 0.25)
}

const HIGH: Table =
    Table { height: 1 << 40, init: HALF, entry: None, is_test: false, optimizer: sgd };

impl Table {
    fn build(&self) -> (Net, Var) {
        let mut net = Net::with_seed(90);
        let mut b = net.builder();
        let b = &mut b;
        let ids = Data { dtype: DType::I64, ..Data::default() };
        let ids = layers::data(b, "ids", &[1], ids).unwrap();
        let x = layers::data(b, "x", &[1], Data::default()).unwrap();
        let options = SparseEmbedding {
            entry: self.entry.map(str::to_string),
            is_test: self.is_test,
            param_attr: ParamAttr {
                initializer: Some(self.init.clone()),
                ..ParamAttr::named("table")
            },
            ..SparseEmbedding::default()
        };
        let rows = layers::sparse_embedding(b, &ids, [self.height, WIDTH as i64], options).unwrap();
        let by_row = Elementwise { axis: 0, ..Elementwise::default() };
        let scaled = layers::elementwise_mul(b, &rows, &x, by_row).unwrap();
        let loss = layers::reduce_sum(b, &scaled, Reduce::default()).unwrap();
        (self.optimizer)().minimize(b, &loss, &Limits::default()).unwrap();
        (net, loss)
    }

    fn run(&self, plan: &Plan, feed: impl Fn(usize, usize) -> Feed + Sync, n: usize) -> Outcome {
        job::run(plan, || self.build(), feed, n)
    }
}

/// Each id with its number.
fn feed(ids: &[i64], x: &[f32]) -> Feed {
    let ids = Tensor::new([ids.len(), 1], ids).unwrap();
    Feed::new().with("ids", ids).with("x", Tensor::new([x.len(), 1], x).unwrap())
}

/// A row of the table's second half that all trainers use, and a row of the first half that only
/// one trainer uses.
const COMMON: i64 = (1 << 39) + 77;

fn own(trainer: usize) -> i64 {
    5 + trainer as i64
}

fn ones(trainer: usize, _: usize) -> Feed {
    feed(&[COMMON, own(trainer)], &[1.0; 2])
}

/// The rows that servers wrote of a variable.
fn saved(outcome: &Outcome, var: &str) -> BTreeMap<i64, Vec<f64>> {
    let folder = outcome.folder.path().join("__lookup_table__");
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let part = name.strip_prefix(var).and_then(|rest| rest.strip_prefix('_'));
        let is_part = |part: &str| part.starts_with(|c: char| c.is_ascii_digit());
        if part.is_none_or(|part| !is_part(part) || part.ends_with("_rule")) {
            continue;
        }
        let Rows { ids, value, .. } =
            stream::rows_from_bytes(&std::fs::read(path).unwrap()).unwrap();
        let width = value.dims()[1];
        for (at, id) in ids.into_iter().enumerate() {
            let row = (0..width).map(|k| value.get_f64(at * width + k)).collect();
            assert_eq!(all.insert(id, row), None, "row {id} twice");
        }
    }
    all
}

#[track_caller]
fn assert_rows(outcome: &Outcome, expected: &[(i64, f64)]) {
    let expected: BTreeMap<i64, Vec<f64>> =
        expected.iter().map(|&(id, value)| (id, vec![value; WIDTH])).collect();
    assert_eq!(saved(outcome, "table"), expected);
}

fn modes() -> [(&'static str, Plan); 4] {
    let queued = Config::of(Mode::Async);
    let half_async = Config::of(Mode::HalfAsync);
    [
        ("sync", Plan::sync(2, 2)),
        ("async", Plan::asynchronous(2, 2)),
        ("queued", Plan::with(2, 2, queued)),
        ("half async", Plan::with(2, 2, half_async)),
    ]
}

#[test]
fn a_table_of_two_to_the_forty_costs_its_touched_rows() {
    for (mode, plan) in modes() {
        println!("{mode}");
        let outcome = HIGH.run(&plan, ones, 4);
        // Sync divides by the number of trainers; each step changes a row by 0.25.
        let step = if mode == "sync" { 0.125 } else { 0.25 };
        let values =
            [(COMMON, 0.5 - 8.0 * step), (own(0), 0.5 - 4.0 * step), (own(1), 0.5 - 4.0 * step)];
        assert_rows(&outcome, &values);
        let n_rows: u64 = outcome.stats.iter().map(|stats| stats.rows).sum();
        let n_bytes: u64 = outcome.stats.iter().map(|stats| stats.bytes).sum();
        assert_eq!(n_rows, 3);
        assert!(n_bytes < 1000, "{n_bytes}");
        assert!(!outcome.saved.contains_key("table"));
    }
}

#[test]
fn the_third_gradient_is_the_first_that_a_row_learns_from() {
    let table = Table { entry: Some("count_filter_entry:3"), ..HIGH };
    let outcome = table.run(&Plan::sync(2, 2), ones, 4);
    // Two trainers name the common row in the first round; it learns in three. Own rows learn in two.
    assert_rows(&outcome, &[(COMMON, 0.5 - 0.75), (own(0), 0.25), (own(1), 0.25)]);
    // It reads as zeros until it is taken in, and then as it starts.
    let of_row = |at_common: f64, at_own: f64| 4.0 * (at_common + at_own);
    let expected = [of_row(0.0, 0.0), of_row(0.5, 0.0), of_row(0.25, 0.5), of_row(0.0, 0.375)];
    assert_eq!(outcome.losses[0], expected);
    let dropped: u64 = outcome.stats.iter().map(|stats| stats.dropped).sum();
    assert_eq!(dropped, 2 + 2 * 2);
    for (mode, mut plan) in modes() {
        if mode != "sync" {
            plan.turns = vec![0; 5];
            plan.n_trainers = 1;
            println!("{mode}");
            let outcome = table.run(&plan, |_, _| feed(&[7, 7, 8], &[1.0, 1.0, 2.0]), 5);
            // Two gradients are dropped, in which an id that repeats counts once.
            assert_rows(&outcome, &[(7, 0.5 - 3.0 * 0.5), (8, 0.5 - 3.0 * 0.5)]);
            assert_eq!(outcome.stats.iter().map(|stats| stats.dropped).sum::<u64>(), 4);
        }
    }
}

#[test]
fn rows_that_wait_go_on_waiting_after_a_load() {
    let table = Table { entry: Some("count_filter_entry:4"), optimizer: adagrad, ..HIGH };
    // Trainer 0 uses both rows; the other has another row.
    let ids = |step: usize| if step == 0 { vec![COMMON, 5] } else { vec![COMMON] };
    let steps = |from: usize| {
        move |_: usize, step: usize| {
            let ids = ids(step + from);
            feed(&ids, &vec![1.0; ids.len()])
        }
    };
    let whole = table.run(&Plan::sync(2, 1), steps(0), 6);
    let first = table.run(&Plan::sync(2, 1), steps(0), 5);
    assert_eq!(saved(&first, "table@WAITING"), BTreeMap::from([(5, vec![1.0])]));
    // Any number of servers continues from there, to the same bits.
    for n_servers in 1..=3 {
        let model = Some(first.folder.path().to_path_buf());
        let plan = Plan { model, ..Plan::sync(n_servers, 1) };
        let second = table.run(&plan, steps(5), 1);
        for var in ["table", "table_moment_0", "table@WAITING"] {
            assert_eq!(saved(&second, var), saved(&whole, var), "{var}, {n_servers} servers");
        }
        assert_eq!(second.stats.iter().map(|stats| stats.waiting).sum::<u64>(), 1);
        assert_eq!(second.losses[0][0], whole.losses[0][5]);
    }
}

fn adagrad() -> Optimizer {
    Optimizer::new(Adagrad::default(), 0.25)
}

#[test]
fn a_share_of_rows_is_drawn_the_same_by_any_servers() {
    let table = Table { entry: Some("probability_entry:0.25"), height: 1 << 30, ..HIGH };
    let ids: Vec<i64> = (0..400).map(|k| k * ((1 << 30) / 400)).collect();
    let filter = EntryFilter::new(EntryRule::Probability(0.25), 90, "table", 0);
    let open: Vec<(i64, f64)> = ids
        .iter()
        .filter(|&&id| filter.is_open(id as u64))
        .map(|&id| (id, 0.5 - 2.0 * 0.25))
        .collect();
    assert!((60..140).contains(&open.len()), "{}", open.len());
    for n_servers in [1, 3] {
        let feed = |_, _| feed(&ids, &[1.0; 400]);
        let outcome = table.run(&Plan::sync(n_servers, 1), feed, 2);
        assert_rows(&outcome, &open);
        assert_eq!(outcome.losses[0][0], 4.0 * 0.5 * open.len() as f64);
        let stats = outcome.stats.iter();
        let (rows, dropped) = stats.fold((0, 0), |(a, b), s| (a + s.rows, b + s.dropped));
        assert_eq!((rows, dropped), (open.len() as u64, 2 * (400 - open.len() as u64)));
    }
}

#[test]
fn a_test_makes_no_rows() {
    let table = Table { is_test: true, ..HIGH };
    let outcome = table.run(&Plan::sync(1, 1), ones, 2);
    assert_eq!(outcome.losses[0], [0.0, 2.0 * 4.0 * 0.25], "gradients make rows");
}

/// Ids that come back, and that come late. (None repeats in a batch: a local `sgd` op applies such
/// rows one by one, a server their sum, which rounds otherwise.)
fn varied(_: usize, step: usize) -> Feed {
    let ids = [3, 9_000 + step as i64, 41 * step as i64, 77 - (step % 2) as i64];
    let x: Vec<f32> =
        (0..ids.len()).map(|k| (k as f32 - 1.5) * 0.001 * (step + 1) as f32).collect();
    feed(&ids, &x)
}

/// A name for messages, and how the optimizer is made.
type Named = (&'static str, fn() -> Optimizer);

const OPTIMIZERS: &[Named] = &[
    ("sgd", sgd),
    ("adagrad", adagrad),
    ("adagrad from 0.5", || {
        Optimizer::new(Adagrad { initial_accumulator_value: 0.5, ..Adagrad::default() }, 0.25)
    }),
    ("adam", || Optimizer::new(Adam::default(), 0.25)),
    ("lazy adam", || Optimizer::new(Adam { lazy_mode: true, ..Adam::default() }, 0.25)),
    ("momentum", || Optimizer::new(Momentum { momentum: 0.9, use_nesterov: true }, 0.25)),
    ("adamax", || Optimizer::new(Adamax { epsilon: 0.01, ..Adamax::default() }, 0.25)),
    ("rmsprop", || {
        Optimizer::new(RmsProp { momentum: 0.9, centered: true, ..RmsProp::default() }, 0.25)
    }),
    ("decayed adagrad", || Optimizer::new(DecayedAdagrad::default(), 0.25)),
    ("adadelta", || Optimizer::new(Adadelta::default(), 0.25)),
    ("ftrl", || Optimizer::new(Ftrl { l1: 0.001, l2: 0.1, ..Ftrl::default() }, 0.25)),
    ("clipped", || {
        let mut clipped = adagrad();
        clipped.grad_clip = Some(GradClip::Value { min: -0.002, max: 0.002 });
        clipped
    }),
];

/// The variables of a local run after these steps.
fn local(table: &Table, n_steps: usize) -> Session {
    let (net, loss) = table.build();
    let mut session = Session::start(net);
    for step in 0..n_steps {
        session.run(&mut varied(0, step), &[loss.name()]);
    }
    session
}

#[test]
fn every_optimizer_trains_rows_as_it_trains_whole_tables() {
    for (name, optimizer) in OPTIMIZERS {
        let table = Table { height: 10_001, init: UNIFORM, optimizer: *optimizer, ..HIGH };
        let outcome = table.run(&Plan::sync(2, 1), varied, 6);
        let n_rows: u64 = outcome.stats.iter().map(|stats| stats.rows).sum();
        assert!(n_rows < 100, "{name}: it is whole, {n_rows} rows");
        let local = local(&table, 6);
        let of_table = outcome.saved.iter().filter(|(var, _)| var.starts_with("table"));
        for (var, saved) in of_table {
            assert_eq!(*saved, local.tensor(var), "{name}: {var}");
        }
        assert!(outcome.saved.contains_key("table"), "{name}");
    }
}

/// The results have the same bits with any number of servers, for a table spread by hash or by
/// range. Any number of servers continues from a model that any other number saved, and nothing is
/// lost.
#[test]
fn every_optimizer_is_the_same_on_one_two_and_three_servers() {
    let both = |_: usize, step: usize| varied(0, step);
    for (name, optimizer) in OPTIMIZERS {
        for height in [10_001, 1 << 40] {
            let table = Table { height, init: UNIFORM, optimizer: *optimizer, ..HIGH };
            let run = |n: usize, model: Option<&Outcome>, from: usize, steps: usize| {
                let model = model.map(|outcome| outcome.folder.path().to_path_buf());
                let plan = Plan { model, ..Plan::sync(n, 2) };
                table.run(&plan, |trainer, step| both(trainer, from + step), steps)
            };
            let one = run(1, None, 0, 5);
            let states = |outcome: &Outcome| {
                let vars = ["table", "table_moment_0", "table_moment1_0", "table_velocity_0"];
                vars.map(|var| saved_or_whole(outcome, var, height))
            };
            let begun: Vec<Outcome> = (1..=3).map(|n| run(n, None, 0, 3)).collect();
            for n in 2..=3 {
                let several = run(n, None, 0, 5);
                assert_eq!(several.losses, one.losses, "{name}, {n} servers");
                assert_eq!(states(&several), states(&one), "{name}, {n} servers");
            }
            // The state of adamax for rows that do not exist yet is not saved: those start anew.
            if *name == "adamax" && height > 10_001 {
                continue;
            }
            for (begun, n) in begun.iter().zip([2, 3, 1]) {
                let ended = run(n, Some(begun), 3, 2);
                assert_eq!(ended.losses[0], one.losses[0][3..], "{name} goes on with {n}");
                assert_eq!(states(&ended), states(&one), "{name} goes on with {n}");
            }
        }
    }
}

/// A variable as servers wrote its rows, or as it was saved whole.
fn saved_or_whole(outcome: &Outcome, var: &str, height: i64) -> BTreeMap<i64, Vec<f64>> {
    let Some(whole) = outcome.saved.get(var) else {
        let is_by_rows = outcome.folder.path().join("__lookup_table__").exists();
        return if is_by_rows { saved(outcome, var) } else { BTreeMap::new() };
    };
    assert_eq!(whole.dims(), [height as usize, WIDTH]);
    let row = |row: usize| (0..WIDTH).map(|k| whole.get_f64(row * WIDTH + k)).collect();
    (0..height as usize).map(|at| (at as i64, row(at))).collect()
}

/// Ids of a small vocabulary in a high table.
#[test]
fn small_ids_of_a_high_table_are_on_all_servers() {
    let ids: Vec<i64> = (0..300).collect();
    let outcome = HIGH.run(&Plan::sync(3, 1), |_, _| feed(&ids, &[1.0; 300]), 2);
    let rows: Vec<u64> = outcome.stats.iter().map(|stats| stats.rows).collect();
    assert_eq!(rows.iter().sum::<u64>(), 300);
    assert!(rows.iter().all(|&n| n > 70), "{rows:?}");
}

#[test]
fn every_initializer_starts_rows_as_it_starts_whole_tables() {
    let truncated = Initializer::TruncatedNormal { loc: 0.0, scale: 1.0, seed: 0 };
    for (init, is_whole) in [(UNIFORM, false), (truncated, false), (HALF, false), (NORMAL, true)] {
        let table = Table { height: 10_001, init: init.clone(), ..HIGH };
        let outcome = table.run(&Plan::sync(3, 1), varied, 2);
        let n_rows: u64 = outcome.stats.iter().map(|stats| stats.rows).sum();
        assert_eq!(n_rows > 10_000, is_whole, "{init:?}: {n_rows} rows");
        assert_eq!(outcome.saved["table"], local(&table, 2).tensor("table"), "{init:?}");
    }
}

#[test]
fn a_large_normal_table_starts_from_its_rows_numbers() {
    let table = Table { init: NORMAL, ..HIGH };
    let run = |n_servers| saved(&table.run(&Plan::sync(n_servers, 1), ones, 2), "table");
    let rows = run(1);
    assert_eq!(rows, run(3));
    let mut all: Vec<f64> = rows.into_values().flatten().collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    assert_eq!(all.len(), 2 * WIDTH, "no two numbers are alike");
}

fn split(table: &Table, config: &Config) -> transpile::Result<Transpiled> {
    let (mut net, _) = table.build();
    let job = Job::new(0, "127.0.0.1:7001,127.0.0.1:7002", 2);
    let (main, startup) = (&mut net.main, &mut net.startup);
    transpile(main, startup, config, &job, &mut RoundRobin::default())
}

#[test]
fn what_cannot_be_kept_by_rows_is_said() {
    let lamb = || Optimizer::new(Lamb::default(), 0.1);
    let decay = || {
        let mut sgd = sgd();
        sgd.regularization = Some(Regularizer::L2(0.1));
        sgd
    };
    let sync = Config::default();
    for optimizer in [lamb as fn() -> Optimizer, decay] {
        let error = split(&Table { optimizer, ..HIGH }, &sync).unwrap_err();
        assert!(matches!(error, Error::TableTooLarge { .. }), "{error}");
        let large = Table { height: 100_000_000, optimizer, ..HIGH };
        let split = split(&large, &sync).unwrap();
        assert!(split.warnings()[0].contains("kept whole"), "{:?}", split.warnings());
        let small = Table { height: 1000, optimizer, ..HIGH };
        assert!(self::split(&small, &sync).unwrap().warnings().is_empty());
    }
    assert!(split(&HIGH, &sync).unwrap().warnings().is_empty());
    let geo = Config::of(Mode::Geo { push_every: 100 });
    // A trainer of GEO holds the rows that it used.
    assert!(split(&HIGH, &geo).unwrap().warnings().is_empty());
    let ruled = Table { height: 1000, entry: Some("count_filter_entry:2"), ..HIGH };
    for (config, optimizer) in [(&geo, sgd as fn() -> Optimizer), (&sync, lamb)] {
        let error = split(&Table { optimizer, ..ruled.clone() }, config).unwrap_err();
        assert!(matches!(error, Error::EntryNeedsRows { .. }), "{error}");
    }
    let odd = Table { entry: Some("show_click_entry:a:b"), ..HIGH };
    let error = split(&odd, &sync).unwrap_err();
    assert!(matches!(error, Error::EntryRule { .. }), "{error}");
}

#[test]
fn a_table_whose_numbers_nobody_can_count_is_spread_by_hash_or_refused() {
    let (sync, geo) = (Config::default(), Config::of(Mode::Geo { push_every: 100 }));
    for height in [1 << 62, i64::MAX] {
        let high = Table { height, ..HIGH };
        let split = split(&high, &sync).unwrap();
        let job = split.job();
        assert!(job.pieces("table").all(|placed| placed.spread == Spread::Hash));
        let lamb = Table { optimizer: || Optimizer::new(Lamb::default(), 0.1), ..high.clone() };
        for config in [&sync, &geo] {
            let error = self::split(&lamb, config).unwrap_err();
            assert!(matches!(error, Error::TableTooLarge { .. }), "{error}");
        }
        let job = self::split(&high, &geo).unwrap();
        assert!(job.job().pieces("table").all(|placed| placed.spread == Spread::Hash));
    }
}

/// Both halves of all ids, and their ends.
const SIGNS: [i64; 6] = [0, i64::MAX, i64::MIN, -1, i64::MIN + 77, 5];

#[test]
fn the_highest_table_has_a_row_for_each_id_of_64_bits() {
    let highest = Table { height: i64::MAX, ..HIGH };
    let ruled = Table { entry: Some("count_filter_entry:2"), ..highest.clone() };
    for (table, n_dropped) in [(highest, 0.0), (ruled, 1.0)] {
        for (mode, mut plan) in modes() {
            println!("{mode}");
            plan.n_trainers = 1;
            if mode != "sync" {
                plan.turns = vec![0; 4];
            }
            let outcome = table.run(&plan, |_, _| feed(&SIGNS, &[1.0; 6]), 4);
            assert_rows(&outcome, &SIGNS.map(|id| (id, 0.5 - (4.0 - n_dropped) * 0.25)));
        }
    }
    let drawn = |n_servers| {
        let table = Table { height: i64::MAX, init: UNIFORM, ..HIGH };
        saved(&table.run(&Plan::sync(n_servers, 1), |_, _| feed(&SIGNS, &[1.0; 6]), 2), "table")
    };
    let rows = drawn(1);
    assert_eq!((&rows, rows.len()), (&drawn(3), SIGNS.len()));
}

/// Every push changes all rows alike, so that rows of one moment are alike: of a table whose updates
/// change listed rows, and of one whose updates change all.
#[test]
fn a_save_under_pushes_has_the_values_of_one_moment() {
    const N: usize = 20_000;
    let momentum = || Optimizer::new(Momentum { momentum: 0.5, use_nesterov: false }, 0.25);
    for (name, optimizer) in [("adagrad", adagrad as fn() -> Optimizer), ("momentum", momentum)] {
        let table = Table { optimizer, ..HIGH };
        let (mut net, _) = table.build();
        let job = Job::new(0, "127.0.0.1:7001", 1);
        let config = Config { mode: Mode::Async, ..Config::default() };
        let (main, startup) = (&mut net.main, &mut net.startup);
        let split = transpile(main, startup, &config, &job, &mut RoundRobin::default()).unwrap();
        let (main, scope) = testing::stores::started_server(&split, "127.0.0.1:7001");
        let op = transpile::server_op(&main).unwrap();
        let store = BlockStore::new(&main, op, &scope).unwrap();
        let push = || {
            let ids: Vec<i64> = (0..N as i64).map(|k| k * 977).collect();
            let value = Tensor::full([N, WIDTH], 1.0f32);
            let rows = Rows { ids, height: 1 << 40, value };
            let grad = Grad { var: id_of(&store, "table@GRAD"), value: Value::Rows(rows) };
            store.check(&grad).unwrap();
            store.apply(TrainerId(0), grad).unwrap();
        };
        push();
        let (n_pushed, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    push();
                    n_pushed.fetch_add(1, Ordering::Relaxed);
                }
            });
            let (mut n_overlapped, deadline) = (0, Instant::now() + Duration::from_secs(60));
            while n_overlapped < 5 {
                assert!(Instant::now() < deadline, "{name}: no save under pushes");
                let dir = tempfile::tempdir().unwrap();
                let before = n_pushed.load(Ordering::Relaxed);
                for phase in [Phase::Write, Phase::Place] {
                    let dir = dir
                        .path()
                        .join(".paddlewheel.saving/stage-1")
                        .to_str()
                        .unwrap()
                        .to_string();
                    let (table, weights_only) = ("table".to_string(), false);
                    store.save(&Save { table, dir, phase, weights_only }).unwrap();
                }
                n_overlapped += usize::from(n_pushed.load(Ordering::Relaxed) > before);
                for file in std::fs::read_dir(dir.path().join("__lookup_table__")).unwrap() {
                    let path = file.unwrap().path();
                    if path.to_str().unwrap().ends_with("_parts")
                        || path.to_str().unwrap().ends_with("_rule")
                    {
                        continue;
                    }
                    let rows = stream::rows_from_bytes(&std::fs::read(&path).unwrap()).unwrap();
                    let values = rows.value.data::<f32>().unwrap();
                    assert_eq!(values.len(), N * WIDTH);
                    let odd = values.iter().position(|x| *x != values[0]);
                    assert_eq!(odd, None, "{name}: {path:?} is of two moments");
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
