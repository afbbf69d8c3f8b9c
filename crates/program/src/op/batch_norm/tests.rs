use super::*;
use crate::op::check::{Check, check, t};

/// Two channels, Scale [2, 1], Bias [0.5, 0], running mean [1, 2], running variance [4, 1].
fn norm(x: Tensor) -> Check {
    check("batch_norm")
        .input("X", x)
        .input("Scale", t(&[2], &[2.0, 1.0]))
        .input("Bias", t(&[2], &[0.5, 0.0]))
        .input("Mean", t(&[2], &[1.0, 2.0]))
        .input("Variance", t(&[2], &[4.0, 1.0]))
        .attr("epsilon", 0.0f32)
        .attr("momentum", 0.75f32)
}

fn flat() -> Tensor {
    t(&[2, 2], &[1.0, 2.0, 3.0, 6.0])
}

#[test]
fn normalises_with_the_batch_and_moves_the_running_statistics() {
    norm(flat())
        .gives("Y", t(&[2, 2], &[-1.5, -1.0, 2.5, 1.0]))
        .gives("SavedMean", t(&[2], &[2.0, 4.0]))
        .gives("SavedVariance", t(&[2], &[1.0, 0.5]))
        .gives("MeanOut", t(&[2], &[1.25, 2.5]))
        .gives("VarianceOut", t(&[2], &[3.25, 1.75]));
}

#[test]
fn testing_uses_the_running_statistics() {
    for attr in ["is_test", "use_global_stats"] {
        let check = norm(flat()).attr(attr, true);
        check.gives("Y", t(&[2, 2], &[0.5, 0.0, 2.5, 4.0]));
    }
}

#[test]
fn both_layouts_mean_the_same() {
    // [1, 2, 2, 1] with channels (1, 3) and (2, 6), and the same with the channels last.
    let nchw = norm(t(&[1, 2, 2, 1], &[1.0, 3.0, 2.0, 6.0]));
    nchw.gives("Y", t(&[1, 2, 2, 1], &[-1.5, 2.5, -1.0, 1.0]));
    let nhwc = norm(t(&[1, 2, 1, 2], &[1.0, 2.0, 3.0, 6.0])).attr("data_layout", "NHWC");
    nhwc.gives("Y", t(&[1, 2, 1, 2], &[-1.5, -1.0, 2.5, 1.0]));
}

#[test]
fn one_number_per_channel_passes() {
    norm(t(&[1, 2], &[5.0, 6.0])).gives("Y", t(&[1, 2], &[5.0, 6.0]));
}

#[test]
fn gradient_matches_finite_differences() {
    let x = [0.3, -1.2, 0.8, 2.1, -0.5, 0.4, 1.7, -0.9, 0.6, 1.1, -2.0, 0.2];
    let outputs = |check: Check| {
        let check = check.output("Y").aux("MeanOut").aux("VarianceOut");
        check.aux("SavedMean").aux("SavedVariance").grad(&["X", "Scale", "Bias"]);
    };
    outputs(norm(t(&[3, 2, 2], &x)));
    outputs(norm(t(&[3, 2, 2], &x)).attr("data_layout", "NHWC"));
    outputs(norm(t(&[6, 2], &x)).attr("epsilon", 0.1f32));
    outputs(norm(t(&[6, 2], &x)).attr("use_global_stats", true));
}

#[test]
fn refuses_other_channels_ranks_and_empty_batches() {
    let error = norm(t(&[2, 3], &[0.0; 6])).output("Y").fails();
    assert!(matches!(error.root(), Error::Shapes { .. }), "{error}");
    let error = norm(t(&[2], &[0.0; 2])).output("Y").fails();
    assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    let error = norm(t(&[0, 2], &[])).output("Y").fails();
    assert!(matches!(error.root(), Error::Shape { .. }), "{error}");
    let error = norm(flat()).attr("data_layout", "CNHW").output("Y").fails();
    assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
}
