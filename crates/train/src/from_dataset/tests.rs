use std::io::Write;

use data::{Dataset, Kind, Slot};
use program::Net;
use program::backward::Limits;
use program::layers::{self, Data, Embedding, Fc, StepCounter};
use program::optimizer::{Optimizer, Sgd};
use tempfile::TempDir;
use tensor::DType;

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

impl Audience for Crowd {
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
    let mut dataset = Dataset::new(Kind::Queue);
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
    let loss = layers::mean(&mut b, &cost).unwrap();
    let counter = StepCounter { counter_name: "steps", ..StepCounter::default() };
    layers::autoincreased_step_counter(&mut b, counter).unwrap();
    Optimizer::new(Sgd, 0.05).minimize(&mut b, &loss, &Limits::default()).unwrap();
    let scope = Scope::new();
    Executor::new().run(&net.startup, &scope, &mut Feed::new(), &[]).unwrap();
    (net, loss.name().to_string(), scope)
}

fn number(scope: &Scope, name: &str) -> f64 {
    scope.read(name, |value| value.tensor().unwrap().get_f64(0)).unwrap()
}

#[test]
fn one_thread_does_what_a_loop_of_runs_does() {
    let (net, loss, scope) = model();
    let (mut dataset, _folder) = dataset(2, 22, 1);
    let (mut by_hand, mut exe) = (Executor::new(), Executor::new());
    let other = Scope::new();
    exe.run(&net.startup, &other, &mut Feed::new(), &[]).unwrap();
    for name in scope.names() {
        other.set(&name, scope.get(&name).unwrap());
    }
    let mut reader = dataset.start(0).unwrap().remove(0);
    while let Some(batch) = reader.next().unwrap() {
        let mut feed: Feed = batch.into_iter().collect();
        by_hand.run(&net.main, &other, &mut feed, &[]).unwrap();
    }
    let mut crowd = Crowd::default();
    let pass = Pass { fetch: vec![loss], fetch_every: 3, ..Pass::default() };
    let readers = dataset.start(0).unwrap();
    let report = exe.run_dataset((&net.main, &scope), readers, &pass, &mut crowd).unwrap();
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
    let mut exe = Executor::new();
    let before = number(&scope, "steps");
    for pass_number in 1..=2 {
        let readers = dataset.start(0).unwrap();
        assert_eq!(readers.len(), 4);
        let (what, pass) = ((&net.main, &scope), Pass::default());
        let report = exe.run_dataset(what, readers, &pass, &mut Crowd::default()).unwrap();
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
    let pass = Pass { watch, ..Pass::default() };
    let mut crowd = Crowd::default();
    let readers = dataset.start(0).unwrap();
    Executor::new().run_dataset((&net.main, &scope), readers, &pass, &mut crowd).unwrap();
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
        let readers = dataset.start(0).unwrap();
        let (what, pass) = ((&net.main, &scope), Pass::default());
        let ran = Executor::new().run_dataset(what, readers, &pass, &mut Crowd::default());
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
    let readers = dataset.start(0).unwrap();
    let (what, pass) = ((&net.main, &scope), Pass::default());
    let ran = Executor::new().run_dataset(what, readers, &pass, &mut Crowd::default());
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
        let readers = dataset.start(0).unwrap();
        let (what, pass) = ((&net.main, &scope), Pass::default());
        let ran = Executor::new().run_dataset(what, readers, &pass, &mut crowd);
        assert!(matches!(ran, Err(Error::PassStopped)), "{ran:?}");
    }
}

#[test]
fn measuring_names_every_op() {
    let (net, _, scope) = model();
    let (mut dataset, _folder) = dataset(1, 400, 1);
    let mut crowd = Crowd::default();
    let readers = dataset.start(0).unwrap();
    let (what, pass) = ((&net.main, &scope), Pass { debug: true, ..Pass::default() });
    Executor::new().run_dataset(what, readers, &pass, &mut crowd).unwrap();
    assert!(crowd.text.contains("[mul], op_mean_time:["), "{}", crowd.text);
    assert!(crowd.text.contains("instances/s"), "{}", crowd.text);
}

#[test]
fn an_unknown_variable_cannot_be_shown() {
    let (net, _, scope) = model();
    let (mut dataset, _folder) = dataset(1, 4, 1);
    let pass = Pass { fetch: vec!["nowhere".to_string()], ..Pass::default() };
    let readers = dataset.start(0).unwrap();
    let ran =
        Executor::new().run_dataset((&net.main, &scope), readers, &pass, &mut Crowd::default());
    assert!(matches!(ran, Err(Error::FetchUnknown { .. })), "{ran:?}");
}
