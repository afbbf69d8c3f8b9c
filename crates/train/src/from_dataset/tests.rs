mod cuts;

use std::cmp::Ordering;
use std::io::Write;

use data::{Dataset, DatasetKind, Slot};
use program::Net;
use program::backward::Limits;
use program::layers::{self, Data, Embedding, Fc, StepCounter};
use program::optimizer::{Optimizer, Sgd};
use tempfile::TempDir;
use tensor::{DType, Value};

use super::*;
use crate::executor::Feed;

/// Counts what it is shown; ends the pass when told to.
#[derive(Default)]
struct Crowd {
    n_fetched: usize,
    n_watched: usize,
    last: Vec<Option<Tensor>>,
    text: String,
    stops: bool,
}

impl Observer for Crowd {
    fn fetched(&mut self, values: &[Tensor]) {
        assert_eq!(values.len(), 1);
        self.n_fetched += 1;
    }

    fn watched(&mut self, values: Vec<Option<Tensor>>) {
        self.n_watched += 1;
        self.last = values;
    }

    fn measured(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn goes_on(&mut self, _: &Progress) -> bool {
        !self.stops
    }
}

/// y = 2 a - b + 1 over `n` samples in each of `n_files` files.
fn dataset(n_files: usize, n: usize, n_threads: usize) -> (Dataset, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut dataset = Dataset::new(DatasetKind::Queue);
    for file in 0..n_files {
        let path = folder.path().join(format!("part-{file}"));
        let mut out = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
        for at in 0..n {
            let (a, b) = ((at * 7 + file) % 11, (at * 3 + file) % 5);
            let (a, b) = (a as f32 / 11.0, b as f32 / 5.0);
            writeln!(out, "2 {a} {b} 1 {} 1 {}", 2.0 * a - b + 1.0, at % 20).unwrap();
        }
        out.flush().unwrap();
        dataset.settings_mut().files.push(path.to_string_lossy().into_owned());
    }
    let slots = [Slot::floats("x").dense(&[-1, 2]), Slot::floats("y").dense(&[-1, 1])];
    dataset.settings_mut().slots = slots.into();
    dataset.settings_mut().slots.push(Slot::ids("word"));
    dataset.settings_mut().batch_size = 4;
    dataset.settings_mut().n_threads = n_threads;
    (dataset, folder)
}

/// Linear regression with a table of 20 words, a counter of steps, and parameters filled.
fn model() -> (Net, String, Scope) {
    let mut net = Net::with_seed(90);
    let mut b = net.builder();
    let x = layers::data(&mut b, "x", &[2], Data::default()).unwrap();
    let y = layers::data(&mut b, "y", &[1], Data::default()).unwrap();
    let ids = Data { dtype: DType::I64, lod_level: 1, ..Data::default() };
    let word = layers::data(&mut b, "word", &[1], ids).unwrap();
    let table = Embedding { is_sparse: true, ..Embedding::default() };
    let row = layers::embedding(&mut b, &word, [20, 1], table).unwrap();
    let linear = layers::fc(&mut b, &[x], 1, Fc::default()).unwrap();
    let guess = layers::elementwise_add(&mut b, &linear, &row, Default::default()).unwrap();
    let cost = layers::square_error_cost(&mut b, &guess, &y).unwrap();
    let loss = layers::mean(&mut b, &cost, None).unwrap();
    let counter = StepCounter { counter_name: "steps", ..StepCounter::default() };
    layers::autoincreased_step_counter(&mut b, counter).unwrap();
    Optimizer::new(Sgd, 0.05).minimize(&mut b, &loss, &Limits::default()).unwrap();
    let scope = Scope::new();
    Trainer::new().run(&net.startup, &scope, &mut Feed::new(), &[]).unwrap();
    (net, loss.name().to_string(), scope)
}

fn number(scope: &Scope, name: &str) -> f64 {
    scope.read(name, |value| value.tensor().unwrap().get_f64(0)).unwrap()
}

#[test]
fn one_thread_does_what_a_loop_of_runs_does() {
    let (net, loss, scope) = model();
    let (mut dataset, _folder) = dataset(2, 22, 1);
    let (mut by_hand, mut exe) = (Trainer::new(), Trainer::new());
    let other = Scope::new();
    exe.run(&net.startup, &other, &mut Feed::new(), &[]).unwrap();
    for name in scope.names() {
        other.set(&name, scope.get(&name).unwrap());
    }
    let mut reader = dataset.start(0).unwrap().remove(0);
    while let Some(mut feed) = reader.next().unwrap() {
        by_hand.run(&net.main, &other, &mut feed, &[]).unwrap();
    }
    let mut crowd = Crowd::default();
    let options = PassOptions { fetch: vec![loss], fetch_every: 3, ..PassOptions::default() };
    let report = exe
        .run_dataset(
            Pass { program: &net.main, scope: &scope, options: &options },
            &mut dataset,
            &mut crowd,
        )
        .unwrap();
    assert_eq!((report.n_batches, report.n_samples, crowd.n_fetched), (11, 44, 3));
    assert_eq!(report.waited.len(), 1);
    for name in scope.names() {
        assert_eq!(scope.get(&name), other.get(&name), "{name}");
    }
}

#[test]
fn no_step_of_any_thread_is_lost() {
    let (net, loss, scope) = model();
    let (mut dataset, _folder) = dataset(4, 400, 4);
    let mut exe = Trainer::new();
    let before = number(&scope, "steps");
    for pass_number in 1..=2 {
        let options = PassOptions::default();
        let report = exe
            .run_dataset(
                Pass { program: &net.main, scope: &scope, options: &options },
                &mut dataset,
                &mut Crowd::default(),
            )
            .unwrap();
        assert_eq!(report.waited.len(), 4);
        assert_eq!((report.n_batches, report.n_samples), (400, 1600));
        assert_eq!(number(&scope, "steps") - before, 400.0 * f64::from(pass_number));
    }
    let mut feed = Feed::new()
        .with("x", Tensor::new([1, 2], &[0.5f32, 0.2]).unwrap())
        .with("y", Tensor::new([1, 1], &[1.8f32]).unwrap())
        .with("word", Tensor::new([1, 1], &[3i64]).unwrap());
    let error = exe.run(&net.main, &scope, &mut feed, &[&loss]).unwrap()[0].get_f64(0);
    assert!(error < 0.01, "trained: {error}");
}

#[test]
fn who_watches_sees_the_end_of_a_short_pass() {
    let (net, loss, scope) = model();
    let (mut dataset, _folder) = dataset(1, 8, 1);
    let watch = vec![loss, "fc_0.w_0".to_string()];
    let options = PassOptions { watch, ..PassOptions::default() };
    let mut crowd = Crowd::default();
    Trainer::new()
        .run_dataset(
            Pass { program: &net.main, scope: &scope, options: &options },
            &mut dataset,
            &mut crowd,
        )
        .unwrap();
    assert_eq!(crowd.n_watched, 1);
    assert_eq!(crowd.last[1].as_ref(), scope.get("fc_0.w_0").unwrap().tensor());
    assert!(crowd.last[0].is_some());
}

#[test]
fn a_bad_sample_ends_the_pass_and_all_variables_are_back() {
    for n_threads in [1, 3] {
        let (net, _, scope) = model();
        let (mut dataset, folder) = dataset(3, 200, n_threads);
        let bad = folder.path().join("part-1");
        std::fs::write(&bad, "2 0.5 0.5 1 1 1 99\n").unwrap();
        let options = PassOptions::default();
        let ran = Trainer::new().run_dataset(
            Pass { program: &net.main, scope: &scope, options: &options },
            &mut dataset,
            &mut Crowd::default(),
        );
        let text = ran.unwrap_err().to_string();
        assert!(text.contains("lookup_table") && text.contains("99"), "{text}");
        assert!(number(&scope, "fc_0.w_0").is_finite());
        assert!(!scope.hold().is_empty());
    }
}

#[test]
fn a_bad_line_ends_the_pass_and_is_named() {
    let (net, _, scope) = model();
    let (mut dataset, folder) = dataset(2, 50, 2);
    std::fs::write(folder.path().join("part-1"), "2 0.5 0.5 1 1 1 3\n2 0.5 oops\n").unwrap();
    let options = PassOptions::default();
    let ran = Trainer::new().run_dataset(
        Pass { program: &net.main, scope: &scope, options: &options },
        &mut dataset,
        &mut Crowd::default(),
    );
    let error = ran.unwrap_err();
    assert!(matches!(error, Error::Data(data::Error::BadLine { .. })), "{error}");
    assert!(error.to_string().contains("part-1"), "{error}");
}

#[test]
fn a_caller_can_end_a_pass() {
    for n_threads in [1, 2] {
        let (net, _, scope) = model();
        let (mut dataset, _folder) = dataset(2, 10, n_threads);
        // Never ends by itself.
        dataset.settings_mut().pipe_command = "sleep 1000; cat".to_string();
        let mut crowd = Crowd { stops: true, ..Crowd::default() };
        let options = PassOptions::default();
        let ran = Trainer::new().run_dataset(
            Pass { program: &net.main, scope: &scope, options: &options },
            &mut dataset,
            &mut crowd,
        );
        assert!(matches!(ran, Err(Error::PassStopped)), "{ran:?}");
    }
}

#[test]
fn measuring_names_every_op() {
    let (net, _, scope) = model();
    let (mut dataset, _folder) = dataset(1, 400, 1);
    let mut crowd = Crowd::default();
    let options = PassOptions { debug: true, ..PassOptions::default() };
    Trainer::new()
        .run_dataset(
            Pass { program: &net.main, scope: &scope, options: &options },
            &mut dataset,
            &mut crowd,
        )
        .unwrap();
    assert!(crowd.text.contains("[mul], op_mean_time:["), "{}", crowd.text);
    assert!(crowd.text.contains("instances/s"), "{}", crowd.text);
}

#[test]
fn an_unknown_variable_cannot_be_shown() {
    let (net, _, scope) = model();
    let (mut dataset, _folder) = dataset(1, 4, 1);
    let options = PassOptions { fetch: vec!["nowhere".to_string()], ..PassOptions::default() };
    let ran = Trainer::new().run_dataset(
        Pass { program: &net.main, scope: &scope, options: &options },
        &mut dataset,
        &mut Crowd::default(),
    );
    assert!(matches!(ran, Err(Error::FetchUnknown { .. })), "{ran:?}");
}

/// Predictions that are what the files say, their area, and their mean.
fn judged(n_files: usize, n_threads: usize) -> (Net, [String; 4], Scope, Dataset, TempDir) {
    let mut net = Net::with_seed(90);
    let mut b = net.builder();
    let guess = layers::data(&mut b, "guess", &[2], Data::default()).unwrap();
    let label = Data { dtype: DType::I64, ..Data::default() };
    let label = layers::data(&mut b, "label", &[1], label).unwrap();
    let auc = layers::auc(&mut b, &guess, &label, Default::default()).unwrap();
    let mean = layers::mean(&mut b, &guess, None).unwrap();
    let names = [auc.auc.name(), mean.name(), "guess", auc.batch_auc.name()].map(str::to_string);
    let scope = Scope::new();
    Trainer::new().run(&net.startup, &scope, &mut Feed::new(), &[]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut dataset = Dataset::new(DatasetKind::Queue);
    for file in 0..n_files {
        let path = folder.path().join(format!("part-{file}"));
        let lines = (0..30).map(|at| {
            let p = f64::from(at % 10) / 10.0 + file as f64 / 100.0;
            format!("2 {} {p} 1 {}\n", 1.0 - p, u8::from(at % 10 > 4 && at % 7 > 0))
        });
        std::fs::write(&path, lines.collect::<String>()).unwrap();
        dataset.settings_mut().files.push(path.to_string_lossy().into_owned());
    }
    let slots = [Slot::floats("guess").dense(&[-1, 2]), Slot::ids("label").dense(&[-1, 1])];
    dataset.settings_mut().slots = slots.into();
    dataset.settings_mut().batch_size = 4;
    dataset.settings_mut().n_threads = n_threads;
    (net, names, scope, dataset, folder)
}

/// The area of all samples, by counting pairs.
fn area_of(n_files: usize) -> f64 {
    let (mut pos, mut neg) = (Vec::new(), Vec::new());
    for file in 0..n_files {
        for at in 0..30 {
            let p = f64::from(at % 10) / 10.0 + file as f64 / 100.0;
            let kind = if at % 10 > 4 && at % 7 > 0 { &mut pos } else { &mut neg };
            kind.push((p as f32 * 4095.0) as u32);
        }
    }
    let wins = |p: &u32| -> f64 {
        let share = |n: &u32| match p.cmp(n) {
            Ordering::Greater => 1.0,
            Ordering::Equal => 0.5,
            Ordering::Less => 0.0,
        };
        neg.iter().map(share).sum()
    };
    pos.iter().map(wins).sum::<f64>() / (pos.len() * neg.len()) as f64
}

#[test]
fn a_pass_that_only_looks_counts_from_zero_and_leaves_the_counters_of_training() {
    for n_threads in [1, 3] {
        let (net, names, scope, mut dataset, _folder) = judged(3, n_threads);
        let mut exe = Trainer::new();
        let (options, crowd) = (PassOptions::default(), &mut Crowd::default());
        let report = exe
            .run_dataset(
                Pass { program: &net.main, scope: &scope, options: &options },
                &mut dataset,
                crowd,
            )
            .unwrap();
        assert!(report.fetched.is_empty());
        let counters = scope.names().into_iter().filter(|name| name.starts_with("_generated_var"));
        let counters: Vec<String> = counters.collect();
        assert_eq!(counters.len(), 4);
        let before: Vec<_> = counters.iter().map(|name| scope.get(name)).collect();
        let options = PassOptions {
            fetch: names.to_vec(),
            infers: true,
            fetch_every: 0,
            ..PassOptions::default()
        };
        for _ in 0..2 {
            let crowd = &mut Crowd::default();
            let report = exe
                .run_dataset(
                    Pass { program: &net.main, scope: &scope, options: &options },
                    &mut dataset,
                    crowd,
                )
                .unwrap();
            let values: Vec<&Tensor> = report.fetched.iter().map(|whole| &whole.value).collect();
            assert!((values[0].get_f64(0) - area_of(3)).abs() < 1e-9, "{:?}", values[0]);
            assert!((values[1].get_f64(0) - 0.5).abs() < 1e-6, "a mean over all samples");
            assert_eq!(values[2].dims(), [90, 2]);
            let by_sample: Vec<bool> = report.fetched.iter().map(|whole| whole.by_sample).collect();
            assert_eq!(by_sample, [false, false, true, false]);
            let after: Vec<_> = counters.iter().map(|name| scope.get(name)).collect();
            assert_eq!(after, before);
        }
    }
}

#[test]
fn counters_that_somebody_zeroed_are_counted_on_where_they_are() {
    let (net, names, scope, mut dataset, _folder) = judged(2, 2);
    let options =
        PassOptions { fetch: names[..1].to_vec(), infers: true, ..PassOptions::default() };
    let ran = Trainer::new().run_dataset(
        Pass { program: &net.main, scope: &scope, options: &options },
        &mut dataset,
        &mut Crowd::default(),
    );
    assert!((ran.unwrap().fetched[0].value.get_f64(0) - area_of(2)).abs() < 1e-9);
    let counted = |name: &String| -> f64 {
        let sum = |value: &Value| {
            let tensor = value.tensor().unwrap();
            (0..tensor.len()).map(|at| tensor.get_f64(at)).sum::<f64>()
        };
        scope.read(name, sum).unwrap()
    };
    let names = ["_generated_var_2", "_generated_var_3"].map(str::to_string);
    assert_eq!(names.iter().map(counted).sum::<f64>(), 60.0);
}
