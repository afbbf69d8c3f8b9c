//! Normalisation, and dropout, as they are when nothing is trained.

use tensor::Shape;

use super::convert::{CUT, Convert, int, ints};
use super::graph::number_of;
use super::proto::NodeField;
use crate::error::Result;

/// Advice about an op that is still in training.
const TEST: &str =
    "Save the model with fluid.io.save_inference_model, which turns training off in its ops";

pub(super) fn batch_norm(c: &mut Convert<'_>) -> Result<()> {
    let attrs = &c.op.attrs;
    let is_test = attrs.bool("is_test", false)? && !attrs.bool("trainable_statistics", false)?;
    if !is_test && !attrs.bool("use_global_stats", false)? {
        return Err(c.refuse("it normalises by the batch, as in training", TEST));
    }
    let is_last = attrs.str("data_layout", "NCHW")? == "NHWC" && c.rank("X")? > 2;
    let epsilon = attrs.float("epsilon", 1e-5)?;
    let ports = ["X", "Scale", "Bias", "Mean", "Variance"];
    let values = ports.map(|port| c.input(port));
    let mut inputs = Vec::new();
    for value in values {
        inputs.push(value?);
    }
    let fields = vec![("epsilon", NodeField::Float(epsilon))];
    let rank = c.rank("X")? as i64;
    if is_last {
        let first: Vec<i64> = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
        inputs[0] = c.node("Transpose", &[&inputs[0]], ints("perm", first));
    }
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    if !is_last {
        return c.out("Y", "BatchNormalization", &inputs, fields);
    }
    let made = c.node("BatchNormalization", &inputs, fields);
    let last: Vec<i64> = [0].into_iter().chain(2..rank).chain([1]).collect();
    c.out("Y", "Transpose", &[&made], ints("perm", last))
}

pub(super) fn layer_norm(c: &mut Convert<'_>) -> Result<()> {
    let begin = c.op.attrs.int("begin_norm_axis", 1)?;
    let epsilon = c.op.attrs.float("epsilon", 1e-5)?;
    let dims = c.meta("X")?.dims;
    let inner = dims.get(begin as usize..).unwrap_or_default().to_vec();
    if inner.iter().any(|&dim| dim < 0) {
        return Err(c.refuse("the size that it normalises is not known", CUT));
    }
    let sizes: Vec<usize> = inner.iter().map(|&dim| dim as usize).collect();
    let dtype = c.dtype("X")?;
    let x = c.input("X")?;
    let mut inputs = vec![x];
    for (port, number) in [("Scale", 1.0), ("Bias", 0.0)] {
        inputs.push(if c.has(port) {
            let value = c.input(port)?;
            c.reshaped(&value, &inner)
        } else {
            c.graph.constant("numbers", number_of(dtype, number, Shape::new(&sizes)))
        });
    }
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    let fields = vec![("axis", NodeField::Int(begin)), ("epsilon", NodeField::Float(epsilon))];
    c.out("Y", "LayerNormalization", &inputs, fields)
}

/// (X - BatchSum / BatchSize) sqrt(BatchSize / BatchSquareSum).
pub(super) fn data_norm(c: &mut Convert<'_>) -> Result<()> {
    if c.op.attrs.int("slot_dim", -1)? > 0 {
        return Err(c.refuse("its columns come in groups with a show count", CUT));
    }
    let x = c.input("X")?;
    let (size, sum) = (c.input("BatchSize")?, c.input("BatchSum")?);
    let squares = c.input("BatchSquareSum")?;
    let mean = c.node("Div", &[&sum, &size], Vec::new());
    let ratio = c.node("Div", &[&size, &squares], Vec::new());
    let scale = c.node("Sqrt", &[&ratio], Vec::new());
    let centred = c.node("Sub", &[&x, &mean], Vec::new());
    c.out("Y", "Mul", &[&centred, &scale], Vec::new())
}

/// X / sqrt(sum of squares + epsilon).
pub(super) fn norm(c: &mut Convert<'_>) -> Result<()> {
    let axis = c.axis("axis", -1, c.rank("X")?)?;
    let epsilon = c.number("X", f64::from(c.op.attrs.float("epsilon", 1e-10)?))?;
    let x = c.input("X")?;
    let squares = c.node("Mul", &[&x, &x], Vec::new());
    let axes = c.graph.ints(&[axis]);
    let sum = c.node("ReduceSum", &[&squares, &axes], int("keepdims", 1));
    let sum = c.node("Add", &[&sum, &epsilon], Vec::new());
    let length = c.node("Sqrt", &[&sum], Vec::new());
    c.out("Out", "Div", &[&x, &length], Vec::new())
}

/// X · Y / (|X| |Y|), row by row.
pub(super) fn cos_sim(c: &mut Convert<'_>) -> Result<()> {
    if c.rank("X")? != 2 {
        return Err(c.refuse("X is not a matrix", CUT));
    }
    let (x, y) = (c.input("X")?, c.input("Y")?);
    let axes = c.graph.ints(&[1]);
    let mut sums = Vec::new();
    for (left, right) in [(&x, &y), (&x, &x), (&y, &y)] {
        let product = c.node("Mul", &[left, right], Vec::new());
        sums.push(c.node("ReduceSum", &[&product, &axes], int("keepdims", 1)));
    }
    let x_length = c.node("Sqrt", &[&sums[1]], Vec::new());
    let y_length = c.node("Sqrt", &[&sums[2]], Vec::new());
    let lengths = c.node("Mul", &[&x_length, &y_length], Vec::new());
    c.out("Out", "Div", &[&sums[0], &lengths], Vec::new())
}

pub(super) fn dropout(c: &mut Convert<'_>) -> Result<()> {
    let attrs = &c.op.attrs;
    if !attrs.bool("is_test", false)? {
        return Err(c.refuse("it drops numbers, as in training", TEST));
    }
    let p = attrs.float("dropout_prob", 0.5)?;
    let keeps = attrs.str("dropout_implementation", "downgrade_in_infer")? == "upscale_in_train";
    let x = c.input("X")?;
    if keeps || p == 0.0 {
        return c.out("Out", "Identity", &[&x], Vec::new());
    }
    let stays = c.number("X", f64::from(1.0 - p))?;
    c.out("Out", "Mul", &[&x, &stays], Vec::new())
}
