//! AUC over all batches and over the last few: exactly Fluid's, histograms included.
#![allow(clippy::unwrap_used)] // A test that unwraps fails, which is what it is for.

use program::Net;
use program::layers::{self, Auc, AucVars, Data};
use tensor::{DType, Tensor};
use testing::close::numbers;
use testing::golden::{self, Golden};
use testing::session::Session;
use train::Feed;

fn build(num_thresholds: i32, slide_steps: i32) -> (Session, AucVars) {
    let mut net = Net::default();
    let mut b = net.builder();
    let p = layers::data(&mut b, "p", &[2], Data::default()).unwrap();
    let label = Data { dtype: DType::I64, ..Data::default() };
    let label = layers::data(&mut b, "l", &[1], label).unwrap();
    let options = Auc { num_thresholds, slide_steps, ..Auc::default() };
    let vars = layers::auc(&mut b, &p, &label, options).unwrap();
    (Session::start(net), vars)
}

/// One batch: probabilities of class 1 and labels, with the columns the op wants.
fn feed(golden: &Golden, key: &str, batch: usize) -> Feed {
    let prob = golden.part(&format!("{key}/prob1"), batch);
    let both = prob.data::<f32>().unwrap().iter().flat_map(|&p| [1.0 - p, p]);
    let both: Vec<f32> = both.collect();
    let mut label = golden.part(&format!("{key}/label"), batch);
    label.reshape([prob.len(), 1].into()).unwrap();
    Feed::new().with("p", Tensor::new([prob.len(), 2], &both).unwrap()).with("l", label)
}

#[test]
fn values_and_histograms_are_exact() {
    let golden = Golden::load("auc.npz");
    let config = golden::json("config.json");
    for case in config["auc"].as_array().unwrap() {
        let number = |name: &str| case[name].as_u64().unwrap() as usize;
        let (thresholds, slide) = (number("thresholds"), number("slide"));
        let key = format!("T{thresholds}_S{slide}");
        let (mut session, vars) = build(thresholds as i32, slide as i32);
        let auc = golden.numbers(&format!("{key}/auc"));
        let batch_auc = golden.numbers(&format!("{key}/batch_auc"));
        for batch in 0..number("batches") {
            let fetch = [vars.auc.name(), vars.batch_auc.name()];
            let got = session.run(&mut feed(&golden, &key, batch), &fetch);
            assert_eq!(got[0].data::<f64>().unwrap(), [auc[batch]], "{key} batch {batch}");
            assert_eq!(got[1].data::<f64>().unwrap(), [batch_auc[batch]], "{key} batch {batch}");
        }
        let names = ["batch_stat_pos", "batch_stat_neg", "stat_pos", "stat_neg"];
        for (name, state) in names.into_iter().zip(&vars.states) {
            // Rows of the window, their sum, a counter: as 1.8.5 keeps and saves them.
            let theirs = golden.numbers(&format!("{key}/{name}"));
            assert_eq!(numbers(&session.tensor(state.name())), theirs, "{key} {name}");
        }
    }
}

#[test]
fn a_state_set_to_zero_forgets() {
    let golden = Golden::load("auc.npz");
    let (mut session, vars) = build(100, 3);
    let fetch = [vars.auc.name(), vars.batch_auc.name()];
    let fresh = session.run(&mut feed(&golden, "T100_S3", 0), &fetch);
    session.run(&mut feed(&golden, "T100_S3", 1), &fetch);
    for state in &vars.states {
        let dims = session.tensor(state.name()).shape();
        session.scope.set(state.name(), Tensor::full(dims, 0i64));
    }
    assert_eq!(session.run(&mut feed(&golden, "T100_S3", 0), &fetch), fresh);
}

/// States of Fluid up to 1.6 hold the rows of the window only, the oldest first.
#[test]
fn a_window_of_an_older_version_goes_on() {
    let golden = Golden::load("auc.npz");
    let (mut session, vars) = build(100, 3);
    let fetch = [vars.auc.name(), vars.batch_auc.name()];
    let batches = 5;
    for batch in 0..batches {
        session.run(&mut feed(&golden, "T100_S3", batch), &fetch);
    }
    for state in &vars.states[..2] {
        let ring = session.tensor(state.name());
        let ring = ring.data::<i64>().unwrap();
        // After 5 batches row 2 is the oldest, then come rows 0 and 1.
        let old: Vec<i64> =
            [2, 0, 1].iter().flat_map(|row| &ring[row * 101..][..101]).copied().collect();
        session.scope.set(state.name(), Tensor::new([3, 101], &old).unwrap());
    }
    let expected = golden.numbers("T100_S3/batch_auc");
    for (batch, expected) in expected.iter().enumerate().skip(batches).take(2) {
        let got = session.run(&mut feed(&golden, "T100_S3", batch), &fetch);
        assert_eq!(got[1].data::<f64>().unwrap(), [*expected], "batch {batch}");
    }
    let state = session.tensor(vars.states[0].name());
    assert_eq!(state.dims(), [4 * 101 + 1], "it is saved as 1.8.5 has it");
}
