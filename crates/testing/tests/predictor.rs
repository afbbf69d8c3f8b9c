//! A saved model, used by many threads: numbers of the real Fluid, newer models, wrong input.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use predict::{Column, Error, ModelFiles, Predictor};
use program::layers::{self, Data, Embedding, Fc, SequencePool};
use program::{Initializer, Net, ParamAttr};
use tensor::{DType, Tensor};
use testing::golden;
use testing::session::Session;
use train::io::{self, SaveInference};

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
    for (dir, names) in [("inference", ModelFiles::default()), ("inference_combined", combined)] {
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
