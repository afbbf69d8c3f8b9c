//! A saved model, used by many threads: numbers of the real Fluid, newer models, wrong input.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use predict::{Column, Error, ModelFiles, Predictor, Samples};
use program::layers::{self, Data, Elementwise, Embedding, Fc, Reduce, SequencePool};
use program::{Initializer, Net, ParamAttr};
use tensor::{DType, Lod, Tensor, mix};
use testing::golden;
use testing::session::Session;
use train::io::{self, SaveInference};
use train::{Executor, Feed, Scope};

fn golden_model(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/files").join(name)
}

/// A model whose prediction is the sum of a sample's rows, plus a number of its own.
fn save_model(dir: &Path, bias: f32) {
    let mut net = Net::with_seed(7);
    let b = &mut net.builder();
    let ids = Data { dtype: DType::I64, lod_level: 1, ..Data::default() };
    let ids = layers::data(b, "ids", &[1], ids).unwrap();
    let x = layers::data(b, "x", &[2], Data::default()).unwrap();
    let constant = |value| ParamAttr::init(Initializer::Constant { value });
    let table = Embedding { param_attr: constant(1.0), ..Embedding::default() };
    let rows = layers::embedding(b, &ids, [100, 2], table).unwrap();
    let sum = layers::sequence_pool(b, &rows, "sum", SequencePool::default()).unwrap();
    let both = layers::concat(b, &[sum, x], 1, None).unwrap();
    let options =
        Fc { param_attr: vec![constant(1.0)], bias_attr: constant(bias).into(), ..Fc::default() };
    let out = layers::fc(b, &[both], 1, options).unwrap();
    let session = Session::start(net);
    let (feeds, targets) = (["ids", "x"], [out.name()]);
    let options = SaveInference { feeds: &feeds, targets: &targets, ..SaveInference::default() };
    io::save_inference_model(&session.scope, dir, &session.net.main, &options).unwrap();
}

/// Two samples: two ids and one id.
fn predict(predictor: &Predictor) -> Vec<f32> {
    let mut batch = predictor.batch();
    batch.set("ids", Column::Sequences { values: &[3, 4, 5], lengths: &[2, 1] }).unwrap();
    batch.set("x", Column::Numbers(&[0.5, 0.0, 0.25, 0.25])).unwrap();
    predictor.predict(&mut batch).unwrap()[0].data::<f32>().unwrap().to_vec()
}

#[test]
fn models_of_the_real_fluid_predict_what_it_predicts() {
    let files = golden::json("files.json");
    let floats = |value: &serde_json::Value| -> Vec<f32> {
        fn walk(value: &serde_json::Value, out: &mut Vec<f32>) {
            match value.as_array() {
                Some(all) => all.iter().for_each(|value| walk(value, out)),
                None => out.push(value.as_f64().unwrap() as f32),
            }
        }
        let mut out = Vec::new();
        walk(value, &mut out);
        out
    };
    let combined =
        ModelFiles { model: Some("model.bin".to_string()), params: Some("params.bin".to_string()) };
    let unnamed = ModelFiles::default();
    // Files that are not named are found.
    for (dir, names) in [
        ("inference", unnamed.clone()),
        ("inference_combined", combined),
        ("inference_combined", unnamed),
    ] {
        let input = &files["ctr"]["input"];
        let dir = golden_model(&format!("ctr/{dir}"));
        let predictor = Predictor::load_files(&dir, names).unwrap();
        let ids: Vec<i64> = floats(&input["C1"][0]).iter().map(|&id| id as i64).collect();
        let lengths: Vec<usize> = floats(&input["C1"][1]).iter().map(|&n| n as usize).collect();
        let mut batch = predictor.batch();
        batch.set("C1", Column::Sequences { values: &ids, lengths: &lengths }).unwrap();
        batch.set("dense_input", Column::Numbers(&floats(&input["dense_input"][0]))).unwrap();
        let ours = predictor.predict(&mut batch).unwrap();
        let theirs = floats(&files["ctr"]["output"]);
        assert_eq!(ours[0].len(), theirs.len());
        for (ours, theirs) in ours[0].data::<f32>().unwrap().iter().zip(theirs) {
            assert!((ours - theirs).abs() < 1e-6, "{ours} and {theirs}");
        }
    }
}

#[test]
fn an_array_of_ids_is_one_id_for_each_sample() {
    let dir = tempfile::tempdir().unwrap();
    save_model(dir.path(), 0.0);
    let predictor = Predictor::load(dir.path()).unwrap();
    assert_eq!(predict(&predictor), [4.5, 2.5]);
    let mut batch = predictor.batch();
    batch.set("ids", Column::Integers(&[1, 2])).unwrap();
    batch.set("x", Column::Integers(&[1, 0, 2, 2])).unwrap();
    let out = predictor.predict(&mut batch).unwrap();
    assert_eq!(out[0], Tensor::new([2, 1], &[3.0f32, 6.0]).unwrap());
}

#[test]
fn a_newer_model_is_taken_over_while_threads_predict() {
    let dir = tempfile::tempdir().unwrap();
    save_model(dir.path(), 0.0);
    let predictor = Predictor::load(dir.path()).unwrap();
    predictor.follow(Duration::from_millis(20)).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let out = predict(&predictor);
                    let bias = out[1] - 2.5;
                    // One model or the other, never a mixture.
                    assert_eq!(out, [4.5 + bias, 2.5 + bias]);
                    assert!(bias == 0.0 || bias == 100.0, "{bias}");
                }
            });
        }
        save_model(dir.path(), 100.0);
        let deadline = Instant::now() + Duration::from_secs(30);
        while predict(&predictor) != [104.5, 102.5] {
            assert!(Instant::now() < deadline, "the new model was not taken over");
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
    });
    // A model that is damaged is not taken over.
    let name = std::fs::read_dir(dir.path()).unwrap().find_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        name.starts_with("fc_0").then_some(name)
    });
    std::fs::write(dir.path().join(name.unwrap()), "no parameter").unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while predictor.loads().1.is_none() {
        assert!(Instant::now() < deadline, "the damage was not seen");
        std::thread::yield_now();
    }
    assert_eq!(predict(&predictor), [104.5, 102.5]);
    save_model(dir.path(), 0.0);
    while predict(&predictor) != [4.5, 2.5] {
        assert!(Instant::now() < deadline, "the repaired model was not taken over");
        std::thread::yield_now();
    }
    assert_eq!(predictor.loads().1, None);
}

#[test]
fn wrong_input_is_named_and_harms_nothing() {
    let dir = tempfile::tempdir().unwrap();
    save_model(dir.path(), 0.0);
    let predictor = Predictor::load(dir.path()).unwrap();
    let set = |name: &str, column| predictor.batch().set(name, column).unwrap_err();
    let error = set("idz", Column::Integers(&[1]));
    assert!(matches!(&error, Error::UnknownSlot { slot, .. } if slot == "idz"), "{error}");
    assert!(error.to_string().contains("`ids`"), "{error}");
    let error = set("ids", Column::Numbers(&[1.0]));
    assert!(matches!(&error, Error::WrongType { slot, .. } if slot == "ids"), "{error}");
    let error = set("x", Column::Numbers(&[1.0; 3]));
    assert!(matches!(&error, Error::WrongLength { slot, .. } if slot == "x"), "{error}");
    let error = set("ids", Column::Sequences { values: &[1, 2], lengths: &[usize::MAX, 3] });
    assert!(matches!(&error, Error::WrongLength { slot, .. } if slot == "ids"), "{error}");
    let error = set("x", Column::Numbers(&[1.0, 0.0, 0.0, f32::NAN]));
    assert!(matches!(&error, Error::NotFinite { sample: 1, .. }), "{error}");
    let predict_both = |ids: &[i64], x: &[f32]| {
        let mut batch = predictor.batch();
        batch.set("ids", Column::Integers(ids)).unwrap();
        batch.set("x", Column::Numbers(x)).unwrap();
        predictor.predict(&mut batch).unwrap_err()
    };
    let error = predict_both(&[1, 2], &[0.0, 0.0]);
    assert!(matches!(error, Error::SampleCount { actual: 1, expected: 2, .. }), "{error}");
    assert!(matches!(predict_both(&[], &[]), Error::NoSamples));
    let error = predict_both(&[100], &[0.0, 0.0]);
    assert!(
        matches!(&error, Error::IdOutOfRange { slot, id: 100, .. } if slot == "ids"),
        "{error}"
    );
    let mut batch = predictor.batch();
    batch.set("ids", Column::Integers(&[1])).unwrap();
    let error = predictor.predict(&mut batch).unwrap_err();
    assert!(matches!(&error, Error::MissingSlot { slot } if slot == "x"), "{error}");
    assert!(Predictor::load(&dir.path().join("nothing")).is_err());
    assert_eq!(predict(&predictor), [4.5, 2.5]);
}

/// A model of ids, sequences and numbers with two layers, whose prediction of a sample is its own affair.
fn save_layers(dir: &Path) {
    let mut net = Net::with_seed(11);
    let b = &mut net.builder();
    let data = |lod_level| Data { dtype: DType::I64, lod_level, ..Data::default() };
    let one = layers::data(b, "one", &[1], data(0)).unwrap();
    let many = layers::data(b, "many", &[1], data(1)).unwrap();
    let x = layers::data(b, "x", &[3], Data::default()).unwrap();
    let start = Initializer::Uniform { low: -1.0, high: 1.0, seed: 0 };
    let table = || Embedding { param_attr: ParamAttr::init(start.clone()), ..Embedding::default() };
    let one = layers::embedding(b, &one, [1000, 8], table()).unwrap();
    let many = layers::embedding(b, &many, [1000, 8], table()).unwrap();
    let many = layers::sequence_pool(b, &many, "average", SequencePool::default()).unwrap();
    let joined = layers::concat(b, &[one, many, x], 1, None).unwrap();
    let relu = || Fc { act: Some("relu"), ..Fc::default() };
    let hidden = layers::fc(b, &[joined], 100, relu()).unwrap();
    let hidden = layers::fc(b, &[hidden], 33, relu()).unwrap();
    let softmax = Fc { act: Some("softmax"), ..Fc::default() };
    let out = layers::fc(b, &[hidden], 2, softmax).unwrap();
    let session = Session::start(net);
    let (feeds, targets) = (["one", "many", "x"], [out.name()]);
    let options = SaveInference { feeds: &feeds, targets: &targets, ..SaveInference::default() };
    io::save_inference_model(&session.scope, dir, &session.net.main, &options).unwrap();
}

/// Samples `first..first + n`, each what its number makes it.
fn numbered(predictor: &Predictor, first: usize, n: usize) -> Samples {
    let mut batch = predictor.batch();
    let id = |at: usize| (mix(at as u64) % 1000) as i64;
    let ones: Vec<i64> = (first..first + n).map(id).collect();
    let lengths: Vec<usize> = (first..first + n).map(|at| at % 4).collect();
    let many: Vec<i64> =
        (first..first + n).flat_map(|at| (0..at % 4).map(move |k| id(7 * at + k))).collect();
    let x: Vec<f32> = (3 * first..3 * (first + n)).map(|at| id(at) as f32 / 1000.0).collect();
    batch.set("one", Column::Integers(&ones)).unwrap();
    batch.set("many", Column::Sequences { values: &many, lengths: &lengths }).unwrap();
    batch.set("x", Column::Numbers(&x)).unwrap();
    batch
}

fn numbers(predictor: &Predictor, batch: &mut Samples) -> Vec<f32> {
    predictor.predict(batch).unwrap()[0].data::<f32>().unwrap().to_vec()
}

#[test]
fn a_sample_has_the_same_bits_alone_among_others_and_in_parts() {
    let dir = tempfile::tempdir().unwrap();
    save_layers(dir.path());
    let predictor = Predictor::load(dir.path()).unwrap();
    let n = 1003;
    let alone: Vec<f32> =
        (0..n).flat_map(|at| numbers(&predictor, &mut numbered(&predictor, at, 1))).collect();
    for n_threads in [1, 2, 5] {
        predictor.set_threads(n_threads);
        let whole = numbers(&predictor, &mut numbered(&predictor, 0, n));
        assert_eq!(whole, alone, "with {n_threads} threads");
        // More threads than compute at the same time: they wait, and are computed together.
        std::thread::scope(|threads| {
            for thread in 0..8 {
                let (predictor, alone) = (&predictor, &alone);
                threads.spawn(move || {
                    for turn in 0..40 {
                        let (first, n) = ((thread * 40 + turn) * 3, 1 + turn % 3);
                        let own = numbers(predictor, &mut numbered(predictor, first, n));
                        assert_eq!(own, alone[2 * first..2 * (first + n)]);
                    }
                });
            }
        });
    }
    // The executor sums in another order.
    let scope = Scope::new();
    let model = io::load_inference_model(&scope, dir.path(), None, None).unwrap();
    let fetches: Vec<&str> = model.fetches.iter().map(String::as_str).collect();
    let mut feed = Feed::new();
    let ids: Vec<i64> = (0..n).map(|at| (mix(at as u64) % 1000) as i64).collect();
    let lengths: Vec<usize> = (0..n).map(|at| at % 4).collect();
    let id = |at: usize| (mix(at as u64) % 1000) as i64;
    let many: Vec<i64> = (0..n).flat_map(|at| (0..at % 4).map(move |k| id(7 * at + k))).collect();
    let x: Vec<f32> = (0..3 * n).map(|at| id(at) as f32 / 1000.0).collect();
    feed.set("one", Tensor::new([n, 1], &ids).unwrap());
    let mut sequences = Tensor::new([many.len(), 1], &many).unwrap();
    sequences.set_lod(Lod::from_lengths(lengths));
    feed.set("many", sequences);
    feed.set("x", Tensor::new([n, 3], &x).unwrap());
    let ran = Executor::new().run(&model.program, &scope, &mut feed, &fetches).unwrap();
    for (ours, executors) in alone.iter().zip(ran[0].data::<f32>().unwrap()) {
        assert!((ours - executors).abs() < 1e-6, "{ours} and {executors}");
    }
}

#[test]
fn a_wrong_id_fails_its_own_request_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    save_layers(dir.path());
    let predictor = Predictor::load(dir.path()).unwrap();
    predictor.set_threads(1);
    let right = numbers(&predictor, &mut numbered(&predictor, 3, 2));
    std::thread::scope(|threads| {
        for thread in 0..6 {
            let (predictor, right) = (&predictor, &right);
            threads.spawn(move || {
                for _ in 0..40 {
                    let mut batch = numbered(predictor, 3, 2);
                    if thread % 3 > 0 {
                        assert_eq!(&numbers(predictor, &mut batch), right);
                        continue;
                    }
                    batch.set("one", Column::Integers(&[5, 1000])).unwrap();
                    let error = predictor.predict(&mut batch).unwrap_err();
                    assert!(matches!(error, Error::IdOutOfRange { id: 1000, .. }), "{error}");
                }
            });
        }
    });
}

#[test]
fn what_looks_at_the_whole_batch_sees_the_whole_batch() {
    let dir = tempfile::tempdir().unwrap();
    let mut net = Net::with_seed(7);
    let b = &mut net.builder();
    let x = layers::data(b, "x", &[1], Data::default()).unwrap();
    let of_batch = Reduce { dim: Some(&[0]), keep_dim: true, ..Reduce::default() };
    let mean = layers::reduce_mean(b, &x, of_batch).unwrap();
    let out = layers::elementwise_sub(b, &x, &mean, Elementwise::default()).unwrap();
    let session = Session::start(net);
    let (feeds, targets) = (["x"], [out.name()]);
    let options = SaveInference { feeds: &feeds, targets: &targets, ..SaveInference::default() };
    io::save_inference_model(&session.scope, dir.path(), &session.net.main, &options).unwrap();
    let predictor = Predictor::load(dir.path()).unwrap();
    predictor.set_threads(1);
    std::thread::scope(|threads| {
        for thread in 0..4 {
            let predictor = &predictor;
            threads.spawn(move || {
                for _ in 0..50 {
                    let n = 2 + 300 * (thread % 2);
                    let x: Vec<f32> = (0..n).map(|at| (at % 2 + 10 * thread) as f32).collect();
                    let mut batch = predictor.batch();
                    batch.set("x", Column::Numbers(&x)).unwrap();
                    let out = numbers(predictor, &mut batch);
                    assert_eq!((out[0], out[1]), (-0.5, 0.5));
                }
            });
        }
    });
}
