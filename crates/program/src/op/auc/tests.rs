use tensor::{Tensor, Value};

use super::*;
use crate::op::check::{Check, check, ids};

fn predict(p: &[f32]) -> Tensor {
    let both: Vec<f32> = p.iter().flat_map(|&p| [1.0 - p, p]).collect();
    Tensor::new([p.len(), 2], &both).unwrap()
}

fn auc(p: &[f32], labels: &[i64], states: (Tensor, Tensor), n_steps: i32) -> Check {
    check("auc")
        .input("Predict", predict(p))
        .input("Label", ids(&[labels.len(), 1], labels))
        .input("StatPos", states.0)
        .input("StatNeg", states.1)
        .attr("num_thresholds", 7)
        .attr("slide_steps", n_steps)
        .output("AUC")
        .output("StatPosOut")
        .output("StatNegOut")
}

fn tensor(value: Value) -> Tensor {
    match value {
        Value::Tensor(tensor) => tensor,
        other => panic!("{other:?}"),
    }
}

fn zeros(dims: &[usize]) -> (Tensor, Tensor) {
    (Tensor::full(dims, 0i64), Tensor::full(dims, 0i64))
}

/// The area after one batch, and the states.
fn step(
    p: &[f32],
    labels: &[i64],
    states: (Tensor, Tensor),
    n_steps: i32,
) -> (f64, (Tensor, Tensor)) {
    let check = auc(p, labels, states, n_steps);
    let area = tensor(check.run("AUC")).data::<f64>().unwrap()[0];
    (area, (tensor(check.run("StatPosOut")), tensor(check.run("StatNegOut"))))
}

#[test]
fn the_vectors_of_the_specification() {
    let once = |p: &[f32], labels: &[i64]| step(p, labels, zeros(&[1, 8]), 0).0;
    // 7 thresholds keep .35 and .4 together, so the pair counts one half.
    assert_eq!(once(&[0.1, 0.4, 0.35, 0.8], &[0, 0, 1, 1]), 0.875);
    assert_eq!(once(&[0.5, 0.5, 0.5, 0.9], &[0, 1, 1, 1]), 2.0 / 3.0);
    assert_eq!(once(&[0.5, 0.9], &[1, 1]), 0.0, "one class only");
    assert_eq!(once(&[], &[]), 0.0, "nothing");
    let fine = check("auc")
        .input("Predict", predict(&[0.1, 0.4, 0.35, 0.8]))
        .input("Label", ids(&[4, 1], &[0, 0, 1, 1]))
        .input("StatPos", Tensor::full([1, 4096], 0i64))
        .input("StatNeg", Tensor::full([1, 4096], 0i64))
        .attr("slide_steps", 0)
        .output("AUC");
    assert_eq!(tensor(fine.run("AUC")).data::<f64>().unwrap(), [0.75]);
}

#[test]
fn the_total_counts_every_batch() {
    let (_, states) = step(&[0.1, 1.0], &[0, 1], zeros(&[1, 8]), 0);
    let (_, states) = step(&[0.1, 0.0], &[1, -1], states, 0);
    assert_eq!(states.0, ids(&[1, 8], &[1, 0, 0, 0, 0, 0, 0, 1]));
    assert_eq!(states.1, ids(&[1, 8], &[1, 0, 0, 0, 0, 0, 0, 0]), "a negative label is no class");
}

#[test]
fn both_layouts_of_the_window_agree() {
    let batches: [(&[f32], &[i64]); 5] = [
        (&[0.1, 0.9, 0.3], &[0, 1, 1]),
        (&[0.7, 0.2, 0.3], &[0, 1, 0]),
        (&[0.6, 0.4, 0.8], &[1, 0, 0]),
        (&[0.5, 0.9, 0.2], &[0, 0, 1]),
        (&[1.0, 0.0, 0.3], &[1, 0, 1]),
    ];
    for n_steps in [1, 2, 3] {
        let mut shifting = zeros(&[n_steps, 8]);
        let mut ring = zeros(&[(n_steps + 1) * 8 + 1]);
        for (k, (p, labels)) in batches.iter().enumerate() {
            let (a, b);
            (a, shifting) = step(p, labels, shifting, n_steps as i32);
            (b, ring) = step(p, labels, ring, n_steps as i32);
            assert_eq!(a, b, "{n_steps} steps, batch {k}");
            let window = &batches[(k + 1).saturating_sub(n_steps)..=k];
            let p: Vec<f32> = window.iter().flat_map(|(p, _)| p.to_vec()).collect();
            let labels: Vec<i64> = window.iter().flat_map(|(_, labels)| labels.to_vec()).collect();
            assert_eq!(a, step(&p, &labels, zeros(&[1, 8]), 0).0, "the window at once");
        }
        assert_eq!(ring.0.get_f64((n_steps + 1) * 8), 5.0, "batches are counted");
    }
}

#[test]
fn refuses_what_is_no_probability_and_leaves_the_states() {
    for (p, text) in [(1.5, "less or equal 1"), (-0.5, "gather or equal 0"), (f32::NAN, "less")] {
        let error = auc(&[0.5, p], &[0, 1], zeros(&[1, 8]), 0).fails();
        assert!(matches!(error.root(), Error::BadValue { position: 3, .. }), "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[test]
fn refuses_shapes_that_do_not_fit() {
    let error = auc(&[0.5], &[0], zeros(&[2, 7]), 2).fails();
    assert!(matches!(error.root(), Error::Shape { rule: STATES, .. }), "{error}");
    let error = auc(&[0.5, 0.5], &[0], zeros(&[1, 8]), 0).fails();
    assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    let wide = check("auc")
        .input("Predict", Tensor::full([1, 3], 0.5f32))
        .input("Label", ids(&[1, 1], &[0]))
        .input("StatPos", Tensor::full([1, 8], 0i64))
        .input("StatNeg", Tensor::full([1, 8], 0i64))
        .output("AUC");
    assert!(matches!(wide.fails().root(), Error::Shape { rule: WIDTH, .. }));
}
