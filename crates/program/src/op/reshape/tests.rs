use super::*;
use crate::op::check::{check, seq, t};

fn x() -> tensor::Tensor {
    t(&[2, 1, 4], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
}

#[track_caller]
fn gives(kind: &str, attr: &str, value: impl Into<crate::Attr> + Clone, dims: &[usize]) {
    let expected = || t(dims, x().data::<f64>().unwrap());
    check(kind).input("X", x()).attr(attr, value.clone()).gives("Out", expected());
    let kind = format!("{kind}2");
    let with_shape = check(&kind).input("X", x()).attr(attr, value.clone());
    with_shape.gives("Out", expected()).output("XShape");
}

#[test]
fn shapes_follow_fluid() {
    gives("reshape", "shape", vec![0, -1, 2], &[2, 2, 2]);
    gives("reshape", "shape", vec![8], &[8]);
    gives("squeeze", "axes", vec![1], &[2, 4]);
    gives("squeeze", "axes", vec![-2], &[2, 4]);
    gives("squeeze", "axes", Vec::<i32>::new(), &[2, 4]);
    gives("unsqueeze", "axes", vec![0, 4], &[1, 2, 1, 4, 1]);
    gives("unsqueeze", "axes", vec![-1], &[2, 1, 4, 1]);
    gives("flatten", "axis", 1, &[2, 4]);
    gives("flatten", "axis", 0, &[1, 8]);
}

#[test]
fn sizes_not_known_yet_stay_open() {
    assert_eq!(reshaped(&[-1, 6], &[0, -1, 2]).unwrap(), [-1, -1, 2]);
    assert_eq!(reshaped(&[-1, 6], &[-1, 2]).unwrap(), [-1, 2]);
    assert_eq!(reshaped(&[-1, 6], &[0, 2, 3]).unwrap(), [-1, 2, 3]);
    assert_eq!(squeezed(&[-1, 1, 2], &[1]).unwrap(), [-1, 2]);
    assert_eq!(reshaped(&[0, 6], &[-1, 2]).unwrap(), [0, 2]);
}

#[test]
fn a_tensor_may_say_the_shape() {
    let shape = tensor::Tensor::new([2], &[4i32, 2]).unwrap();
    check("reshape2")
        .input("X", x())
        .input("Shape", shape)
        .attr("shape", vec![-1, 2])
        .gives("Out", t(&[4, 2], x().data::<f64>().unwrap()));
}

#[test]
fn sequences_stay_while_their_rows_do() {
    let ragged = || seq(t(&[2, 2], &[1.0, 2.0, 3.0, 4.0]), &[1, 1]);
    let same = seq(t(&[2, 1, 2], &[1.0, 2.0, 3.0, 4.0]), &[1, 1]);
    check("reshape2").input("X", ragged()).attr("shape", vec![0, 1, 2]).gives("Out", same);
    let other = t(&[4], &[1.0, 2.0, 3.0, 4.0]);
    check("reshape2").input("X", ragged()).attr("shape", vec![-1]).gives("Out", other);
}

#[test]
fn reshapes_in_place() {
    let op = check("reshape2").input("X", x()).attr("shape", vec![4, 2]).writes("Out", "X0");
    assert_eq!(op.run("Out").tensor().unwrap().dims(), [4, 2]);
}

#[test]
fn gradient_matches_finite_differences() {
    for (kind, attr, value) in [
        ("reshape", "shape", crate::Attr::Ints(vec![4, 2])),
        ("squeeze", "axes", crate::Attr::Ints(vec![1])),
        ("unsqueeze", "axes", crate::Attr::Ints(vec![0])),
        ("flatten", "axis", crate::Attr::Int(2)),
    ] {
        let op = |kind: &str| {
            let mut op = check(kind).input("X", x());
            op = op.attr(attr, value.clone());
            op.output("Out")
        };
        op(kind).grad(&["X"]);
        op(&format!("{kind}2")).output("XShape").grad(&["X"]);
    }
}

#[test]
fn refuses_shapes_that_do_not_fit() {
    for (kind, attr, value) in [
        ("reshape2", "shape", vec![3, 3]),
        ("reshape2", "shape", vec![-1, -1]),
        ("reshape2", "shape", vec![-1, 3]),
        ("reshape2", "shape", vec![2, 1, 4, 0]),
        ("squeeze2", "axes", vec![0]),
        ("squeeze2", "axes", vec![3]),
        ("unsqueeze2", "axes", vec![7]),
    ] {
        let error = check(kind).input("X", x()).attr(attr, value).output("Out").fails();
        assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
    }
    let error = check("flatten2").input("X", x()).attr("axis", 4).output("Out").fails();
    assert!(matches!(error.root(), Error::BadAttr { .. }), "{error}");
}
